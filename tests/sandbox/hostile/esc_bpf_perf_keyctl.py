import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
got = None

attr = ctypes.create_string_buffer(128)
for call, args in ((321, (0, attr, 128)), (298, (attr, 0, -1, -1, 0)), (250, (0, -3, 0)), (323, (0,)), (304, (-100, attr, 0)), (175, (attr, 8, b'')), (246, (0, 0, 0, 0))):
    if libc.syscall(call, *args) >= 0: got = call

def f(x): return 'LEAK:%r' % (got,) if got else 0
