# A column so tall that comparing it with a row takes more memory, or time, than there is.
import numpy as np


def f(x):
    return np.zeros((1_000_000, 1))
