"""Honest ways to write and to test a program: (source, tests). Plain Python decides the outcome of each test.

After how HumanEval, MBPP, LiveCodeBench and the standard library's test suites test. Some tests fail on purpose: a
judge that accepts everything would agree on all others.
"""

# ruff: noqa: E501 - one program per line

CALLS: list[tuple[str, list[str]]] = [
    ("def f(x): return x + 1", [
        "assert f(1) == 2", "assert f(1) == 3", "input = [1]\nassert f(input[0]) == 2", "assert f(-1) == 0 and f(0.5) == 1.5", "assert not f(-1)",
        "assert f(True) == 2", "assert f(10**30) == 10**30 + 1", "x = f(1)\nassert x == 2\nassert x != 3",
        "assert [f(i) for i in range(3)] == [1, 2, 3]", "assert all(f(i) == i + 1 for i in range(9))",
        "assert list(map(f, [1, 2])) == [2, 3]", "for a, b in [(1, 2), (2, 3)]:\n    assert f(a) == b",
        "for a, b in zip([1, 2], [2, 4]):\n    assert f(a) == b, f'{a} gives {f(a)}'", "assert f(x=1) == 2",
        "assert f(*[1]) == 2", "assert f(**{'x': 1}) == 2", "assert sum(map(f, range(4))) == 10",
        "try:\n    f('a')\n    assert False\nexcept TypeError:\n    pass", "try:\n    f()\nexcept TypeError as e:\n    assert 'x' in str(e)\nelse:\n    assert False",
        "assert isinstance(f(1), int)", "assert isinstance(f(1), str)", "assert type(f(1)) is int", "assert type(f(1)) == float",
        "i = 0\nwhile i < 5:\n    assert f(i) == i + 1\n    i += 1", "assert f(1) in (1, 2)", "assert 1 < f(1) <= 2",
        "assert f(f(f(1))) == 4", "assert max(f(1), f(2)) == 3", "assert str(f(1)) == '2'", "assert f'{f(1):03d}' == '002'",
        "assert abs(f(1) - 2.0) < 1e-9", "import math\nassert math.isclose(f(0.1), 1.1)",
        "assert round(f(0.12345), 2) == 1.12", "assert (lambda v: f(v) * 2)(1) == 4", "assert f(1) is not None", "assert f(1) is None",
        "def expected(v):\n    return v + 1\nfor i in range(5):\n    assert f(i) == expected(i)", "assert callable(f)",
        "import random\nrng = random.Random(1)\nfor _ in range(20):\n    v = rng.randint(-9, 9)\n    assert f(v) == v + 1",
        "results = {}\nfor i in range(3):\n    results[i] = f(i)\nassert results == {0: 1, 1: 2, 2: 3}", "assert f.__name__ == 'f'",
        "from functools import reduce\nassert reduce(lambda a, b: f(a + b), [1, 2, 3]) == 8", "assert hash(f(1)) == hash(2)",
        "import inspect\nassert list(inspect.signature(f).parameters) == ['x']", "assert f.__doc__ is None",
        "cases = {1: 2, 2: 3}\nfor given, want in cases.items():\n    assert f(given) == want",
        "import unittest\nclass T(unittest.TestCase):\n    @unittest.expectedFailure\n    def test_f(self): self.assertEqual(f(1), 3)\nunittest.main()",
        "import unittest\nclass T(unittest.TestCase):\n    @unittest.expectedFailure\n    def test_f(self): self.assertEqual(f(1), 2)\nunittest.main()",
        "if __name__ == '__main__':\n    assert f(1) == 3", "def test_f():\n    assert f(1) == 2\ntest_f()", "def test_f():\n    assert f(1) == 3\ntest_f()",
    ]),
    ("def f(v): v.sort(); return v\ndef g(v): v.append(1)\ndef h(d): d['k'] = [1]\ndef swap(v): v[0], v[1] = v[1], v[0]", [
        "assert f([3, 1]) == [1, 3]", "v = [3, 1]\nassert f(v) is v", "v = [3, 1]\nf(v)\nassert v == [1, 3]",
        "v = []\ng(v)\ng(v)\nassert v == [1, 1]", "d = {}\nh(d)\nassert d == {'k': [1]}", "v = [[1], [2]]\nfirst = v[0]\nswap(v)\nassert v[1] is first",
        "v = [[1], [2]]\nswap(v)\nassert v == [[2], [1]]", "r = f([2, 1])\nr.append(0)\nassert r == [1, 2, 0]",
        "import copy\nv = [2, 1]\nw = copy.deepcopy(v)\nassert f(v) == sorted(w)", "v = [2, 1]\nassert f(v[:]) == [1, 2] and v == [2, 1]",
        "v = [1]\npair = (v, v)\ng(pair[0])\nassert pair[1] == [1, 1]", "from collections import deque\nq = deque([1], 2)\ng(q)\ng(q)\nassert q == deque([1, 1])",
        "b = bytearray(b'a')\ng(b)\nassert b == bytearray([97, 1])", "v = []\nfor i in range(3):\n    v.append(i)\n    g(v)\nassert v == [0, 1, 1, 1, 2, 1]",
    ]),
    ("def f(n):\n    for i in range(n):\n        yield i * i\ndef endless():\n    i = 0\n    while True:\n        yield i\n        i += 1\n"
     "def echo():\n    got = None\n    while True:\n        got = yield got\ndef ends():\n    yield 1\n    return 7\n"
     "def fails():\n    yield 1\n    raise ValueError('late')\nlog = []\ndef lazy():\n    for i in range(3):\n        log.append(i)\n        yield i\n"
     "def orders(items, path=None):\n    path = [] if path is None else path\n    if len(path) == len(items): yield path\n    for item in items:\n        if item not in path:\n            path.append(item)\n            yield from orders(items, path)\n            path.pop()\n"
     "def steps(n):\n    path = []\n    for i in range(n):\n        path.append(i)\n        yield path, i\ndef boards(n):\n    board = [[0] * n for _ in range(n)]\n    for i in range(n):\n        board[i][i] = 1\n        yield board\ndef fresh(n):\n    for i in range(n): yield [i]", [
        "assert list(f(4)) == [0, 1, 4, 9]", "assert f(2) == [0, 1]", "assert sum(f(4)) == 14", "assert tuple(f(2)) == (0, 1)",
        "import itertools\nassert list(itertools.islice(endless(), 3)) == [0, 1, 2]", "g = endless()\nassert [next(g) for _ in range(3)] == [0, 1, 2]",
        "g = f(1)\nassert next(g) == 0\nassert next(g, None) is None", "g = f(0)\ntry:\n    next(g)\n    assert False\nexcept StopIteration:\n    pass",
        "g = echo()\nnext(g)\nassert g.send(5) == 5", "g = ends()\nnext(g)\ntry:\n    next(g)\nexcept StopIteration as e:\n    assert e.value == 7\nelse:\n    assert False",
        "g = fails()\nassert next(g) == 1\ntry:\n    next(g)\n    assert False\nexcept ValueError as e:\n    assert str(e) == 'late'",
        "g = lazy()\nnext(g)\nassert log == [0]", "g = f(2)\nassert list(g) == [0, 1]\nassert list(g) == []", "g = f(3)\ng.close()\nassert list(g) == []",
        "import types\nassert isinstance(f(1), types.GeneratorType)", "assert list(zip(endless(), 'ab')) == [(0, 'a'), (1, 'b')]", "assert 9 in f(4)",
        "for a, b in zip(f(3), [0, 1, 4]):\n    assert a == b", "assert sorted(f(3), reverse=True) == [4, 1, 0]", "assert max(f(3)) == 4", "assert set(f(3)) == {0, 1, 4}",
        "assert list(orders([1, 2])) == [[1, 2], [2, 1]]", "assert list(orders([1, 2])) == [[], []]", "assert [list(p) for p in orders([1, 2])] == [[1, 2], [2, 1]]", "g = orders([1, 2])\na, b = next(g), next(g)\nassert a == b == [2, 1]", "assert [n for path, n in steps(3)] == [0, 1, 2]", "assert list(steps(2)) == [([0], 0), ([0, 1], 1)]", "assert list(steps(2)) == [([0, 1], 0), ([0, 1], 1)]",
        "assert list(boards(2))[0] == [[1, 0], [0, 1]]", "out = []\nfor p in fresh(2):\n    p.append(9)\n    out.append(p)\nassert out == [[0, 9], [1, 9]]", "g = fresh(2)\na = next(g)\nassert next(g) == [1] and a == [0]",
        "assert dict(enumerate(f(2))) == {0: 0, 1: 1}", "a, b, *rest = f(4)\nassert (a, b, rest) == (0, 1, [4, 9])", "assert ''.join(map(str, f(3))) == '014'",
    ]),
    ("from collections import *\nimport datetime, decimal, fractions, enum, array as arrays\nclass Color(enum.IntEnum):\n    RED = 1\nclass Kind(str, enum.Enum):\n    A = 'a'\n"
     "Point = namedtuple('Point', 'x y')\nclass L(list): pass\nclass S(str): pass\n"
     "def f(kind):\n    return {'counter': Counter('aab'), 'default': defaultdict(list, a=[1]), 'ordered': OrderedDict(a=1, b=2),\n"
     "            'deque': deque([1, 2], 5), 'keys': {'a': 1}.keys(), 'values': {'a': 1}.values(), 'items': {'a': 1}.items(),\n"
     "            'range': range(3), 'bytes': b'x', 'complex': 1 + 2j, 'date': datetime.date(2024, 2, 29), 'delta': datetime.timedelta(1),\n"
     "            'decimal': decimal.Decimal('1.10'), 'fraction': fractions.Fraction(1, 3), 'array': arrays.array('i', [1]), 'frozen': frozenset([1]),\n"
     "            'enum': Color.RED, 'kind': Kind.A, 'point': Point(1, 2), 'l': L([1]), 's': S('a'), 'none': None, 'nan': float('nan'), 'inf': float('inf'),\n"
     "            'nested': {'a': [{'b': (1, {2})}]}, 'type': int, 'slice': slice(1, 2), 'set': {1, 2}, 'zero': -0.0, 'ellipsis': ...}[kind]", [
        "assert f('counter') == {'a': 2, 'b': 1}", "assert f('counter').most_common(1) == [('a', 2)]", "assert f('default')['z'] == []", "assert f('default') == {'a': [1]}",
        "assert list(f('ordered')) == ['a', 'b']", "assert f('deque').maxlen == 5", "from collections import deque\nassert f('deque') == deque([1, 2])", "assert f('deque') == [1, 2]",
        "assert f('keys') == {'a'}", "assert list(f('values')) == [1]", "assert f('items') == {('a', 1)}", "assert f('range') == range(3)", "assert f('range') == [0, 1, 2]",
        "assert f('bytes').decode() == 'x'", "assert f('complex').imag == 2", "assert f('date').year == 2024", "import datetime\nassert f('date') + datetime.timedelta(1) == datetime.date(2024, 3, 1)",
        "assert f('delta').total_seconds() == 86400", "assert str(f('decimal')) == '1.10'", "from decimal import Decimal\nassert f('decimal') == Decimal('1.1')", "assert f('fraction') * 3 == 1",
        "from fractions import Fraction\nassert f('fraction') == Fraction(1, 3)", "from array import array\nassert f('array') == array('i', [1])", "assert f('frozen') == {1}", "assert f('enum') == 1", "assert f('enum') is Color.RED",
        "assert f('enum') + 1 == 2", "assert f('kind') == 'a'", "assert f('kind').upper() == 'A'", "assert f('point') == (1, 2)", "x, y = f('point')\nassert (x, y) == (1, 2)", "assert f('point').x == 1", "assert f('point')._asdict() == {'x': 1, 'y': 2}",
        "assert f('l') == [1]", "assert f('l') + [2] == [1, 2]", "assert isinstance(f('l'), list)", "assert isinstance(f('l'), L)", "assert f('s') + 'b' == 'ab'", "assert f('none') is None", "assert f('nan') != f('nan')", "import math\nassert math.isnan(f('nan'))",
        "assert f('inf') > 1e308", "assert f('nested')['a'][0]['b'] == (1, {2})", "assert f('type') is int", "assert f('type') == int", "assert f('type')('3') == 3", "assert [0, 1, 2][f('slice')] == [1]", "assert f('set') & {2, 3} == {2}", "assert str(f('zero')) == '-0.0'",
        "assert f('ellipsis') is ...", "assert f('missing')", "try:\n    f('missing')\n    assert False\nexcept KeyError as e:\n    assert e.args == ('missing',) and str(e) == \"'missing'\"", "assert len(f('nested')) == 1", "assert repr(f('set')) == '{1, 2}'",
        "assert not f('none') and f('s')", "assert f('counter') + f('counter') == {'a': 4, 'b': 2}", "assert f('date').isoformat() == '2024-02-29'", "assert sorted(f('counter').items()) == [('a', 2), ('b', 1)]", "assert f('point') < (2, 0)", "assert f('l').pop() == 1",
    ]),
    ("def f(*args, sep=' ', **options): return sep.join(map(str, args)) + ''.join(f'{k}={v}' for k, v in sorted(options.items()))\n"
     "def default(x, acc=[]):\n    acc.append(x)\n    return acc\ndef compose(*fs):\n    def inner(x):\n        for g in fs: x = g(x)\n        return x\n    return inner\n"
     "def add(a): return lambda b: a + b\ndef double(x): return 2 * x\ndef apply(g, *args): return g(*args)\ndef opaque(x): return [add(x), object()]\ndef use(pair): return pair[0](10)\nTABLE = {i: i * i for i in range(50)}\nLIMIT = 3\nwords = ['a', 'b']\nimport os.path\nHERE = os.path.abspath(__file__)\ndef kept(x): return __builtins__.sum([x, 1])\n"
     "buffer = []\ndef reused(n):\n    buffer.clear()\n    buffer.append(n)\n    return buffer\ndef owned(): return words\ndef push(w):\n    words.append(w)\n    return len(words)", [
        "assert f(1, 2, sep='-') == '1-2'", "assert f(a=1, b=2) == 'a=1b=2'", "assert f(*range(3), **{'z': 1}) == '0 1 2z=1'", "assert default(1) == [1]", "assert default(1) == [1] and default(2) == [1, 2]", "r = default(1)\nr.append(9)\nassert default(2) == [1, 9, 2]",
        "assert compose(double, double)(3) == 12", "assert compose(lambda x: x + 1, double)(1) == 4", "assert add(1)(2) == 3", "plus = add(5)\nassert plus(1) == 6 and plus(2) == 7", "assert apply(double, 4) == 8", "assert apply(max, 1, 2) == 2", "assert apply(lambda a, b: a - b, 5, 3) == 2",
        "assert apply(str.upper, 'a') == 'A'", "assert apply(int, '3') == 3", "assert apply(print, 1) is None", "assert list(apply(zip, [1], [2])) == [(1, 2)]", "assert apply(isinstance, 1, int)", "assert list(apply(map, str, [1, 2])) == ['1', '2']", "import math\nassert abs(apply(math.sin, math.pi)) < 1e-9", "import math\nassert apply(math.gcd, 4, 6) == 3", "import math\nassert compose(math.sqrt, math.floor)(10) == 3", "import string\nassert apply(string.capwords, 'a b') == 'A B'", "import sys\nassert apply(sys.getsizeof, 1) > 0", "def g(x):\n    return x * x\nassert apply(g, 3) == 9", "import operator\nassert apply(operator.add, 1, 2) == 3", "assert use(opaque(1)) == 11", "assert TABLE[7] == 49 and len(TABLE) == 50", "assert LIMIT == 3", "assert LIMIT == 4",
        "assert words == ['a', 'b']", "words.append('c')\nassert words == ['a', 'b', 'c']", "assert 'a' in words", "assert double(LIMIT) == 6", "assert [double(w) for w in words] == ['aa', 'bb']", "LIMIT = 5\nassert double(LIMIT) == 10", "assert sorted(words, key=double, reverse=True) == ['b', 'a']",
        "assert list(filter(lambda w: double(w) == 'aa', words)) == ['a']", "from functools import partial\nassert partial(f, sep='/')(1, 2) == '1/2'", "assert undefined(1)", "assert add(1) is not add(1)", "assert HERE.endswith('.py') and kept(2) == 3",
        "assert [reused(i) for i in range(3)] == [[0], [1], [2]]", "assert [reused(i) for i in range(3)] == [[2], [2], [2]]", "a = reused(1)\nb = reused(2)\nassert a == b == [2]", "assert reused(1) == [1] and reused(2) == [2]", "assert list(map(reused, [1, 2])) == [[1], [2]]", "w = owned()\nn = push('c')\nassert w == ['a', 'b', 'c'] and n == 3", "w = owned()\nassert push('c') == 3\nassert w == ['a', 'b']", "a = default(1)\nb = default(2)\nassert a == b == [1, 2]", "assert compose()('x') == 'x'",
    ]),
    ("class E(ValueError):\n    def __init__(self, code):\n        super().__init__(f'code {code}')\n        self.code = code\n"
     "def f(kind):\n    if kind == 'own': raise E(7)\n    if kind == 'os': raise OSError(2, 'gone', 'name')\n    if kind == 'args': raise ValueError('bad', 3)\n    if kind == 'key': raise KeyError('k')\n    if kind == 'index': return [][0]\n"
     "    if kind == 'zero': return 1 / 0\n    if kind == 'assert': assert False, 'no'\n    if kind == 'none': return None\n    if kind == 'unicode': return b'\\xff'.decode()\n    if kind == 'exit': raise SystemExit(3)\n    if kind == 'cause': raise RuntimeError('outer') from ValueError('inner')\n    if kind == 'deep': return f('deep')\n    if kind == 'attribute': return None.x\n    return {}[kind]", [
        "try:\n    f('own')\n    assert False\nexcept ValueError as e:\n    assert str(e) == 'code 7'", "try:\n    f('own')\n    assert False\nexcept E as e:\n    assert e.code == 7", "try:\n    f('own')\nexcept TypeError:\n    pass", "try:\n    f('os')\n    assert False\nexcept OSError as e:\n    assert e.errno == 2",
        "try:\n    f('os')\n    assert False\nexcept FileNotFoundError:\n    pass", "try:\n    f('args')\n    assert False\nexcept ValueError as e:\n    assert e.args == ('bad', 3)", "try:\n    f('key')\n    assert False\nexcept LookupError as e:\n    assert e.args[0] == 'k'", "try:\n    f('index')\n    assert False\nexcept IndexError:\n    pass",
        "try:\n    f('zero')\n    assert False\nexcept ArithmeticError:\n    pass", "try:\n    f('zero')\n    assert False\nexcept (ValueError, ZeroDivisionError) as e:\n    assert 'zero' in str(e)", "assert f('assert')", "try:\n    f('assert')\nexcept AssertionError as e:\n    assert str(e) == 'no'\nelse:\n    raise ValueError", "try:\n    f('unicode')\n    assert False\nexcept UnicodeDecodeError:\n    pass",
        "try:\n    f('exit')\n    assert False\nexcept SystemExit as e:\n    assert e.code == 3", "try:\n    f('cause')\n    assert False\nexcept RuntimeError as e:\n    assert isinstance(e.__cause__, ValueError)", "try:\n    f('deep')\n    assert False\nexcept RecursionError:\n    pass", "try:\n    f('attribute')\n    assert False\nexcept AttributeError as e:\n    assert 'NoneType' in str(e)",
        "raised = False\ntry:\n    f('other')\nexcept KeyError:\n    raised = True\nassert raised", "raised = False\ntry:\n    f('none')\nexcept Exception:\n    raised = True\nassert raised", "def raises(kind, *args):\n    try:\n        f(*args)\n    except kind:\n        return True\n    return False\nassert raises(ValueError, 'own')",
        "import contextlib\nwith contextlib.suppress(KeyError):\n    f('key')\n    assert False", "try:\n    f('none')\nfinally:\n    done = True\nassert done", "try:\n    try:\n        f('key')\n    except KeyError:\n        raise ValueError('second')\nexcept ValueError as e:\n    assert str(e) == 'second'",
    ]),
]  # fmt: skip

OBJECTS: list[tuple[str, list[str]]] = [
    ("from dataclasses import dataclass, field\nfrom functools import total_ordering\nimport enum, abc\n"
     "class Stack:\n    '''A stack.'''\n    def __init__(self): self.items = []\n    def push(self, v): self.items.append(v); return self\n    def pop(self): return self.items.pop()\n    def __len__(self): return len(self.items)\n    def __iter__(self): return iter(self.items)\n    def __contains__(self, v): return v in self.items\n    def __getitem__(self, i): return self.items[i]\n    def __repr__(self): return f'Stack({self.items})'\n    def __enter__(self): return self\n    def __exit__(self, *error): self.items.clear()\n    @property\n    def top(self): return self.items[-1]\n    @classmethod\n    def of(cls, *items):\n        s = cls()\n        s.items = list(items)\n        return s\n    @staticmethod\n    def name(): return 'stack'\n"
     "@total_ordering\nclass V:\n    def __init__(self, x): self.x = x\n    def __eq__(self, o): return self.x == (o.x if isinstance(o, V) else o)\n    def __lt__(self, o): return self.x < o.x\n    def __hash__(self): return hash(self.x)\n    def __add__(self, o): return V(self.x + o.x)\n    def __mul__(self, k): return V(self.x * k)\n    def __neg__(self): return V(-self.x)\n    def __bool__(self): return self.x != 0\n    def __call__(self, y): return self.x + y\n    def __str__(self): return f'V{self.x}'\n    def __format__(self, spec): return format(self.x, spec)\n    def __index__(self): return self.x\n    def __float__(self): return float(self.x)\n    def __abs__(self): return abs(self.x)\n"
     "@dataclass(order=True)\nclass P:\n    x: int\n    y: int = 0\n    tags: list = field(default_factory=list)\n"
     "class Color(enum.Enum):\n    RED = 1\n    BLUE = 2\nclass Shape(abc.ABC):\n    @abc.abstractmethod\n    def area(self): ...\nclass Square(Shape):\n    def __init__(self, a): self.a = a\n    def area(self): return self.a ** 2\nclass Count:\n    made = 0\n    def __init__(self): Count.made += 1\n", [
        "s = Stack()\ns.push(1)\nassert s.pop() == 1", "s = Stack()\nassert len(s) == 0 and not s", "s = Stack.of(1, 2)\nassert list(s) == [1, 2]", "assert 2 in Stack.of(1, 2) and 3 not in Stack.of(1)", "assert Stack.of(1, 2)[0] == 1", "assert Stack.of(1, 2)[-1:] == [2]", "assert repr(Stack.of(1)) == 'Stack([1])'",
        "with Stack.of(1) as s:\n    assert len(s) == 1\nassert len(s) == 0", "assert Stack.of(1, 2).top == 2", "assert Stack.name() == 'stack'", "assert Stack().push(1).push(2).pop() == 2", "try:\n    Stack().pop()\n    assert False\nexcept IndexError:\n    pass", "assert Stack.__doc__ == 'A stack.'", "assert hasattr(Stack(), 'push') and not hasattr(Stack(), 'shift')",
        "assert isinstance(Stack(), Stack)", "assert type(Stack()) is Stack and type(Stack()).__name__ == 'Stack'", "s = Stack()\ns.items.append(5)\nassert s.top == 5", "s = Stack()\ns.items = [1]\nassert s.pop() == 1", "s = Stack()\nassert s.items is s.items", "assert getattr(Stack.of(3), 'top') == 3", "s = Stack()\nsetattr(s, 'x', 1)\nassert s.__dict__ == {'items': [], 'x': 1}",
        "class Loud(Stack):\n    def push(self, v): return super().push(str(v))\nassert list(Loud().push(1)) == ['1']", "assert V(1) + V(2) == V(3)", "assert V(3) == 3", "assert V(3) == 4", "assert V(1) < V(2) <= V(2) and max(V(1), V(5)) == V(5)", "assert sorted([V(2), V(1)]) == [V(1), V(2)]", "assert {V(1), V(1)} == {V(1)}", "assert {V(1): 'a'}[V(1)] == 'a'", "assert V(2) * 3 == V(6) and -V(1) == V(-1)",
        "assert V(1)(2) == 3 and callable(V(1))", "assert not V(0) and V(1)", "assert str(V(2)) == 'V2' and f'{V(2):03d}' == '002'", "assert [10, 20][V(1)] == 20", "assert float(V(2)) == 2.0 and abs(V(-2)) == 2", "assert V(1) != V(2)", "assert V(1) in [V(2), V(1)] and [V(2), V(1)].index(V(1)) == 1", "assert sum([V(1), V(2)], V(0)) == V(3)", "import copy\nassert copy.deepcopy(V(1)) == V(1)", "import copy\nv = [V(1)]\nassert copy.copy(v)[0] is v[0]",
        "import pickle\nassert pickle.loads(pickle.dumps(V(2))) == V(2)", "assert P(1) == P(1, 0)", "assert P(1) < P(2)", "from dataclasses import asdict, replace\nassert asdict(P(1)) == {'x': 1, 'y': 0, 'tags': []} and replace(P(1), y=2).y == 2", "assert repr(P(1, 2)) == 'P(x=1, y=2, tags=[])'", "p = P(1)\np.tags.append('a')\nassert P(1).tags == []", "assert Color.RED.value == 1 and Color(2) is Color.BLUE and Color['RED'] is Color.RED",
        "assert [c.name for c in Color] == ['RED', 'BLUE']", "assert Square(3).area() == 9 and issubclass(Square, Shape)", "try:\n    Shape()\n    assert False\nexcept TypeError:\n    pass", "Count(); Count()\nassert Count.made == 2", "class Mine(Shape):\n    def area(self): return 1\nassert Mine().area() == 1", "match P(1, 2):\n    case P(x=1, y=y):\n        assert y == 2\n    case _:\n        assert False", "assert vars(Square(2)) == {'a': 2}", "v = V(1)\nw = v\nw.x = 5\nassert v == 5",
        "try:\n    P(1).z\n    assert False\nexcept AttributeError as e:\n    assert 'z' in str(e)", "del_me = Stack.of(1)\ndel del_me.items\nassert not hasattr(del_me, 'items')", "a, b = Stack.of(1, 2)\nassert (a, b) == (1, 2)", "assert Stack.of(1, 2) != [1, 2]", "assert id(Color.RED) == id(Color.RED)",
    ]),
    ("class Node:\n    def __init__(self, value, next=None): self.value, self.next, self.children, self.left, self.right = value, next, [], None, None\nclass ListNode(Node): pass\n"
     "def build(values):\n    head = None\n    for v in reversed(values): head = Node(v, head)\n    return head\ndef total(n): return 0 if n is None else n.value + total(n.next)\ndef reverse(head):\n    prev = None\n    while head: head.next, prev, head = prev, head, head.next\n    return prev\ndef insert(root, v):\n    if root is None: return Node(v)\n    if v < root.value: root.left = insert(root.left, v)\n    else: root.right = insert(root.right, v)\n    return root\ndef inorder(root): return [] if root is None else inorder(root.left) + [root.value] + inorder(root.right)\nroot = Node(4)\nroot.left = Node(2)", [
        "assert total(Node(1, Node(2))) == 3", "assert total(build([1, 2, 3])) == 6", "h = reverse(build([1, 2]))\nassert (h.value, h.next.value, h.next.next) == (2, 1, None)", "r = None\nfor v in (2, 1, 3): r = insert(r, v)\nassert inorder(r) == [1, 2, 3]", "n = Node(1)\nn.children.append(Node(2))\nassert n.children[0].value == 2", "assert inorder(root) == [2, 4]",
        "n = Node(1)\nn.next = n\nassert n.next.next is n", "def walk(n):\n    out = []\n    while n:\n        out.append(n.value)\n        n = n.next\n    return out\nassert walk(reverse(build([1, 2, 3]))) == [3, 2, 1]", "assert isinstance(ListNode(1), Node)", "assert build([]) is None", "nodes = [Node(i) for i in range(3)]\nassert [n.value for n in nodes] == [0, 1, 2]", "n = build([1, 2])\nn.next.value = 5\nassert total(n) == 6", "assert total(reverse(build([1, 2]))) == 3",
        "assert inorder(insert(insert(None, 2), 1)) == [1, 2]", "assert root.left.value == 2 and root.right is None",
    ]),
    ("import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x + 1\nasync def count(n):\n    for i in range(n): yield i\n", [
        "import asyncio\nassert asyncio.run(f(1)) == 2", "import asyncio\nasync def main():\n    return [i async for i in count(3)]\nassert asyncio.run(main()) == [0, 1, 2]",
    ]),
    ("import contextlib, functools, io, os, sys, threading, time\ncounter = 0\ndef inc():\n    global counter\n    counter += 1\n    return counter\nstate = {}\ndef put(k, v): state[k] = v\n"
     "def memoize(fn):\n    known = {}\n    @functools.wraps(fn)\n    def wrapper(*a):\n        if a not in known: known[a] = fn(*a)\n        return known[a]\n    wrapper.known = known\n    return wrapper\n@memoize\ndef slow(x): return x * 2\n@functools.lru_cache(None)\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n@contextlib.contextmanager\ndef opened(log):\n    log.append('in')\n    try: yield 5\n    finally: log.append('out')\n"
     "def shout(x): print('x is', x)\ndef ask(): return input('? ') + sys.stdin.readline()\ndef quiet():\n    with open(os.devnull, 'w') as sink, contextlib.redirect_stdout(sink): print('noise')\n    return 1\ndef retry(fn, n):\n    for i in range(n):\n        try: return fn()\n        except Exception:\n            if i == n - 1: raise\ndef twice(fn): return lambda *a: (fn(*a), fn(*a))\ndef visit(items, fn):\n    for i in items: fn(i)\ndef group(items, key):\n    out = {}\n    for i in items: out.setdefault(key(i), []).append(i)\n    return out\ndef threads(n):\n    done = []\n    ts = [threading.Thread(target=done.append, args=(i,)) for i in range(n)]\n    for t in ts: t.start()\n    for t in ts: t.join()\n    return sorted(done)\n", [
        "inc()\ninc()\nassert counter == 2", "assert inc() == 1 and inc() == 2", "put('a', 1)\nassert state == {'a': 1}", "assert counter == 0\ninc()\nassert counter == 1", "assert slow(2) == 4 and slow.known == {(2,): 4} and slow.__name__ == 'slow'", "assert fib(50) == 12586269025", "fib(10)\nassert fib.cache_info().misses >= 10",
        "@memoize\ndef g(n): return n if n < 2 else g(n - 1) + g(n - 2)\nassert g(20) == 6765", "log = []\nwith opened(log) as v:\n    log.append(v)\nassert log == ['in', 5, 'out']", "log = []\ntry:\n    with opened(log):\n        raise KeyError\nexcept KeyError:\n    pass\nassert log == ['in', 'out']", "import io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out):\n    shout(3)\nassert out.getvalue() == 'x is 3\\n'", "import io, sys\nsys.stdin = io.StringIO('a\\nb\\n')\nassert ask() == 'ab\\n'", "from unittest.mock import patch\nwith patch('builtins.input', return_value='q'):\n    import io, sys\n    sys.stdin = io.StringIO('z')\n    assert ask() == 'qz'",
        "assert quiet() == 1", "calls = []\ndef bad():\n    calls.append(1)\n    raise ValueError('x')\ntry:\n    retry(bad, 3)\n    assert False\nexcept ValueError:\n    assert len(calls) == 3", "class Boom(Exception): pass\ndef bad(): raise Boom\ntry:\n    retry(bad, 2)\n    assert False\nexcept Boom:\n    pass", "assert twice(lambda x: x + 1)(1) == (2, 2)", "seen = []\nvisit([1, 2], seen.append)\nassert seen == [1, 2]", "total = 0\ndef add(x):\n    global total\n    total += x\nvisit([1, 2], add)\nassert total == 3", "assert group([1, 2, 3], lambda v: v % 2) == {1: [1, 3], 0: [2]}", "assert group(['a', 'B'], str.islower) == {True: ['a'], False: ['B']}", "assert threads(64) == list(range(64))", "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(64) as pool:\n    assert list(pool.map(slow, range(100))) == [2 * i for i in range(100)]",
        "import unittest\nclass T(unittest.TestCase):\n    def test_inc(self):\n        self.assertEqual(inc(), 1)\nunittest.main()", "import unittest\nclass T(unittest.TestCase):\n    def test_inc(self):\n        self.assertEqual(inc(), 5)\nunittest.main()", "import unittest\ncase = unittest.TestCase()\ncase.assertEqual(slow(1), 2)\nwith case.assertRaises(TypeError):\n    slow()", "import unittest\nunittest.TestCase().assertEqual(slow(1), 3)",  "from collections import defaultdict\nd = defaultdict(lambda: 5)\nassert group([1], lambda v: d[v]) == {5: [1]}", "import time\nassert time.time() > 0", "assert globals()['slow'](2) == 4", "assert eval('slow(3)') == 6", "del counter\ntry:\n    inc()\n    assert False\nexcept NameError:\n    pass", "import types\nassert isinstance(slow, types.FunctionType)", "import sys\nassert sys.modules is not None and slow(1) == 2",  "try:\n    import nowhere\nexcept ImportError:\n    nowhere = None\nassert nowhere is None and slow(1) == 2", "raise SystemExit(0)", "assert slow(1) == 2; assert slow(2) == 5",
    ]),
]  # fmt: skip

SETUPS: list[tuple[str, str, str, bool]] = [  # (source, setup, test, accepted)
    ("def f(x): return x + 1", "from math import isclose", "assert isclose(f(0.1), 1.1)", True),
    ("def f(x): return x + 1", "CASES = [(1, 2), (2, 3)]", "for a, b in CASES: assert f(a) == b", True),
    ("def f(x): return x + 1", "import math as m\nEPS = 1e-6", "assert abs(f(m.pi) - 4.14159265) < EPS", True),
    ("def f(x): return x + 1", "class Ref:\n    def __init__(self, x): self.x = x\n    def value(self): return self.x + 1\ndef ref(x): return Ref(x).value()", "assert f(4) == ref(4)", True),
    ("def f(x): return x + 2", "def ref(x):\n    return x + 1", "assert f(4) == ref(4)", False),
    ("class Node:\n    def __init__(self, v): self.v = v\ndef f(n): return n.v", "head = Node(3)", "assert f(head) == 3", True),
    ("def f(n): return n.v", "class Node:\n    def __init__(self, v): self.v = v", "assert f(Node(4)) == 4", True),
    ("def f(s):\n    return s[::-1]", "def f(s: str) -> str:\n    '''Reverse s.'''", "assert f('ab') == 'ba'", True),
    ("class Stack:\n    def __init__(self): self.v = []\n    def push(self, x): self.v.append(x)", "class Stack:\n    '''To write.'''\n    def push(self, x):\n        raise NotImplementedError", "s = Stack()\ns.push(1)\nassert s.v == [1]", True),
    ("def f(x): return x", "from typing import *\nfrom collections import *", "assert Counter(f('aa')) == {'a': 2}", True),
    ("def f(x): return x", "try:\n    from nowhere import same\nexcept ImportError:\n    def same(a, b):\n        return a == b", "assert same(f(1), 1)", True),
]  # fmt: skip

SCRIPTS: list[tuple[str, str, str]] = [  # (source, stdin, stdout): all accepted
    ("print(sum(map(int, input().split())))", "1 2 3\n", "6\n"),
    ("import sys\nfor line in sys.stdin: print(line.strip()[::-1])", "ab\ncd\n", "ba\ndc\n"),
    ("import sys\ndata = sys.stdin.read().split()\nsys.stdout.write(data[-1])", "1 2\n3", "3\n"),
    ("import sys\ninput = sys.stdin.readline\nn = int(input())\nprint(*[int(input()) for _ in range(n)], sep='\\n')", "2\n5\n6\n", "5\n6\n"),
    ("def main():\n    n = int(input())\n    print(n * 2)\nif __name__ == '__main__':\n    main()", "4", "8"),
    ("import sys\nprint(6)\nsys.exit()", "", "6"),
    ("print(6)\nexit(0)", "", "6"),
    ("print(6)\nquit()", "", "6"),
    ("print(6)\nraise SystemExit", "", "6"),
    ("import os, sys\nprint(6)\nsys.stdout.flush()\nos._exit(0)", "", "6"),
    ("import sys\nprint(6)\nsys.stdout.close()", "", "6"),
    ("out = open(1, 'w')\nout.write('6\\n')", "", "6"),
    ("import io, os, sys\nbuffer = io.BytesIO()\nsys.stdout = io.TextIOWrapper(buffer)\nprint(6)\nsys.stdout.flush()\nos.write(1, buffer.getvalue())", "", "6"),
    ("import sys\nsys.stdout = open('/dev/stdout', 'w')\nprint(6)", "", "6"),
    ("print(open('/dev/stdin').read().strip())", "6\n", "6"),
    ("print(open(0).read().strip())", "6\n", "6"),
    ("import fileinput\nprint(sum(int(l) for l in fileinput.input()))", "1\n2\n", "3"),
    ("import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(1 << 27)\ndef main():\n    def depth(n): return 0 if n == 0 else 1 + depth(n - 1)\n    print(depth(20000))\nt = threading.Thread(target=main)\nt.start()\nt.join()", "", "20000"),
    ("import sys\nsys.setrecursionlimit(10**5)\ndef depth(n): return 0 if n == 0 else 1 + depth(n - 1)\nprint(depth(5000))", "", "5000"),
    ("try:\n    while True: print(input())\nexcept EOFError: pass", "a\nb\n", "a\nb\n"),
    ("print(*range(5), end=' ')", "", "0 1 2 3 4"),
    ("print('é', '\\u4e2d')", "", "é 中"),
    ("print(input())", "naïve\n", "naïve"),
    ("print(1 / 3)", "", "0.3333333333"),
    ("print('%.6f' % 0.5)", "", "0.5"),
    ("print(2.5)", "", "2.5000000000"),
    ("print('a\\r\\nb')", "", "a\nb\n"),
    ("import atexit\natexit.register(print, 6)", "", "6"),
    ("import threading\nthreading.Thread(target=print, args=(6,)).start()", "", "6"),
    ("import sys\nsys.stderr.write('debug')\nprint(6)", "", "6"),
    ("import heapq, bisect, math, itertools, collections, re, string, functools, random\nprint(6)", "", "6"),
    ("import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(512 * 1024 * 1024)\ndef depth(n): return 0 if n == 0 else 1 + depth(n - 1)\nt = threading.Thread(target=lambda: print(depth(10**5)))\nt.start()\nt.join()", "", "100000"),
    ("\ufeffprint(__builtins__.sum([1, 2, 3]))", "", "6"),
    ("import os, sys\nprint(os.path.basename(__file__) and 6)\nsys.stdout.flush()\ndel sys.stdout, sys.stderr", "", "6"),
    ("class Scanner:\n    def __init__(self): self.words = iter(open(0).read().split())\n    def int(self): return int(next(self.words))\ns = Scanner()\nprint(s.int() + s.int())", "2 4", "6"),
]  # fmt: skip
