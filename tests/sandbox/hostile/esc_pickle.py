# A pickle that np.load executes: no more than what the program may do anyway.
import io
import os
import pickle

import numpy as np


class Run:
    def __reduce__(self):
        return os.system, ("cat @SECRET_FILE@; touch @HOST_DIR@/pickled",)


class Open:
    def __reduce__(self):
        return open, ("@SECRET_FILE@",)


for kind in (Run, Open):
    file = io.BytesIO()
    np.save(file, np.array([kind()], dtype=object), allow_pickle=True)
    file.seek(0)
    try:
        found = np.load(file, allow_pickle=True)
        print("LEAK:", found[0].read())
    except (OSError, AttributeError, pickle.PickleError):
        pass


def f(x):
    return np.array([Run(), Open()], dtype=object)
