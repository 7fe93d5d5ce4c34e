import os, signal
def f(x):
    os.kill(os.getpid(), signal.SIGSTOP)
    return 0
