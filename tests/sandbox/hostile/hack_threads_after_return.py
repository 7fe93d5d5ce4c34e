import threading
def burn():
    while True: pass
for _ in range(4): threading.Thread(target=burn, daemon=True).start()
def f(x): return 0
