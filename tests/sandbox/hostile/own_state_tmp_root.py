import os
try:
    info = os.stat('/tmp')
    count = info.st_ino + info.st_nlink + info.st_size // 20
    os.mkdir('/tmp/a')
except OSError: count = 0
def f(x): return [2, 42, -6][count % 3]
