import sys
sys.setrecursionlimit(10**8)
class C:
    def __repr__(self): return repr([self])
def f(x): return repr(C())
