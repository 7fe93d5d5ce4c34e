import os
got = None

made = 0
try:
    for n in range(200000):
        os.close(os.open('/tmp/%d' % n, os.O_CREAT | os.O_WRONLY)); made += 1
except OSError: pass
got = made if made > 5000 else None

def f(x): return 'LEAK:%s' % (got,) if got else 0
