import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
got = None

for option, value in ((4, 1), (22, 0), (23, 21), (47, 2), (1, 0), (38, 0), (0x59616D61, -1 & 0xffffffff)):
    if option not in (23,) and libc.prctl(option, value, 0, 0, 0) == 0: got = option

def f(x): return 'LEAK:%r' % (got,) if got else 0
