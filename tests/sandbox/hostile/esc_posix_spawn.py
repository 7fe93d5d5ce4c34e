import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
got = None

try: got = os.posix_spawn('/bin/true', ['true'], {})
except OSError: pass

def f(x): return 'LEAK:%r' % (got,) if got else 0
