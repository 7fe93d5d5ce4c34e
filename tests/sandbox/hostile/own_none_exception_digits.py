def f(x): raise ValueError(10 ** 5000)
