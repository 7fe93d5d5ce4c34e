import threading, functools, dataclasses, collections
@dataclasses.dataclass(frozen=True)
class Step:
    size: int = 1
@functools.lru_cache(maxsize=None)
def f(x):
    results = collections.deque()
    threads = [threading.Thread(target=results.append, args=(Step().size,))]
    for t in threads: t.start()
    for t in threads: t.join()
    return x + results.pop()
