print('1\t2')
