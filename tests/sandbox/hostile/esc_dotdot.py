import os
got = None

import sys
for prefix in ('/tmp', '/usr/lib', os.path.dirname(os.__file__), '/dev'):
    path = prefix + '/..' * 12 + '@SECRET_FILE@'
    try: got = open(path).read()
    except OSError: pass
try:
    fd = os.open('/', os.O_RDONLY); os.fchdir(fd); got = open('.@SECRET_FILE@').read()
except OSError: pass

def f(x): return 'LEAK:%s' % (got,) if got else 0
