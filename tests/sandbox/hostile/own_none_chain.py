import sys
Server = sys.modules['worker.server'].Server
deques = [['q', [['@', i]] if i else [], None] for i in range(200_000)]
tables = [['dd', ['a'], [['@', i]] if i else [0], None] for i in range(200_000)]
Server._call = lambda self, request: {'value': ['q', deques if request['args'][0] % 2 else tables, 1]}
def f(x): return 0
