print('1\u00a02\n3\u20034')
