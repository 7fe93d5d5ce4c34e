import socket
got = None
for family in range(0, 45):
    for kind in (1, 2, 3, 5):
        try:
            s = socket.socket(family, kind); got = (family, kind)
            s.connect(('127.0.0.1', 47011)); s.send(b'pwn')
        except (OSError, OverflowError, TypeError, ValueError): pass
def f(x): return 'LEAK:%r' % (got,) if got else 0
