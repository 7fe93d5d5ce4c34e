# What broadcasts to nothing, and what equals nothing.
import numpy as np


def f(x):
    return [np.array([]), np.zeros((0, 2)), np.full(2, np.nan), np.ma.masked_all(2), [[], []]][x % 5]
