import sys
Server = sys.modules['worker.server'].Server
call = Server._call
Server._call = lambda self, request: {'value': 2} if request['do'] == 'next' else call(self, request)
def f(x): return iter([1])
