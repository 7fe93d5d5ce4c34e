import os
got = 0
try:
    for _ in range(5000):
        r, w = os.pipe(); os.set_blocking(w, False)
        got += os.write(w, b'x' * 65536)
except OSError: pass
def f(x): return 'LEAK:%d' % got if got > 64 << 20 else 0
