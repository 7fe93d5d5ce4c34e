import os, time
try:
    when = os.stat('/tmp').st_ctime
    first = time.time() - when > 0.15
    if first: open('/tmp/x', 'w').close()
except OSError: first = True
time.sleep(0.2)
def f(x): return 0 if first else 1
