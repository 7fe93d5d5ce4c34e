def check(candidate): return True
def f(x): return 0
