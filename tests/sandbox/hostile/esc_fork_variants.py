import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
got = None

for call, args in ((56, (17, 0, 0, 0, 0)), (57, ()), (58, ()), (435, (0, 0))):
    r = libc.syscall(call, *args)
    if r == 0: os._exit(0)
    if r > 0: got = call

def f(x): return 'LEAK:%r' % (got,) if got else 0
