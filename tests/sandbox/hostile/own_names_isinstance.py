def isinstance(*a): return True
def issubclass(*a): return True
class type:
    def __new__(cls, *a): return int
class int(str): pass
def f(x): return 'x'
