import socket
socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, 3).shutdown(socket.SHUT_RD)
def f(x): return 0
