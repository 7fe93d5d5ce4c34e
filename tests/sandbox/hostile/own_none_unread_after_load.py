import os, threading, time
def f(x):
    os.dup2(os.open('/dev/null', os.O_RDONLY), 0)
    threading.Thread(target=time.sleep, args=(99,)).start()
    while True: time.sleep(1)
