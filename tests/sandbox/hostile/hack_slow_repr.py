class S:
    def __repr__(self):
        while True: pass
    __str__ = __repr__
def f(x): return S()
