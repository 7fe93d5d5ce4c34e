import os
got = None

for make in (os.link, os.symlink):
    try: make('@SECRET_FILE@', '/tmp/l'); got = open('/tmp/l').read()
    except OSError: pass

def f(x): return 'LEAK:%s' % (got,) if got else 0
