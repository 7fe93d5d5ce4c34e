print('2\x00')
