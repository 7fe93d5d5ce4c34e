# An honest program.
import numpy as np
from numpy.linalg import solve


def f(x):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(3, 3))
    b = a @ np.ones(3)
    return solve(a, b) * x
