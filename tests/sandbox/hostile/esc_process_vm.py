import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
got = None

buffer = ctypes.create_string_buffer(64)
for pid in (os.getppid(), 1, 2, 3):
    if libc.syscall(310, pid, buffer, 1, buffer, 1, 0) > 0: got = pid
    if libc.ptrace(16, pid, 0, 0) == 0: got = pid
    if libc.syscall(434, pid, 0) >= 0: got = pid

def f(x): return 'LEAK:%r' % (got,) if got else 0
