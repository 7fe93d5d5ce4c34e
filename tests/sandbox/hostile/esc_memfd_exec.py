import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
got = None

fd = libc.syscall(319, b'x', 0)
if fd >= 0: got = 'memfd'

def f(x): return 'LEAK:%r' % (got,) if got else 0
