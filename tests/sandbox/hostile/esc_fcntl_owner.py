import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
got = None

import fcntl, signal
r, w = os.pipe()
for pid in (os.getppid(), -os.getpgid(0) if False else 1):
    try:
        fcntl.fcntl(r, 8, pid); fcntl.fcntl(r, 10, 9); got = pid
    except OSError: pass

def f(x): return 'LEAK:%r' % (got,) if got else 0
