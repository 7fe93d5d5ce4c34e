class Stop(StopIteration): pass
def f(x): raise Stop(x)
def g(x): raise GeneratorExit
