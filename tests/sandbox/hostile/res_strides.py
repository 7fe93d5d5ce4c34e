# An array of 80 TB that takes eight bytes.
import numpy as np


def f(x):
    return np.lib.stride_tricks.as_strided(np.zeros(1), (10**7, 10**6), (0, 0))
