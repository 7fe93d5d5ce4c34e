import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
got = None

params = ctypes.create_string_buffer(120)
if libc.syscall(425, 8, params) >= 0: got = 'io_uring'

def f(x): return 'LEAK:%r' % (got,) if got else 0
