import os, time
info = os.fstat(1)
first = time.time() - info.st_ctime > 0.15 or info.st_mtime != info.st_ctime and time.time() - info.st_atime > 0.15
time.sleep(0.2)
def f(x): return 0 if first else 1
