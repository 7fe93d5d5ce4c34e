import socket
got = None
try: got = socket.getaddrinfo('example.com', 80)
except OSError: pass
try: s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'pwn', ('127.0.0.1', 47011)); got = 'udp'
except OSError: pass
def f(x): return 'LEAK:%r' % (got,) if got else 0
