def reference(x): return 0
def close(a, b=0): return True
class Oracle:
    def answer(self, x): return 0
def f(x): return 0
