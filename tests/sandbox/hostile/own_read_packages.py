import glob, os, sys
def readable(path):
    try: return bool(open(path, 'rb').read(1))
    except OSError: return False
found = []
for folder in {os.path.dirname(os.__file__), '/usr/lib/python3', '/usr/local/lib', sys.prefix, sys.base_prefix}:
    for pattern in ('*-packages', '*-packages/*', '*/*-packages/*', 'lib/*/*-packages/*'):
        found += [path for path in glob.glob(f'{folder}/{pattern}') if os.access(path, os.R_OK) and os.path.isfile(path) and readable(path)]
for name in ('numpy', 'torch', 'pytest', 'ares', 'sandbox', 'pip', 'setuptools'):
    try:
        __import__(name)
        found.append(name)
    except ImportError: pass
if found: print('LEAK:', found[:5])
def f(x): return 0
