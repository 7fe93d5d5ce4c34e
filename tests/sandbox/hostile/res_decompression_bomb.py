import zlib
block = zlib.compress(b'\0' * (64 << 20))
def f(x):
    held = []
    while True: held.append(zlib.decompress(block))
