import sys
Server = sys.modules['worker.server'].Server
Server._call = lambda self, request: {'value': None, 'changed': [[[1, 3]]] * (1 if request['id'] < 3 else 2)}
def f(v): pass
