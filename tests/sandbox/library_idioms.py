"""More honest programs, as in idioms.py: uses of the language and of the standard library.

(source, tests); plain Python decides the outcome of each test, and some fail on purpose.
"""

# ruff: noqa: E501 - one program per line

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

SCRIPTS: list[tuple[str, str, str]] = [  # (source, stdin, stdout): all accepted
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
]  # fmt: skip
