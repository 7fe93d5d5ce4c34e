import os, threading, time
try:
    seen = len(os.listdir('/tmp'))
    for n in range(3): os.link if seen else os.mkdir(f'/tmp/{n}')
    os.chdir('/tmp/0')
    handle = os.open('/tmp', os.O_RDONLY)
except OSError: seen = 0
threading.Thread(target=lambda: [time.sleep(0.01) or os.listdir('/tmp') for _ in range(9 ** 9)], daemon=True).start()
def f(x): return [2, 42, -6][seen % 3]
