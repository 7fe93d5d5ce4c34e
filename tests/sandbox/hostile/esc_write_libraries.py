import os
got = None

import sys
for path in (os.__file__, os.path.dirname(os.__file__) + '/evil.py', '/usr/lib/evil', '/lib/evil', '/evil', '/dev/null2', '@HOST_DIR@/evil'):
    for flags in (os.O_WRONLY, os.O_WRONLY | os.O_CREAT, os.O_RDWR | os.O_TRUNC):
        try: os.close(os.open(path, flags)); got = path
        except OSError: pass

def f(x): return 'LEAK:%s' % (got,) if got else 0
