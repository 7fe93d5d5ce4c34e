print(1.5)
print('0.33334')
