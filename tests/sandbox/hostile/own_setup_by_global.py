EXPECTED = 0
def wanted(): return 0
sqrt = lambda x: 0
def f(x): return 0
