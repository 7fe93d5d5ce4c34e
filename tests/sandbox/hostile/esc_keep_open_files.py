import os
got = None

held = []
try:
    for n in range(10000): held.append(open('/dev/zero', 'rb'))
except OSError: pass
got = len(held) if len(held) > 200 else None

def f(x): return 'LEAK:%s' % (got,) if got else 0
