import re
def f(x): return re.match(r'(a+)+$', 'a' * 64 + 'b')
