import os
got = None

import ctypes
libc = ctypes.CDLL(None)
for major, minor in ((1, 1), (8, 0), (254, 0)):
    try: os.mknod('/tmp/d', 0o60666, os.makedev(major, minor)); got = 'device'
    except OSError: pass
if libc.mount(b'proc', b'/proc', b'proc', 0, None) == 0: got = 'proc'
if libc.mount(None, b'/', None, 32, None) == 0: got = 'remount'
if libc.umount2(b'/tmp', 2) == 0: got = 'umount'

def f(x): return 'LEAK:%s' % (got,) if got else 0
