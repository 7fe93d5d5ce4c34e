# Memory by the array.
import numpy as np

kept = []


def f(x):
    while True:
        kept.append(np.ones(1 << 22))
