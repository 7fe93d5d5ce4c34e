def f(x): return {i * (2**61 - 1): 0 for i in range(30000)}
