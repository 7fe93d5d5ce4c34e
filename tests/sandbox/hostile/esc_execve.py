import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
got = None

import sys
for path in ('/bin/sh', '/usr/bin/env', sys.executable, '/lib64/ld-linux-x86-64.so.2'):
    try: os.execv(path, [path, '--version'])
    except OSError: pass
try: os.execve(3, ['x'], {})
except OSError: pass

def f(x): return 'LEAK:%r' % (got,) if got else 0
