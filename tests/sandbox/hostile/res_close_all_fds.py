import os
os.closerange(0, 4096)
def f(x): return 0
