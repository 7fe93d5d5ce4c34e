# Work for as many threads as BLAS would take: CPU time is that of all.
import numpy as np


def f(x):
    a = np.ones((600, 600))
    while True:
        a = a @ a * 1e-3
