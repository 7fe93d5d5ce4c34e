# The C library by numpy.ctypeslib: a shell, a process, a socket, another user.
import ctypes

import numpy.ctypeslib as npct

try:
    libc = npct.load_library("libc.so.6", "/usr/lib/x86_64-linux-gnu")
except OSError:
    libc = ctypes.CDLL(None)
got = []
for name, call in {
    "system": lambda: libc.system(b"cat @SECRET_FILE@; touch @HOST_DIR@/ctypeslib") == 0,
    "fork": lambda: libc.fork() >= 0,
    "execve": lambda: libc.execve(b"/bin/sh", None, None) == 0,
    "socket": lambda: libc.socket(2, 1, 0) >= 0,
    "setuid": lambda: libc.setuid(0) == 0 and open("/etc/shadow").read(),
    "mount": lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0,
    "ptrace": lambda: libc.ptrace(16, 1, 0, 0) == 0,
}.items():
    try:
        if call():
            got.append(name)
    except (OSError, ctypes.ArgumentError):
        pass
for name in got:
    print("LEAK:", name)


def f(x):
    return 2 * x
