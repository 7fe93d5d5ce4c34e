import threading, time
started = 0
try:
    while started < 20000:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); started += 1
except RuntimeError: pass
def f(x): return 'LEAK:%d' % started if started > 2000 else 0
