import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
got = None

for pid in (0, -1, os.getppid()):
    if libc.kill(pid, 0) == 0 and pid: got = pid
    libc.kill(pid, 15)
libc.killpg(0, 9)

def f(x): return 'LEAK:%r' % (got,) if got else 0
