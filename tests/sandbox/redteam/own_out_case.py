print('yes')
