def reference(x): return 0
def f(x): return 0
