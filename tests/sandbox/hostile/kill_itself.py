import os, signal, threading
def f(x):
    for kill in (lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: os.kill(0, signal.SIGKILL), lambda: signal.pthread_kill(threading.get_ident(), signal.SIGKILL), lambda: signal.raise_signal(signal.SIGKILL)):
        try: kill()
        except OSError: pass
    return 0
