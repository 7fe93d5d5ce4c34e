print('inf nan 1e999 -inf')
