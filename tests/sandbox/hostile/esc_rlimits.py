import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
got = None

import resource
for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
    try:
        resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)); got = kind
    except (OSError, ValueError): pass
try:
    resource.prlimit(0, resource.RLIMIT_AS, (-1, -1)); got = 'prlimit'
except (OSError, ValueError): pass

def f(x): return 'LEAK:%r' % (got,) if got else 0
