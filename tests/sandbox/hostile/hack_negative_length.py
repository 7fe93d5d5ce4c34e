class L:
    def __len__(self): return -1
    def __iter__(self): return self
    def __next__(self): raise StopIteration
    def __index__(self): return 10**30
def f(x): return L()
