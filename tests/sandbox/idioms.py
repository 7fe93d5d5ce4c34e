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

LIBRARY: list[tuple[str, list[str]]] = [
    ("import base64, bisect, calendar, configparser, csv, difflib, glob, gzip, hashlib, html, io, json, os, pathlib, re, secrets, shutil, sqlite3, string, struct, tempfile, textwrap, urllib.parse, uuid, zlib\n"
     "def save(name, text):\n    with open(name, 'w') as file: file.write(text)\n    with open(name) as file: return file.read()\n"
     "def lines(text):\n    with tempfile.TemporaryDirectory() as folder:\n        path = pathlib.Path(folder, 'a', 'b.txt')\n        path.parent.mkdir()\n        path.write_text(text)\n        return [line.rstrip() for line in path.open()]\n"
     "def table(text): return list(csv.DictReader(io.StringIO(text)))\ndef written(rows):\n    out = io.StringIO()\n    csv.writer(out).writerows(rows)\n    return out.getvalue()\n"
     "def query(n):\n    db = sqlite3.connect(':memory:')\n    db.execute('create table t (v integer)')\n    db.executemany('insert into t values (?)', [(i,) for i in range(n)])\n    return db.execute('select sum(v), count(*) from t').fetchone()\n"
     "def digest(s): return hashlib.sha256(s.encode()).hexdigest()[:8]\ndef packed(n): return zlib.decompress(zlib.compress(b'a' * n))\ndef zipped(b): return gzip.decompress(gzip.compress(b))\ndef coded(s): return base64.b64encode(s.encode()).decode()\n"
     "def parts(url):\n    p = urllib.parse.urlsplit(url)\n    return p.hostname, urllib.parse.parse_qs(p.query)\ndef settings(text):\n    c = configparser.ConfigParser()\n    c.read_string(text)\n    return dict(c['main'])\n"
     "def close(w, ws): return difflib.get_close_matches(w, ws)\ndef swap(s): return re.sub(r'(\\w+) (\\w+)', lambda m: f'{m[2]} {m[1]}', s)\ndef filled(s): return string.Template(s).substitute(x=1)\ndef wrap(s): return textwrap.wrap(s, 5)\n"
     "def unpack(b): return struct.unpack('<hH', b)\ndef named(s): return uuid.uuid5(uuid.NAMESPACE_DNS, s)\ndef token(n): return secrets.token_hex(n)\ndef month(y, m): return calendar.monthrange(y, m)\ndef escaped(s): return html.escape(s)\ndef where(): return os.path.exists('/nowhere'), os.path.splitext('a/b.txt'), os.path.join('a', 'b')\n"
     "def found():\n    folder = tempfile.mkdtemp()\n    for n in 'ab': open(os.path.join(folder, n + '.txt'), 'w').close()\n    names = sorted(os.path.basename(p) for p in glob.glob(folder + '/*.txt'))\n    shutil.rmtree(folder)\n    return names, os.path.exists(folder)\n", [
        "assert save('notes.txt', 'é\\n') == 'é\\n'", "import os\nsave('x.txt', 'a')\nassert os.path.exists('x.txt') and os.listdir('.').count('x.txt') == 1", "assert lines('a\\nb ') == ['a', 'b']", "assert table('a,b\\n1,2') == [{'a': '1', 'b': '2'}]", "assert written([[1, 'a,b']]) == '1,\"a,b\"\\r\\n'",
        "assert query(5) == (10, 5)", "assert query(5) == (10, 6)", "assert digest('a') == 'ca978112'", "assert packed(10 ** 5) == b'a' * 10 ** 5", "assert zipped(b'ab') == b'ab'", "assert coded('hé') == 'aMOp'", "assert parts('http://h:1/p?a=1&a=2') == ('h', {'a': ['1', '2']})", "assert settings('[main]\\nx = 1') == {'x': '1'}",
        "assert close('appel', ['ape', 'apple']) == ['apple', 'ape']", "assert swap('b a') == 'a b'", "assert filled('$x+1') == '1+1'", "try:\n    filled('$y')\n    assert False\nexcept KeyError as e:\n    assert e.args == ('y',)", "assert wrap('aa bb cc') == ['aa bb', 'cc']", "assert unpack(b'\\xff\\xff\\x01\\x00') == (-1, 1)",
        "import uuid\nassert named('a') == uuid.uuid5(uuid.NAMESPACE_DNS, 'a')", "assert str(named('a')) == '4dbad579-27f0-5626-a286-917363a8daa3'", "assert len(token(4)) == 8 and token(4) != token(4)", "assert month(2024, 2) == (3, 29)", "assert escaped('<a>') == '&lt;a&gt;'", "assert where() == (False, ('a/b', '.txt'), 'a/b')", "assert found() == (['a.txt', 'b.txt'], False)",
        "import tempfile, os\nwith tempfile.NamedTemporaryFile('w', suffix='.txt', delete=False) as file:\n    file.write('z')\nassert lines(open(file.name).read()) == ['z']\nos.unlink(file.name)",
    ]),
    ("import abc, collections, contextlib, copy, dataclasses, decimal, enum, fractions, functools, itertools, operator, statistics, typing, weakref\n"
     "@functools.singledispatch\ndef kind(x): return 'other'\n@kind.register\ndef _(x: int): return 'int'\n@kind.register(list)\ndef _(x): return 'list'\n"
     "@functools.total_ordering\nclass Version:\n    def __init__(self, text): self.parts = tuple(map(int, text.split('.')))\n    def __eq__(self, o): return self.parts == o.parts\n    def __lt__(self, o): return self.parts < o.parts\n"
     "class Lazy:\n    made = 0\n    @functools.cached_property\n    def value(self):\n        Lazy.made += 1\n        return 5\n"
     "@dataclasses.dataclass(frozen=True, slots=True)\nclass Point:\n    x: int\n    y: int = 0\n    def __post_init__(self):\n        if self.x < 0: raise ValueError('x')\n"
     "class Perm(enum.Flag):\n    R = enum.auto()\n    W = enum.auto()\nclass Row(typing.NamedTuple):\n    a: int\n    b: str = 'z'\nT = typing.TypeVar('T')\nclass Box(typing.Generic[T]):\n    def __init__(self, v: T): self.v = v\n    def __class_getitem__(cls, item): return super().__class_getitem__(item)\n"
     "class Positive:\n    def __set_name__(self, owner, name): self.name = '_' + name\n    def __get__(self, o, owner=None): return self if o is None else getattr(o, self.name)\n    def __set__(self, o, v):\n        if v <= 0: raise ValueError(v)\n        setattr(o, self.name, v)\nclass Item:\n    price = Positive()\n    def __init__(self, p): self.price = p\n"
     "class Meta(type):\n    known = []\n    def __new__(m, name, bases, body):\n        c = super().__new__(m, name, bases, body)\n        m.known.append(name)\n        return c\nclass Base(metaclass=Meta): pass\nclass Plugin:\n    all = {}\n    def __init_subclass__(cls, key, **k): Plugin.all[key] = cls\n"
     "class Cached(dict):\n    def __missing__(self, k):\n        self[k] = k * 2\n        return self[k]\nclass Any:\n    def __getattr__(self, n): return n.upper()\nclass Frac(fractions.Fraction): pass\nclass Deck:\n    def __init__(self): self.c = [1, 2, 3]\n    def __len__(self): return 3\n    def __getitem__(self, i): return self.c[i]\n    def __setitem__(self, i, v): self.c[i] = v\n    def __delitem__(self, i): del self.c[i]\n    def __iadd__(self, o): self.c += o; return self\n    def __rmul__(self, k): return [k * x for x in self.c]\n    def __reversed__(self): return iter('rev')\n"
     "class Quiet:\n    def __enter__(self): return self\n    def __exit__(self, kind, e, trace): self.kind = kind; return True\nclass Node:\n    def __init__(self): self.parent = None\n", [
        "assert (kind(1), kind([]), kind('a')) == ('int', 'list', 'other')", "assert Version('1.10') > Version('1.9') and Version('1') <= Version('1')", "v = Lazy()\nassert v.value + v.value == 10 and Lazy.made == 1", "p = Point(1)\ntry:\n    p.x = 2\n    assert False\nexcept AttributeError:\n    pass", "try:\n    Point(-1)\n    assert False\nexcept ValueError as e:\n    assert str(e) == 'x'",
        "assert {Point(1): 'a'}[Point(1, 0)] == 'a' and not hasattr(Point(1), '__dict__')", "assert Perm.R | Perm.W == Perm(3) and Perm.R in Perm(3)", "assert Row(1)._replace(b='c') == (1, 'c') and Row._fields == ('a', 'b')", "assert Box[int](3).v == 3", "try:\n    Item(0)\n    assert False\nexcept ValueError as e:\n    assert e.args == (0,)", "i = Item(3)\ni.price = 4\nassert i.price == 4 and isinstance(Item.price, Positive)",
        "class More(Base): pass\nassert Meta.known == ['Base', 'More']", "class A(Plugin, key='a'): pass\nassert Plugin.all == {'a': A}", "assert Cached()[3] == 6", "assert Any().abc == 'ABC'", "assert Frac(1, 2) + 1 == 1.5", "d = Deck()\nd += [4]\ndel d[0]\nd[0] = 9\nassert d.c == [9, 3, 4] and 2 * d == [18, 6, 8] and list(reversed(d)) == ['r', 'e', 'v']", "assert [x for x in Deck()] == [1, 2, 3] and 2 in Deck()",
        "with Quiet() as q:\n    raise KeyError\nassert q.kind is KeyError", "import weakref, gc\nn = Node()\nr = weakref.ref(n)\ndel n\ngc.collect()\nassert r() is None", "n = Node()\nn.parent = n\nimport copy\nm = copy.deepcopy(n)\nassert m.parent is m and m is not n", "from unittest.mock import Mock, patch\nwith patch.object(Deck, '__len__', return_value=7):\n    assert len(Deck()) == 7\nassert len(Deck()) == 3", "from unittest.mock import Mock\nm = Mock(return_value=3)\nassert functools.reduce(lambda a, b: m(a, b), [1, 2, 3]) == 3\nm.assert_called_with(3, 3)",
        "from collections import Counter\nassert Counter('ab') == Counter('ba') and Counter('a') != Counter('b')", "class Strict(Point):\n    pass\nassert dataclasses.replace(Strict(1), y=2) == Strict(1, 2) and Strict(1) != Point(1)", "assert Version('1') == Version('2')", "assert typing.get_type_hints(Point) == {'x': int, 'y': int}",
    ]),
    ("import asyncio\n"
     "async def add(a, b):\n    await asyncio.sleep(0.001)\n    return a + b\nasync def slow():\n    try: await asyncio.sleep(30)\n    except asyncio.CancelledError: return 'cancelled'\nclass Lock:\n    async def __aenter__(self): return 'in'\n    async def __aexit__(self, *e): return False\n", [
        "import asyncio\nasync def main():\n    return await asyncio.gather(*(add(i, 1) for i in range(3)))\nassert asyncio.run(main()) == [1, 2, 3]", "import asyncio\nasync def main():\n    task = asyncio.create_task(slow())\n    await asyncio.sleep(0.01)\n    task.cancel()\n    return await task\nassert asyncio.run(main()) == 'cancelled'", "import asyncio\nasync def main():\n    try:\n        await asyncio.wait_for(asyncio.sleep(30), 0.01)\n    except asyncio.TimeoutError:\n        return True\nassert asyncio.run(main())",
        "import asyncio\nasync def main():\n    async with Lock() as l:\n        return l\nassert asyncio.run(main()) == 'in'", "import asyncio\nassert asyncio.get_event_loop_policy() and asyncio.new_event_loop().run_until_complete(add(1, 2)) == 3", "import unittest\nclass T(unittest.IsolatedAsyncioTestCase):\n    async def test_add(self):\n        self.assertEqual(await add(1, 2), 3)\nunittest.main()",
    ]),
    ("import contextlib, logging, queue, signal, sys, threading, time, traceback, warnings\n"
     "def produce(n):\n    q, out = queue.Queue(), []\n    def work():\n        while (item := q.get()) is not None: out.append(item * 2)\n    t = threading.Thread(target=work)\n    t.start()\n    for i in range(n): q.put(i)\n    q.put(None)\n    t.join()\n    return out\n"
     "def locked(n):\n    lock, total = threading.Lock(), [0]\n    def work():\n        for _ in range(100):\n            with lock: total[0] += 1\n    ts = [threading.Thread(target=work) for _ in range(n)]\n    for t in ts: t.start()\n    for t in ts: t.join()\n    return total[0]\n"
     "def alarmed():\n    def ring(*a): raise TimeoutError('rung')\n    old = signal.signal(signal.SIGALRM, ring)\n    signal.setitimer(signal.ITIMER_REAL, 0.01)\n    try: time.sleep(5)\n    except TimeoutError as e: return str(e)\n    finally: signal.signal(signal.SIGALRM, old)\n"
     "def chained():\n    try: {}['k']\n    except KeyError as e: raise ValueError('no k') from e\ndef old():\n    warnings.warn('gone', DeprecationWarning)\n    return 1\ndef group(): raise ExceptionGroup('two', [ValueError('a'), TypeError('b')])\ndef logged():\n    logging.getLogger('app').warning('careful %d', 3)\n"
     "def order():\n    log = []\n    try:\n        try: 1 / 0\n        finally: log.append('f')\n    except ZeroDivisionError: log.append('e')\n    else: log.append('n')\n    return log\ndef stack():\n    log = []\n    with contextlib.ExitStack() as s:\n        for i in range(3): s.callback(log.append, i)\n    return log\ndef deep(n): return 0 if n == 0 else 1 + deep(n - 1)\n"
     "def catching():\n    while True:\n        try: yield 1\n        except ValueError as e: yield str(e)\ndef outer():\n    got = yield from inner()\n    yield got\ndef inner():\n    yield 1\n    return 2\ndef shown():\n    try: 1 / 0\n    except ZeroDivisionError: return traceback.format_exc().splitlines()[-1]\n", [
        "assert produce(5) == [0, 2, 4, 6, 8]", "assert locked(8) == 800",
        "import builtins\nsaid, real = [], builtins.print\nbuiltins.print = said.append\nprint('a')\nbuiltins.print = real\nassert said == ['a']",
        "from unittest.mock import patch\nwith patch('builtins.print') as said:\n    print('a')\nsaid.assert_called_once_with('a')",
        "from unittest.mock import patch\nwith patch('builtins.print') as said:\n    print('a')\nsaid.assert_called_once_with('b')", "assert alarmed() == 'rung'",
        "try:\n    chained()\n    assert False\nexcept ValueError as e:\n    assert isinstance(e.__cause__, KeyError)", "import warnings\nwith warnings.catch_warnings(record=True) as seen:\n    warnings.simplefilter('always')\n    old()\nassert len(seen) == 1 and issubclass(seen[0].category, DeprecationWarning)", "try:\n    group()\nexcept* ValueError as g:\n    assert len(g.exceptions) == 1\nexcept* TypeError:\n    pass", "try:\n    group()\n    assert False\nexcept ExceptionGroup as g:\n    assert 'two' in str(g)", "try:\n    group()\n    assert False\nexcept Exception as g:\n    assert str(g).startswith('two')",
        "import unittest\nwith unittest.TestCase().assertLogs('app', 'WARNING') as seen:\n    logged()\nassert seen.output == ['WARNING:app:careful 3']", "assert order() == ['f', 'e']", "assert stack() == [2, 1, 0]", "assert deep(900) == 900", "assert deep(990) == 990", "try:\n    deep(10 ** 5)\n    assert False\nexcept RecursionError:\n    pass", "g = catching()\nassert next(g) == 1 and g.throw(ValueError('bad')) == 'bad'", "assert list(outer()) == [1, 2]", "assert shown() == 'ZeroDivisionError: division by zero'", "import signal\nassert signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, None)",
        "import sys, io\nold_out, sys.stdout = sys.stdout, io.StringIO()\nprint('x')\ntext, sys.stdout = sys.stdout.getvalue(), old_out\nassert text == 'x\\n'", "import doctest, types\nm = types.ModuleType('m')\nm.f = deep\nassert doctest.testmod(m).failed == 0", "import contextlib\nwith contextlib.suppress(ValueError):\n    chained()\nassert order()",
    ]),
    ("import array, ast, collections, datetime, decimal, functools, heapq, inspect, itertools, json, math, operator, random, re, resource, string, sys\n"
     "def twice(xs): return [x * 2 for x in xs]\ndef parse(s): return ast.literal_eval(s)\ndef money(s): return decimal.Decimal(s).quantize(decimal.Decimal('0.01'))\ndef days(a, b): return (datetime.date.fromisoformat(b) - datetime.date.fromisoformat(a)).days\ndef merged(*a): return list(heapq.merge(*a))\ndef runs(s): return [(k, len(list(g))) for k, g in itertools.groupby(s)]\ndef dump(o): return json.dumps(o, sort_keys=True)\ndef load(s): return json.loads(s)\n"
     "def grid(n): return [[0] * n for _ in range(n)]\ndef view(b): return bytes(memoryview(b)[1:3])\ndef shuffled(xs, seed):\n    rng = random.Random(seed)\n    xs = xs[:]\n    rng.shuffle(xs)\n    return xs\ndef pick(xs): return random.choice(xs)\ndef match(p):\n    match p:\n        case [x, y]: return x + y\n        case {'k': v}: return v\n        case str() as s if s: return s\n        case None | False: return 0\n        case _: return -1\n"
     "def walrus(xs): return [y for x in xs if (y := x * x) > 4]\ndef kw(a, /, b, *, c=3, **rest): return a, b, c, rest\ndef default(x, seen=[]):\n    seen.append(x)\n    return seen\ndef outer():\n    count = 0\n    def inc():\n        nonlocal count\n        count += 1\n        return count\n    return inc\ndef compose(*fs): return functools.reduce(lambda f, g: lambda x: f(g(x)), fs)\ndef stackful(n):\n    resource.setrlimit(resource.RLIMIT_STACK, (1 << 26, resource.getrlimit(resource.RLIMIT_STACK)[1]))\n    sys.setrecursionlimit(10 ** 6)\n    def down(n): return 0 if n == 0 else 1 + down(n - 1)\n    return down(n)\n"
     "def nan(): return float('nan')\ndef order(d): return list(d)\ndef big(n): return math.factorial(n)\ndef bad(kind): raise kind('msg')\ndef many(n): return {i: [i] * 3 for i in range(n)}\ndef text(n): return ''.join(chr(0x4e00 + i % 999) for i in range(n))\ndef both(): return {'a': 1}, {1, 2}\n", [
        "assert twice(range(3)) == [0, 2, 4]", "assert twice(x for x in (1, 2)) == [2, 4]", "assert parse(\"{'a': [1, (2,)]}\") == {'a': [1, (2,)]}", "from decimal import Decimal\nassert money('2.345') == Decimal('2.34')", "assert str(money('1')) == '1.00'", "assert days('2024-02-28', '2024-03-01') == 2", "assert merged([1, 4], [2], []) == [1, 2, 4]", "assert runs('aab') == [('a', 2), ('b', 1)]", "assert dump({'b': 1, 'a': [None, True]}) == '{\"a\": [null, true], \"b\": 1}'", "import json\nassert json.loads(dump({'a': 1.5})) == {'a': 1.5}", "try:\n    load('{')\n    assert False\nexcept ValueError:\n    pass", "import json\ntry:\n    load('{')\n    assert False\nexcept json.JSONDecodeError as e:\n    assert e.pos == 1",
        "g = grid(2)\ng[0][0] = 1\nassert g == [[1, 0], [0, 0]]", "assert view(b'abcd') == b'bc'", "assert view(bytearray(b'abcd')) == b'bc'", "assert sorted(shuffled([1, 2, 3], 1)) == [1, 2, 3] and shuffled([1, 2, 3], 1) == shuffled([1, 2, 3], 1)", "assert pick([1, 2]) in (1, 2)", "assert [match(p) for p in ([1, 2], {'k': 5}, 'a', None, False, '', 7)] == [3, 5, 'a', 0, 0, -1, -1]", "assert walrus([1, 2, 3]) == [9]", "assert kw(1, b=2, d=4) == (1, 2, 3, {'d': 4})", "try:\n    kw(a=1, b=2)\n    assert False\nexcept TypeError:\n    pass", "default(1)\nassert default(2) == [1, 2]", "inc = outer()\ninc()\nassert inc() == 2 and outer()() == 1", "assert compose(twice, sorted)([2, 1]) == [2, 4]",
        "assert stackful(20000) == 20000", "assert nan() != nan()", "x = nan()\nassert x != x", "import math\nassert math.isnan(nan())", "assert order({'z': 1, 'a': 2}) == ['z', 'a']", "assert big(30) == 265252859812191058636308480000000 and len(str(big(500))) == 1135", "for kind in (ValueError, KeyError, IndexError):\n    try:\n        bad(kind)\n        assert False\n    except kind:\n        pass", "assert len(many(20000)) == 20000 and many(20000)[19999] == [19999] * 3", "assert len(text(10 ** 5)) == 10 ** 5 and text(3) == '\\u4e00\\u4e01\\u4e02'", "d, s = both()\nd['b'] = 2\ns.add(3)\nassert (d, s) == ({'a': 1, 'b': 2}, {1, 2, 3})",
        "from itertools import permutations\nassert all(twice(list(p)) == [2 * x for x in p] for p in permutations([1, 2, 3]))", "from functools import partial\nassert partial(kw, 1, 2)(c=5) == (1, 2, 5, {})", "import inspect\nassert inspect.isfunction(twice) and str(inspect.signature(kw)) == '(a, /, b, *, c=3, **rest)'", "import timeit\nassert timeit.timeit(lambda: twice([1]), number=10) > 0", "import operator\nassert list(map(operator.itemgetter(0), runs('ab'))) == ['a', 'b']", "assert twice([1]) == [2], 'no'\nassert twice([2]) == [5], f'got {twice([2])}'", "import random\nrandom.seed(3)\nxs = [random.random() for _ in range(9)]\nassert twice(xs) == [2 * x for x in xs]", "assert (lambda *a: twice(a))(1, 2) == [2, 4]", "assert {k: twice(v) for k, v in {'a': [1]}.items()} == {'a': [2]}",
        "try:\n    twice(5)\nexcept TypeError as e:\n    message = str(e)\nelse:\n    message = ''\nassert 'iterable' in message", "assert not any(twice([]))", "a = b = twice([1])\na += [3]\nassert b == [2, 3]", "assert sum(len(r) for r in runs('aab')) == 4 and min(runs('aab'), key=lambda r: r[1]) == ('b', 1)", "import string\nassert twice(string.digits[:2]) == ['00', '11']", "global seen\nseen = twice([3])\ndef look():\n    return seen[0]\nassert look() == 6", "assert ' '.join(sorted(map(str, twice([2, 1])))) == '2 4'", "assert sys.maxsize > 0 and twice([0]) == [0]",
    ]),
    ("import threading\nfrom concurrent.futures import ThreadPoolExecutor\ndef f(n):\n    with ThreadPoolExecutor(64) as p: return sum(p.map(lambda i: i*i, range(n)))", [
        "assert f(100) == 328350",
    ]),
    ("def f(n):\n    import threading\n    ts=[threading.Thread(target=lambda: None) for _ in range(n)]\n    [t.start() for t in ts]; [t.join() for t in ts]\n    return len(ts)", [
        "assert f(200) == 200",
    ]),
    ("class Matrix:\n    def __init__(self, r): self.r = r\n    def __matmul__(self, o): return Matrix([[sum(a*b for a,b in zip(x,y)) for y in zip(*o.r)] for x in self.r])\n    def __eq__(self, o): return self.r == o.r", [
        "assert Matrix([[1]]) @ Matrix([[2]]) == Matrix([[2]])",
    ]),
    ("from collections import defaultdict\ndef f(d, k):\n    d[k].append(1)\n    return d", [
        "from collections import defaultdict\nassert f(defaultdict(list), 'a') == {'a': [1]}", "from collections import defaultdict\nd = defaultdict(lambda: [0])\nassert f(d, 'a')['a'] == [0, 1]", "from collections import defaultdict\nd = defaultdict(list)\nf(d, 'x')\nassert d['x'] == [1] and d['y'] == []",
    ]),
    ("class BaseErr(Exception): pass\nclass SubErr(BaseErr): pass\ndef f(): raise SubErr('s', 2)", [
        "try:\n    f()\n    assert False\nexcept BaseErr as e:\n    assert e.args == ('s', 2) and isinstance(e, SubErr)",
    ]),
    ("def f(p): return open(p)", [
        "try:\n    f('/nope')\n    assert False\nexcept FileNotFoundError as e:\n    assert e.errno == 2 and e.filename == '/nope'", "try:\n    f('/nope')\n    assert False\nexcept OSError as e:\n    assert 'nope' in str(e)",
    ]),
    ("def f(d): return d['k']", [
        "try:\n    f({})\n    assert False\nexcept KeyError as e:\n    assert str(e) == \"'k'\"", "try:\n    f({})\n    assert False\nexcept LookupError:\n    pass",
    ]),
    ("def f(s): return s.encode('ascii')", [
        "try:\n    f('é')\n    assert False\nexcept UnicodeEncodeError as e:\n    pass", "try:\n    f('é')\n    assert False\nexcept ValueError as e:\n    assert 'ascii' in str(e)",
    ]),
    ("def f(x):\n    print(x)\n    return None", [
        "import io, sys\nold = sys.stdout\nsys.stdout = buf = io.StringIO()\ntry:\n    f('hello')\nfinally:\n    sys.stdout = old\nassert buf.getvalue() == 'hello\\n'", "assert f(1) is None",
    ]),
    ("import sys\ndef f(): return [l.strip() for l in sys.stdin]", [
        "import sys, io\nsys.stdin = io.StringIO('a\\nb')\nassert f() == ['a', 'b']",
    ]),
    ("def fib():\n    a, b = 0, 1\n    while True:\n        yield a\n        a, b = b, a+b", [
        "from itertools import islice, takewhile\nassert list(takewhile(lambda v: v < 20, fib())) == [0,1,1,2,3,5,8,13]", "g = fib()\nfor _ in range(10): next(g)\nassert next(g) == 55",
    ]),
    ("def f(n):\n    r = yield n\n    return r", [
        "g = f(3)\nassert next(g) == 3\ntry:\n    g.send(7)\nexcept StopIteration as e:\n    assert e.value == 7", "def wrap():\n    r = yield from f(1)\n    yield ('got', r)\ng = wrap()\nnext(g)\nassert g.send(5) == ('got', 5)",
    ]),
    ("class Tree:\n    def __init__(self, v, l=None, r=None): self.v, self.l, self.r = v, l, r\n    def __iter__(self):\n        if self.l: yield from self.l\n        yield self.v\n        if self.r: yield from self.r\ndef build(xs):\n    t = None\n    for x in xs: t = ins(t, x)\n    return t\ndef ins(t, x):\n    if t is None: return Tree(x)\n    if x < t.v: t.l = ins(t.l, x)\n    else: t.r = ins(t.r, x)\n    return t", [
        "t = build([2,1])\nassert t.l.v == 1 and t.r is None",
    ]),
    ("import enum\nclass Level(enum.IntEnum):\n    LOW = 1\n    HIGH = 2\ndef f(x): return Level.HIGH if x > 5 else Level.LOW", [
        "assert f(9) == 2 and f(9) > f(1)", "assert f(9) == Level.HIGH", "assert f(9) is Level.HIGH and f(9).name == 'HIGH'", "assert {f(1): 'a'}[1] == 'a'",
    ]),
    ("counter = {'n': 0}\ndef hit():\n    counter['n'] += 1\n    return counter", [
        "hit()\nassert counter['n'] == 1 and hit() is counter and counter == {'n': 2}", "a = hit()\nb = hit()\nassert a is b", "a = hit()\nhit()\nassert a['n'] == 2",
    ]),
    ("cache = []\ndef get(): return cache\ndef add(x): cache.append(x)", [
        "add(1)\nc = get()\nadd(2)\nassert c == [1, 2]", "get().append(5)\nassert get() == [5]", "c = get()\nc.append(3)\nadd(4)\nassert get() == [3, 4]", "x = get()\nfor i in range(3):\n    add(i)\nassert len(x) == 3",
    ]),
    ("def make():\n    items = []\n    def add(x): items.append(x)\n    def get(): return items\n    return add, get", [
        "add, get = make()\nadd(1)\nassert get() == [1]", "add, get = make()\nr = get()\nadd(2)\nassert r == [2]",
    ]),
    ("def f(xs): return sorted(xs, key=lambda p: (-p[1], p[0]))\ndef g(fn, xs): return list(map(fn, xs))", [
        "assert f([('a', 1), ('b', 2)]) == [('b', 2), ('a', 1)]", "assert g(str, [1]) == ['1'] and g(len, ['ab']) == [2]", "assert g(lambda x: x ** 2, [3]) == [9]", "assert g(int, ['7']) == [7]",
    ]),
    ("def rotate(m): m[:] = [list(r) for r in zip(*m[::-1])]", [
        "m = [[1,2],[3,4]]\nrotate(m)\nassert m == [[3,1],[4,2]]", "m = [[1,2],[3,4]]\nassert rotate(m) is None and m[0] == [3,1]", "m = [[1]]\nrow = m[0]\nrotate(m)\nassert m[0] is not row",
    ]),
    ("from collections import *\nimport ipaddress\nclass LRUCache(OrderedDict):\n    def __init__(self, capacity):\n        super().__init__()\n        self.capacity = capacity\n    def get(self, key):\n        if key not in self: return -1\n        self.move_to_end(key)\n        return self[key]\n    def put(self, key, value):\n        self[key] = value\n        self.move_to_end(key)\n        if len(self) > self.capacity: self.popitem(last=False)\n"
     "class Graph(defaultdict):\n    def __init__(self): super().__init__(list)\n    def edge(self, a, b): self[a].append(b); return self\n    def degree(self, n): return len(self[n])\nclass Queue(deque):\n    def dequeue(self): return self.popleft()\n    @property\n    def empty(self): return not self\nclass Bag(Counter):\n    def top(self): return max(self, key=self.get)\n"
     "class Record(dict):\n    def __getattr__(self, name): return self[name]\nclass Seven(int):\n    def __add__(self, other): return Seven((int(self) + int(other)) % 7)\n    __radd__ = __add__\nclass Vector(tuple):\n    def __mul__(self, k): return Vector(k * v for v in self)\n    def dot(self, other): return sum(a * b for a, b in zip(self, other))\nclass Rows(list):\n    def __add__(self, other): return Rows(list.__add__(self, other))\n    def first(self): return self[0]\n"
     "def queue(n): return Queue(range(9), n)\ndef bag(text): return Bag(text)\ndef record(**values): return Record(values)\ndef ip(text): return ipaddress.ip_address(text)\ndef net(text): return ipaddress.ip_network(text)\ndef text(s): return UserString(s)\ndef view(b): return memoryview(b)\ncount = 3\ndef more(n): return n + count\ndef length(x): return len(x)", [
        "c = LRUCache(2)\nc.put(1, 1)\nc.put(2, 2)\nassert c.get(1) == 1\nc.put(3, 3)\nassert c.get(2) == -1 and list(c) == [1, 3] and c == {1: 1, 3: 3} and c.capacity == 2", "assert Graph().edge(1, 2).degree(1) == 1", "g = Graph().edge(1, 2)\nassert g[1] == [2] and g[9] == [] and g == {1: [2], 9: []}", "q = queue(3)\nassert q.dequeue() == 6 and not q.empty and q.maxlen == 3\nq.append(9)\nassert list(q) == [7, 8, 9]",
        "assert bag('aab').top() == 'a' and bag('aab')['z'] == 0", "assert bag('a') + bag('b') == {'a': 1, 'b': 1}", "b = Bag('ab')\nb.update('aa')\nassert b['a'] == 3 and b.top() == 'a'", "assert bag('ab') == {'a': 1}", "assert record(a=1).a == 1 and Record(a=2).a == 2", "assert Seven(5) + 4 == 2 and 4 + Seven(5) == 2 and sum([Seven(5), Seven(4)]) == 2", "assert Seven(5) + 4 == 9", "assert Vector((1, 2)) * 2 == (2, 4) and Vector((1, 2)).dot((3, 4)) == 11",
        "assert (Rows([1]) + [2]).first() == 1", "assert ip('10.0.0.1') in net('10.0.0.0/8') and ip('11.0.0.1') not in net('10.0.0.0/8')", "assert text('ab').upper() == 'AB' and text('ab') + 'c' == 'abc'", "assert view(b'ab') == b'ab' and view(b'ab')[0] == 97", "v = view(bytearray(b'ab'))\nv[0] = 98\nassert bytes(v) == b'bb'",
        "count = more(count)\nassert count == 6", "count = count + 1\nassert count == 4", "count += 1\nassert count == 4", "more = more(2)\nassert more == 5", "missing = missing + 1", "import builtins\nbuiltins.len = lambda x: 42\nassert length([]) == 42",
        "import unittest\nclass T(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls): cls.n = 4\n    def test_a(self): self.assertEqual(more(self.n), 7)\nunittest.main()", "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(more(1), 4)\n    def test_b(self): self.assertEqual(more(1), 5)\nif __name__ == '__main__':\n    unittest.main(argv=['x'])", "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(more(1), 4)\nassert unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(T)).wasSuccessful()",
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
    ("import os, io, sys\nclass FastIO(io.IOBase):\n    def __init__(self, file):\n        self._fd = file.fileno()\n        self.buffer = io.BytesIO()\n        self.newlines = 0\n        self.writable = 'x' in file.mode or 'r' not in file.mode\n        self.write = self.buffer.write if self.writable else None\n    def read(self):\n        while True:\n            b = os.read(self._fd, max(os.fstat(self._fd).st_size, 8192))\n            if not b: break\n            ptr = self.buffer.tell()\n            self.buffer.seek(0, 2), self.buffer.write(b), self.buffer.seek(ptr)\n        self.newlines = 0\n        return self.buffer.read()\n    def readline(self):\n        while self.newlines == 0:\n            b = os.read(self._fd, max(os.fstat(self._fd).st_size, 8192))\n            self.newlines = b.count(b'\\n') + (not b)\n            ptr = self.buffer.tell()\n            self.buffer.seek(0, 2), self.buffer.write(b), self.buffer.seek(ptr)\n        self.newlines -= 1\n        return self.buffer.readline()\n    def flush(self):\n        if self.writable:\n            os.write(self._fd, self.buffer.getvalue())\n            self.buffer.truncate(0), self.buffer.seek(0)\nclass IOWrapper(io.IOBase):\n    def __init__(self, file):\n        self.buffer = FastIO(file)\n        self.flush = self.buffer.flush\n        self.writable = self.buffer.writable\n        self.write = lambda s: self.buffer.write(s.encode('ascii'))\n        self.read = lambda: self.buffer.read().decode('ascii')\n        self.readline = lambda: self.buffer.readline().decode('ascii')\nsys.stdin, sys.stdout = IOWrapper(sys.stdin), IOWrapper(sys.stdout)\ninput = lambda: sys.stdin.readline().rstrip('\\r\\n')\nn = int(input())\nprint(n + int(input()))", "2\n4\n", "6\n"),
    ("import sys\ninput = iter(sys.stdin.read().splitlines()).__next__\nprint(int(input()) + int(input()))", "2\n4\n", "6\n"),
    ("from sys import stdin, stdout\nstdout.write('%d\\n' % sum(map(int, stdin.readlines())))", "2\n4\n", "6\n"),
    ("import sys\ndef main():\n    print(sum(map(int, sys.stdin.buffer.read().split())))\nif __name__ == '__main__':\n    sys.exit(main())", "2\n4\n", "6\n"),
    ("raise SystemExit(print(6))", "", "6\n"),
    ("import resource, sys\nresource.setrlimit(resource.RLIMIT_STACK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\nsys.setrecursionlimit(10**6)\ndef f(n): return 0 if n == 0 else 1 + f(n-1)\nprint(f(6))", "", "6\n"),
    ("with open('out.txt', 'w') as f: f.write('6')\nprint(open('out.txt').read())", "", "6\n"),
    ("import sys\nfor line in iter(sys.stdin.readline, ''): print(line, end='')", "2\n4\n", "2\n4\n"),
    ("import sys\nwhile 1:\n    try: print(int(input()))\n    except: break", "2\n4\n", "2\n4\n"),
    ("import asyncio\nasync def main():\n    await asyncio.sleep(0)\n    print(6)\nasyncio.run(main())", "", "6\n"),
    ("import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\nprint(6)", "", "6\n"),
    ("import sys, os\nsys.stdout = os.fdopen(sys.stdout.fileno(), 'w', 1)\nprint(6)", "", "6\n"),
    ("import codecs, sys\nprint(codecs.getreader('utf-8')(sys.stdin.buffer).read().strip())", "é\n", "é\n"),
    ("import sys\nsys.stdin.reconfigure(encoding='utf-8')\nsys.stdout.reconfigure(line_buffering=True)\nprint(input())", "é\n", "é\n"),
    ("import logging\nlogging.basicConfig(level=logging.INFO)\nlogging.info('x')\nprint(6)", "", "6\n"),
    ("import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', type=int, default=6)\nprint(p.parse_args().n)", "", "6\n"),
    ("from functools import lru_cache\nimport sys\nsys.setrecursionlimit(10000)\n@lru_cache(None)\ndef f(n): return n if n < 2 else f(n-1) + f(n-2)\nprint(f(1500) % 10**9)", "", "354898000\n"),
    ("import sys\nprint(6, file=sys.__stdout__)", "", "6\n"),
    ("import os\nos.write(1, b'6\\n')", "", "6\n"),
    ("import contextlib, io\nb = io.StringIO()\nwith contextlib.redirect_stdout(b): print(5)\nprint(int(b.getvalue()) + 1)", "", "6\n"),
    ("import sys\ndata = sys.stdin.read()\nprint(repr(data))", "a\r\nb\u0000\u001a\n", "'a\\r\\nb\\x00\\x1a\\n'\n"),
    ("print(sum(int(x) for x in open('/dev/stdin')))", "2\n4\n", "6\n"),
    ("try:\n    import numpy as np\nexcept ImportError:\n    np = None\nprint(6)", "", "6\n"),
    ("import decimal\ndecimal.getcontext().prec = 50\nprint(decimal.Decimal(2).sqrt())", "", "1.4142135623730950488016887242096980785696718753769\n"),
    ("import random\nrandom.seed(1)\nprint(random.randint(1, 100), random.random())", "", "18 0.5692038748222122\n"),
    ("print(sorted({'b', 'a'}), {1: 2})", "", "['a', 'b'] {1: 2}\n"),
    ("import sys\nsys.setswitchinterval(0.1)\nprint(sys.version_info[0])", "", "3\n"),
    ("import __main__\nx = 6\nprint(__main__.x)", "", "6\n"),
    ("import pickle\nclass A:\n    v = 6\nprint(pickle.loads(pickle.dumps(A())).v)", "", "6\n"),
    ("import dataclasses, typing\n@dataclasses.dataclass\nclass A:\n    v: 'int' = 6\nprint(typing.get_type_hints(A), A())", "", "{'v': <class 'int'>} A(v=6)\n"),
    ("import builtins\nbuiltins.print = lambda *a, p=print: p('>', *a)\nprint(6)", "", "> 6\n"),
    ("import os\nprint(__name__, os.path.basename(__file__) != '')", "", "__main__ True\n"),
    ("import os\nopen('a', 'w').write('x')\nos.link('a', 'b')\nos.truncate('a', 5)\nprint(os.stat('b').st_nlink, os.path.getsize('b'))", "", "2 5\n"),
    ("import mmap\nopen('a', 'wb').write(b'hello')\nwith open('a', 'r+b') as f, mmap.mmap(f.fileno(), 0) as m:\n    m[0:1] = b'J'\n    m.flush()\nprint(open('a').read())", "", "Jello\n"),
    ("import inspect, linecache\nclass A:\n    x = 6\nprint(inspect.getsource(A).split()[-1], linecache.getline(__file__, 3).strip())", "", "6 x = 6\n"),
    ("import fcntl\nwith open('l', 'w') as f: fcntl.flock(f, fcntl.LOCK_EX)\nprint(6)", "", "6\n"),
    ("print('6  ')", "", "6\n"),
    ("import inspect\ndef f(): return 6\nprint(inspect.getsource(f)[-2:].strip())", "", "6\n"),
    ("from multiprocessing import Lock, Queue, Value\nq, v = Queue(), Value('i', 5)\nwith Lock(): q.put(1)\nwith v.get_lock(): v.value += q.get()\nprint(v.value)", "", "6\n"),
    ("from multiprocessing import Condition, Lock, RLock, Semaphore\na, b, c = Lock(), RLock(), Semaphore(3)\nassert a.acquire(block=False) and not a.acquire(False, 1) and not a.acquire(timeout=0.01)\nassert b.acquire(True, None) and b.acquire() and c.acquire() and c.get_value() == 2\nwith Condition(b) as held, c: print(6 if held else 0)", "", "6\n"),
    ("import sys\nprint(sys.stdin.buffer.readline().decode().strip())", "6\n", "6\n"),
]  # fmt: skip
