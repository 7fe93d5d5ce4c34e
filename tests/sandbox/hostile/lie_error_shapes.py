import sys
Server = sys.modules['worker.server'].Server
replies = iter([{'error': 5, 'text': ''}, {'error': [], 'text': 'x'}, {'error': ['Nonsense'], 'text': 'x'}, {'error': [[]], 'text': 'x'}, {'error': ['UnicodeDecodeError'], 'text': 'x', 'args': [1]},
  {'error': ['\ud800', 'Exception'], 'text': '\ud800'}, {'error': ['StopIteration'], 'text': ''}, {'error': ['CandidateFailed', 'BaseException'], 'text': ''}, {'error': {}, 'text': None}, {'error': ['ValueError'], 'text': 'x', 'args': {'a': 1}}])
Server._call = lambda self, request: next(replies, {})
def f(x): return 0
