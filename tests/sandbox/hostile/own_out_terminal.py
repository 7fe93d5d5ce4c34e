print('3\b2\x1b[1D\r2')
