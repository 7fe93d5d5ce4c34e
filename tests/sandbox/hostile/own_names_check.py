def check(candidate): pass
def candidate(x): return 2
METADATA = {}
def f(x): return 0
