for n in range(100): print(n)
