print()
print(2)
