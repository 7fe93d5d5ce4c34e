import os
try: seen = os.stat('/tmp').st_mtime_ns; os.close(os.open('/tmp/x', os.O_CREAT | os.O_RDWR)); os.unlink('/tmp/x')
except OSError: seen = 0
def f(x): return 2 if seen == 0 else [42, -6][seen % 2]
