import ctypes
def f(x):
    ctypes.memset(id(None), 0xFF, 4096)
    return None
