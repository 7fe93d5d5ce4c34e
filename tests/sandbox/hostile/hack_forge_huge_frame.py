import os, struct
os.write(3, struct.pack('<I', 0xFFFFFFF0))
def f(x): return 0
