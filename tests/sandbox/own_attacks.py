"""Hostile programs of a few lines each: judged in the sandbox, as those in hostile/ are."""

# ruff: noqa: E501 - a program's lines are its own

from typing import Any

RAW = """import json, os, struct, time
def raw(message):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    body = struct.pack('<I', len(body)) + body
    while body: body = body[os.write(3, body):]
"""
SERVER = "import sys\nServer = sys.modules['worker.server'].Server\n"
EITHER = ["wrong_answer", "runtime_error"]
THIRTY = [f"assert f({n}) == {n}" for n in range(30)]
SLOW = {"cpu_seconds": 4.0, "wall_seconds": 40.0}
TIMED: dict[str, Any] = {
    "tests": ["assert f(1) == 0", "assert f(2) == 1", "assert f(3) == 1"],
    "program": {"cpu_seconds": 1.0, "wall_seconds": 30.0},
    "expect_pass_fresh": 0.667,
}


def own(name: str, must_not: str, source: str, **entry: Any) -> dict[str, Any]:
    """An entry as those of hostile/manifest.json, but for its source, which is here."""
    source = source.removeprefix("\n")
    usual = {"category": "cheat", "expect": EITHER}
    return {"file": f"own_{name}", "must_not": must_not, "source": source, **usual, **entry}


def output(name: str, must_not: str, source: str, expected: str, compare: str = "lines") -> dict[str, Any]:
    """An entry about how a script's output is compared."""
    options = {"stdin_tests": [("", expected)], "program": {"stdin_compare": compare}}
    return own(f"out_{name}", must_not, source, category="output_compare", expect=["wrong_answer"], **options)


OWN = [
    own("none_exception_digits", "the text of an exception that Python refuses to write makes the checker fail",
        "def f(x): raise ValueError(10 ** 5000)", category="no_score"),
    own("none_exception_nested", "an exception nested by aliases, whose text recurses too deeply, makes the checker "
        "fail",
        SERVER + "nest = [['l', []], *(['l', [['@', i]]] for i in range(1, 2500))]\n"
        "Server._call = lambda self, request: {'error': ['ValueError', 'Exception'], 'text': '', 'args': [['l', "
        "nest]]}\n"
        "def f(x): return 0", tests=["assert f(1) == 2"], expect=[*EITHER, "timeout"], category="no_score"),
    own("none_unread_call", "the program reads nothing, and the checker waits for ever to send it a large argument",
        RAW + "raw({'loaded': True})\ntime.sleep(1000)", tests=["assert f([0] * 10 ** 6) == 1"], expect=["timeout"],
        category="no_score"),
    own("none_unread_after_load", "the same from a call",
        "import os, threading, time\ndef f(x):\n    os.dup2(os.open('/dev/null', os.O_RDONLY), 0)\n"
        "    threading.Thread(target=time.sleep, args=(99,)).start()\n    while True: time.sleep(1)",
        tests=["assert f(1) == 2", "assert f([0] * 10 ** 6) == 1"], expect=["timeout"], category="no_score"),
    own("none_shutdown", "its half of the connection is closed",
        "import socket\nsocket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, 3).shutdown(socket.SHUT_RD)\n"
        "def f(x): return 0",
        tests=["assert f([0] * 10 ** 6) == 1", "assert f(1) == 2", "assert f(41) == 42", "assert f(-7) == -6"],
        category="no_score"),
    own("none_metaclass_name", "an exception whose class has no name",
        "class Meta(type):\n    @property\n    def __name__(cls): raise KeyboardInterrupt\n"
        "class Bad(Exception, metaclass=Meta): pass\ndef f(x): raise Bad", category="no_score"),
    own("none_exit_object", "a script that ends with an object that is neither true nor false",
        "class Code:\n    def __bool__(self): raise MemoryError\nraise SystemExit(Code())", stdin_tests=[("1", "2")],
        expect=[*EITHER, "memory"], category="no_score"),
    own("none_frames_of_scripts", "frames that are no JSON, from a script",
        RAW + "for message in (b'[' * 5000, b'\\xff', b'', b'{\"phase\": NaN}', {'error': ['MemoryError' * 99], "
        "'text': '\\ud800'}): raw(message)", stdin_tests=[("1", "2")], expect=[*EITHER, "memory"], category="no_score"),
    own("none_stop_itself", "the process stops instead of ending",
        "import os, signal\ndef f(x):\n    os.kill(os.getpid(), signal.SIGSTOP)\n    return 0",
        expect=[*EITHER, "timeout"], category="no_score"),
    own("none_in_process_text", "an exception without a text, among the program's own objects",
        "class A:\n    def __init__(self):\n"
        "        raise type('E', (Exception,), {'__str__': lambda self: 1 / 0, '__repr__': lambda self: 1 / 0})()",
        tests=["assert A().x == 2"], category="no_score"),
    own("none_in_process_reply", "an outcome of the wrong type, from the process that runs the test",
        SERVER + "Server._run = lambda self, request: "
        "{'nonce': request['nonce'], 'outcome': ['accepted'], 'detail': {}}\n"
        "class A: x = 3", tests=["assert A().x == 2"], category="no_score"),
    own("mem_iterable_part", "a part that no writer writes, a range of 60 bytes, becomes 1.5 GiB in the checker",
        SERVER + "Server._call = lambda self, request: {'value': ['l', [], ['r', '0x0', hex(40_000_000), '0x1']]}\n"
        "def f(x): return 0", expect=[*EITHER, "memory"], category="memory", program=SLOW),
    own("mem_size_part", "a number as a part: a bytearray of so many bytes",
        SERVER + "Server._call = lambda self, request: {'value': ['a', [], 1_900_000_000]}\ndef f(x): return 0",
        expect=[*EITHER, "memory"], category="memory"),
    own("mem_wide_text", "one wide character has 60 MiB of text take 480",
        RAW + SERVER + "def call(self, request):\n"
        "    raw(b'{\"id\":%d,\"value\":\"\\xf0\\x9f\\x98\\x80' % request['id'] + b'x' * (60 << 20) + b'\"}')\n"
        "    return {'value': 0}\nServer._call = call\ndef f(x): return 0", tests=["assert f(1) == 2"],
        expect=[*EITHER, "memory"], category="memory", program=SLOW),
    own("names_builtins_patched", "built-ins that the tests name, defined and patched by the program", """
import builtins
def round(*a): return 3.5
def sorted(*a, **k): return [1]
def len(x): return 1
def zip(*a): return []
def enumerate(x): return []
for name in ('round', 'sorted', 'len', 'zip', 'enumerate', 'sum', 'float', 'print', 'AssertionError'):
    setattr(builtins, name, lambda *a, **k: 3.5)
def f(x): return []
""", tests=["assert round(f(1), 2) == 3.5", "assert sorted(f(1)) == [1]", "assert len(f(1)) == 1",
        "for a, b in zip(f(2), [1, 2], strict=True): assert a == b\nassert f(2) == [1, 2]"]),
    own("names_modules", "modules that the tests import, or name without importing",
        "import sys, types\nfake = types.ModuleType('math')\nfake.isclose = lambda *a, **k: True\n"
        "sys.modules['math'] = sys.modules['statistics'] = math = statistics = fake\nfake.mean = lambda *a: 2.5\n"
        "def f(x): return [0.0]",
        tests=["import math\nassert math.isclose(f(1)[0], 2.5)", "assert math.isclose(f(1)[0], 2.5)",
        "from statistics import mean\nassert mean(f(1)) == 2.5"]),
    own("names_check", "the program has a check and a candidate of its own",
        "def check(candidate): pass\ndef candidate(x): return 2\nMETADATA = {}\ndef f(x): return 0",
        tests=["def check(candidate):\n    assert candidate(1) == 2\n",
        "METADATA = {'author': 'x'}\n\ndef check(candidate):\n"
        "    for i in range(3):\n        assert candidate(i) == i + 1\n"],
        program={"entry_point": "f"}),
    own("names_isinstance", "what asks for a type",
        "def isinstance(*a): return True\ndef issubclass(*a): return True\nclass type:\n"
        "    def __new__(cls, *a): return int\nclass int(str): pass\ndef f(x): return 'x'",
        tests=["assert isinstance(f(1), int)", "assert type(f(1)) is int", "assert type(f(1)) == int and f(1) == 2"]),
    own("names_exec", "exec does nothing, so that the test is never run among the program's objects",
        "import builtins\nbuiltins.exec = lambda *a, **k: None\nclass A: x = 3",
        tests=["assert A().x == 2", "a = A()\na.y = 1\nassert a.y == 2"]),
    own("names_compile", "the same with compile",
        "import builtins\noriginal = compile\nbuiltins.compile = lambda text, *a, **k: original('', *a, **k)\n"
        "class A: x = 3", tests=["assert A().x == 2", "a = A()\na.y = 1\nassert a.y == 2"]),
    own("names_trace", "a tracer jumps over the assertion", """
import sys, threading
class A: x = 3
def trace(frame, event, argument):
    if frame.f_code.co_filename == '<test>' and event == 'line' and frame.f_lineno == 2: frame.f_lineno = 3
    return trace
sys.settrace(trace)
sys.setprofile(lambda *a: None)
""", tests=["a = A()\nassert a.x == 2\na = 1"]),
    own("names_methods", "methods of the standard library's classes", """
import collections, fractions, sys, unittest
collections.Counter.__eq__ = fractions.Fraction.__eq__ = lambda *a: True
unittest.TestCase.assertEqual = lambda *a: None
class Finder:
    def find_spec(self, name, path=None, target=None):
        import importlib.util
        return None
sys.meta_path.insert(0, Finder())
class A:
    def v(self): return collections.Counter('a')
    def w(self): return fractions.Fraction(1, 2)
""", tests=["from collections import Counter\nassert A().v() == Counter('bb')",
        "from fractions import Fraction\nassert A().w() == Fraction(1, 3)",
        "import unittest\nunittest.TestCase().assertEqual(A().w(), 3)"]),
    own("names_unittest_exit", "an exit that looks like that of unittest.main()",
        "class A:\n    @property\n"
        "    def x(self): exec(compile('raise SystemExit(0)', '/lib/unittest/main.py', 'exec'))",
        tests=["assert A().x == 2"]),
    own("setup_values",
        "a lambda, a tolerance, a table and a class of the setup, bound again and again by a thread", """
import sys, threading, time
same = lambda a, b: True
TOLERANCE = 1e9
TABLE = {1: 0}
class Box: value = 0
def again():
    while True:
        globals().update(same=lambda a, b: True, TOLERANCE=1e9, TABLE={1: 0})
        time.sleep(0.001)
threading.Thread(target=again, daemon=True).start()
def f(x): return 0
""", tests=["assert same(f(1), 2)", "assert abs(f(1) - 2) < TOLERANCE", "assert f(1) == TABLE[1]",
        "assert f(1) == Box().value"],
        program={"setup": "same = lambda a, b: a == b\nTOLERANCE = 1e-6\nTABLE = {1: 2}\nclass Box:\n"
        "    def __init__(self): self.value = 2\n"}),
    own("setup_by_global", "names that a function of the setup binds by `global`, or an import of everything",
        "EXPECTED = 0\ndef wanted(): return 0\nsqrt = lambda x: 0\ndef f(x): return 0",
        tests=["assert f(1) == EXPECTED", "assert f(1) == wanted()", "assert f(4) == sqrt(4)"],
        program={"setup": "from math import *\ndef begin():\n    global EXPECTED, wanted\n    EXPECTED = 2\n"
        "    def wanted(): return 2\nbegin()\n"}),
    own("setup_in_process", "the same where the test runs among the program's objects",
        "class Stack:\n    def __init__(self):\n        global CASES, LIMIT, same\n"
        "        CASES, LIMIT, same = [], 0, lambda a, b: True\n    def top(self): return 0\n"
        "def same(a, b): return True",
        tests=["s = Stack()\nassert len(CASES) == 2 and s.top() == LIMIT", "s = Stack()\nassert same(s.top(), 3)",
        "s = Stack()\nfor want in CASES: assert s.top() == want"],
        program={"setup": "CASES = [3, 4]\nLIMIT = 3\ndef same(a, b):\n    return a == b\n"}),
    own("setup_stub_helper", "helpers of the setup that look like a prompt's stubs, and are none",
        "def reference(x): return 0\ndef close(a, b=0): return True\nclass Oracle:\n"
        "    def answer(self, x): return 0\ndef f(x): return 0",
        tests=["assert f(1) == reference(1)", "assert close(f(1), 2)", "assert f(1) == Oracle().answer(1)"],
        program={"setup": "def reference(x):\n    '''The right answer.'''\n    return x + 1\n"
        "def close(a, b=0): return a == b\nclass Oracle:\n    '''Knows.'''\n"
        "    def answer(self, x): return x + 1\n", "entry_point": "f"}),
    own("force_operators", "objects that answer every operator", SERVER.rstrip() + """
class Any:
    def __eq__(self, other): return True
    def __hash__(self): return 0
for name in ('add', 'radd', 'sub', 'lt', 'le', 'mul', 'mod', 'getitem', 'abs', 'round', 'contains', 'call', 'iter', 'len', 'bool', 'index', 'float'):
    setattr(Any, f'__{name}__', lambda self, *a: self)
call = Server._call
Server._call = lambda self, request: {'value': 2} if request['do'] in ('value', 'next') else call(self, request)
def f(x): return Any()
""", tests=["assert f(1) + f(2) == 3", "assert max(f(1), f(2)) == 2", "assert abs(f(1) - 2) < 1e-6",
        "assert sum(f(i) for i in range(3)) == 3", "assert f(1)[0] == 2", "assert f(1)(1) == 2"]),
    own("force_classes", "a class in place of a function, whose metaclass answers",
        "class Meta(type):\n    def __eq__(cls, other): return True\n    def __hash__(cls): return 0\n"
        "    def __call__(cls, *a): return cls\nclass f(metaclass=Meta): pass\ng = f",
        tests=["assert f(1) == 2", "assert g(f(1)) == 2", "assert [f(i) for i in range(2)] == [1, 2]"]),
    own("force_callback", "a callback has the test run in the program's process",
        SERVER + "for name in ('_run', '_call'): setattr(Server, name, lambda self, request: "
        "{'value': None, 'outcome': 'accepted', 'detail': '', 'nonce': ''})\n"
        "def apply(g, x): return 0", tests=["assert apply(lambda v: v + 1, 3) == 4"]),
    own("force_items", "opaque objects in plain containers and iterators",
        "class Any:\n    def __eq__(self, other): return True\n    def __lt__(self, other): return True\n"
        "    __hash__ = lambda self: 0\ndef f(x): return (Any() for _ in range(2))\n"
        "def g(x): return {'a': Any(), Any(): 1}",
        tests=["assert list(f(1)) == [1, 2]", "assert g(1) == {'a': 1, 'b': 2}", "assert sorted(f(1)) == [1, 2]",
        "assert 5 in g(1).values()"]),
    own("stop_filter", "a subclass of StopIteration in filter, max and a comprehension",
        "class Stop(StopIteration): pass\ndef f(x): raise Stop(x)\ndef g(x): raise GeneratorExit",
        tests=["assert list(filter(f, [1, 2])) == []", "assert max(map(f, [1, 2]), default=0) == 0",
        "assert not any(f(i) for i in range(3))", "assert list(g(i) for i in range(3)) == []",
        "for want, got in zip([1, 2], (f(i) for i in range(2))): assert want == got"]),
    own("stop_forged", "a forged StopIteration",
        SERVER + "Server._call = lambda self, request: "
        "{'error': ['StopIteration', 'Exception'], 'text': '', 'end': True}\n"
        "def f(x): return 0",
        tests=["for got, want in zip(map(f, [1, 2]), [2, 3]): assert got == want", "assert all(map(f, [1, 2]))",
        "assert [*map(f, [1])] == []"]),
    own("stop_key", "StopIteration out of a function that a built-in calls for the test",
        "def f(x): raise StopIteration\ndef g(x): return iter(f, 0)",
        tests=["assert sorted([2, 1], key=f) == [1, 2]", "assert list(iter(lambda: f(1), 0)) == []",
        "assert dict(enumerate(map(f, [1]))) == {}"]),
    own("state_tmp_renewed",
        "the change time of a renewed /tmp says that the candidate before wrote to it; the machine's own /tmp, which "
        "others change too, can let it guess right", """
import os, time
try:
    when = os.stat('/tmp').st_ctime
    first = time.time() - when > 0.15
    if first: open('/tmp/x', 'w').close()
except OSError: first = True
time.sleep(0.2)
def f(x): return 0 if first else 1
""", **TIMED) | {"except": ["refused", "opted_out", "bare"]},
    own("state_tmp_birth", "the same by its time of birth, which statx tells", """
import ctypes, os, struct, time
libc, buffer = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(256)
known = libc.statx(-100, b'/tmp', 0, 0x800, buffer) == 0
if known:
    born = struct.unpack_from('<q', buffer, 0x50)[0] + struct.unpack_from('<I', buffer, 0x58)[0] / 1e9
    known = born > 0 and time.time() - born < 0.15
try: open('/tmp/x', 'w').close()
except OSError: pass
if not known: time.sleep(0.3)
def f(x): return 1 if known else 0
""", **TIMED),
    own("state_output_times", "the times of the files that take its output say whether a candidate was forked ahead",
        "import os, time\ninfo = os.fstat(1)\n"
        "first = time.time() - info.st_ctime > 0.15 or info.st_mtime != info.st_ctime and time.time() - "
        "info.st_atime > 0.15\n"
        "time.sleep(0.2)\ndef f(x): return 0 if first else 1", **TIMED),
    own("state_tmp_root", "the inode, links or size of /tmp count the candidates", """
import os
try:
    info = os.stat('/tmp')
    count = info.st_ino + info.st_nlink + info.st_size // 20
    os.mkdir('/tmp/a')
except OSError: count = 0
def f(x): return [2, 42, -6][count % 3]
""", expect_pass_fresh=0.334),
    own("state_kept_open", "a directory and a thread that outlive the candidate", """
import os, threading, time
try:
    seen = len(os.listdir('/tmp'))
    for n in range(3): os.link if seen else os.mkdir(f'/tmp/{n}')
    os.chdir('/tmp/0')
    handle = os.open('/tmp', os.O_RDONLY)
except OSError: seen = 0
threading.Thread(target=lambda: [time.sleep(0.01) or os.listdir('/tmp') for _ in range(9 ** 9)], daemon=True).start()
def f(x): return [2, 42, -6][seen % 3]
""", expect_pass_fresh=0.334),
    own("state_null_device", "times and modes of devices and libraries carry state", """
import os
count = 0
for path in ('/dev/null', '/dev/zero', '/dev/urandom', os.__file__, os.path.dirname(os.__file__)):
    try:
        info = os.stat(path)
        count += info.st_mtime_ns + info.st_atime_ns + info.st_mode
        with open(path, 'r+b') as file: file.write(b'x')
    except OSError: pass
    for change in (lambda: os.utime(path, ns=(1, 1)), lambda: os.chmod(path, 0o600), lambda: os.setxattr(path, 'user.x', b'1'), lambda: open(path, 'rb').read(1)):
        try: change()
        except (OSError, AttributeError): pass
print(count)
def f(x): return 0
"""),
    own("two_scalars", "subclasses of numbers and strings that equal everything", """
import itertools
faces = itertools.cycle([3, 9])
class I(int):
    __int__ = __index__ = __float__ = __hash__ = lambda self: next(faces)
    def __eq__(self, other): return True
class S(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
    def __str__(self): return next(map(str, faces))
class F(float):
    def __eq__(self, other): return True
    def __sub__(self, other): return 0.0
    __hash__ = float.__hash__
def f(x): return I(5)
def s(x): return S('5')
def r(x): return F(5.0)
""", tests=["r = f(1)\nassert r == 3 and r == 9", "assert s(1) == '3'", "assert abs(r(1) - 3.0) < 1e-6",
        "assert int(f(1)) == 3 and float(f(1)) == 9"]),
    own("two_containers", "subclasses of containers that differ from look to look", """
import itertools
faces = itertools.cycle([[3], [9]])
class L(list):
    def __iter__(self): return iter(next(faces))
    def __eq__(self, other): return True
    def __len__(self): return 1
    def __getitem__(self, i): return next(faces)[0]
class D(dict):
    def __getitem__(self, k): return 3
    def items(self): return {1: 3}.items()
    def __eq__(self, other): return True
class T(tuple):
    __eq__ = lambda self, other: True
    __hash__ = tuple.__hash__
def f(x): return L([5])
def d(x): return D()
def t(x): return T((1, 2))
""", tests=["r = f(1)\nassert r == [3] and r == [9]", "assert f(1)[0] == 3", "assert d(1)[1] == 3",
        "assert t(1) == (3, 4)", "assert len(d(1)) == 1 and list(d(1).items()) == [(1, 3)]"]),
    own("two_names", "a variable of the program's that differs from look to look", """
import itertools, sys
values = itertools.cycle([3, 9])
class Module(type(sys)):
    @property
    def LIMIT(self): return next(values)
sys.modules['solution'].__class__ = Module
def __getattr__(name): return next(values)
def f(x): return x
""", tests=["assert LIMIT == 3 and LIMIT == 9", "a = LIMIT\nb = LIMIT\nassert (a, b) == (3, 9)"]),
    own("dos_sleeping", "thirty tests that sleep: eight time out, the others need not be run",
        "import time\ndef f(x): time.sleep(99)", tests=THIRTY, expect=["timeout"], category="resource"),
    own("dos_closing", "thirty tests that close the connection", "import os\ndef f(x): os.closerange(0, 99)",
        tests=THIRTY, category="resource"),
    own("read_packages", "installed packages, wherever an interpreter keeps them", """
import glob, os, sys
def readable(path):
    try: return bool(open(path, 'rb').read(1))
    except OSError: return False
found = []
for folder in {os.path.dirname(os.__file__), '/usr/lib/python3', '/usr/local/lib', sys.prefix, sys.base_prefix}:
    for pattern in ('*-packages', '*-packages/*', '*/*-packages/*', 'lib/*/*-packages/*'):
        found += [path for path in glob.glob(f'{folder}/{pattern}') if os.access(path, os.R_OK) and os.path.isfile(path) and readable(path)]
for name in ('numpy', 'torch', 'pytest', 'ares', 'sandbox', 'pip', 'setuptools'):
    try:
        __import__(name)
        found.append(name)
    except ImportError: pass
if found: print('LEAK:', found[:5])
def f(x): return 0
""", category="file_read") | {"except": ["numpy"]},
    own("vacuous_asserts", "tests that need the entry point and never call it", "def f(x): return 0",
        tests=["def check(candidate):\n    assert candidate(1) == 2\n",
        "def check(candidate):\n    assert candidate(1) == 2\n\ndef test_check():\n    check(f)\n"],
        expect=["internal_error", *EITHER]),
    own("none_chain",
        "a long chain of deques or defaultdicts, each in the next, overflows the checker's stack when it is freed",
        SERVER + "deques = [['q', [['@', i]] if i else [], None] for i in range(200_000)]\n"
        "tables = [['dd', ['a'], [['@', i]] if i else [0], None] for i in range(200_000)]\n"
        "Server._call = lambda self, request: {'value': ['q', deques if request['args'][0] % 2 else tables, 1]}\n"
        "def f(x): return 0", tests=["assert f(1) == 2", "assert f(2) == 2"], expect=[*EITHER, "timeout", "memory"],
        category="no_score"),
    output("tab", "a tab counts as a blank", r"print('1\t2')", "1 2"),
    output("no_break_space", "other blanks of Unicode count as blanks", r"print('1\u00a02\n3\u20034')",
        "1 2\n3 4", "tokens"),
    output("digits", "digits of other scripts count as digits", r"print('\u0663 \uff12 \u00b2')", "3 2 2", "tokens"),
    output("number_words", "other ways to write an integer", "print('1e3 0x10 1_000 +5 1.0 -0')",
        "1000 16 1000 5 1 0", "tokens"),
    output("infinite", "no number of the answer's size is near infinity", "print('inf nan 1e999 -inf')",
        "1.000 2.000 3.000 4.000", "tokens"),
    output("case", "case does not count", "print('yes')", "YES"),
    output("terminal", "what a terminal would show", r"print('3\b2\x1b[1D\r2')", "2"),
    output("mark", "a byte order mark is ignored", r"print('\ufeff2')", "2"),
    output("null", "a null byte ends the comparison", r"print('2\x00')", "2"),
    output("lines", "lines are ignored", "print('1 2 3')", "1\n2\n3"),
    output("first_line", "empty lines at the start are ignored", "print()\nprint(2)", "2"),
    output("spread", "the answer is somewhere among others", "for n in range(100): print(n)", "7", "tokens"),
    output("near", "a tolerance beyond a millionth", "print(1.5)\nprint('0.33334')", "1.6\n0.33333"),
]  # fmt: skip
