"""What programs and tests may look like, and which verdicts they get."""

from typing import Any

import pytest

from sandbox import ERROR_TYPES, Program, SandboxPool, Verdict


def judge(pool: SandboxPool, source: str, *tests: str, **options: Any) -> Verdict:
    (verdict,) = pool.run([Program(source=source, tests=tests, **{"cpu_seconds": 0.5, **options})])
    return verdict


def test_fields_of_an_accepted_verdict(pool: SandboxPool) -> None:
    source = "import sys\nprint('out')\nprint('err', file=sys.stderr)\ndef f(x): return x + 1"
    verdict = judge(pool, source, "assert f(1) == 2", "assert f(2) == 3")
    assert (verdict.pass_ratio, verdict.error_type, verdict.trusted_compare) == (1.0, "accepted", True)
    assert [outcome.verdict for outcome in verdict.tests] == ["accepted", "accepted"]
    assert (verdict.stdout, verdict.stderr) == ("out\n", "err\n")
    assert verdict.exec_time > 0
    assert verdict.wall_time > 0
    assert 5 << 20 < verdict.peak_rss < 100 << 20
    assert verdict.isolation.startswith("standard:")
    assert "seccomp" in verdict.isolation


@pytest.mark.parametrize(
    ("source", "test", "expected"),
    [
        ("def f(): return 1", "assert f() == 2", "wrong_answer"),
        ("def f(): return 1 / 0", "assert f() == 2", "runtime_error"),
        ("def f(): assert False", "assert f() == 2", "runtime_error"),
        ("def f(): raise AssertionError", "assert f() == 2", "runtime_error"),
        ("def f(: pass", "assert f() == 2", "syntax_error"),
        ("def f(): return eval('(')", "assert f() == 2", "runtime_error"),
        ("while True: pass", "assert f() == 2", "timeout"),
        ("def f(): return [0] * 10**9", "assert f() == 2", "memory"),
        ("def f(): return 'x' * (20 << 20)", "assert f() == 2", "wrong_answer"),
        ("def f(): return 'x' * (80 << 20)", "assert f() == 2", "runtime_error"),
        ("def f(): return [[]] * (1 << 18)", "assert f() == 2", "memory"),
        ("import os\ndef f(): os.abort()", "assert f() == 2", "runtime_error"),
        ("def g(): return 1", "assert f() == 2", "runtime_error"),
    ],
)  # fmt: skip
def test_error_types(pool: SandboxPool, source: str, test: str, expected: str) -> None:
    seconds = 0.5 if expected == "timeout" else 10.0  # on a busy machine a large answer takes its time
    memory_mb = 64 if expected == "memory" else 512
    assert judge(pool, source, test, cpu_seconds=seconds, memory_mb=memory_mb).error_type == expected


def test_the_worst_class_among_the_failing_tests_is_the_programs(pool: SandboxPool) -> None:
    source = "def f(x):\n if x == 0: return 1\n if x == 1: return 1 / 0\n while True: pass"
    order = ["assert f(0) == 0", "assert f(1) == 0", "assert f(2) == 0"]
    seen = [judge(pool, source, *order[:n]).error_type for n in (1, 2, 3)]
    assert seen == ["wrong_answer", "runtime_error", "timeout"]
    assert ERROR_TYPES[0] == "internal_error"


def test_a_truncated_response_still_runs(pool: SandboxPool) -> None:
    failing = judge(pool, "def f(): return (", "assert f() == 1", truncated=True)
    assert (failing.error_type, failing.pass_ratio, failing.tests[0].verdict) == ("truncated", 0.0, "syntax_error")
    passing = judge(pool, "def f(): return 1", "assert f() == 1", truncated=True)
    assert (passing.error_type, passing.pass_ratio) == ("accepted", 1.0)


def test_a_test_that_does_not_compile_is_no_score(pool: SandboxPool) -> None:
    verdict = judge(pool, "def f(): return 1", "assert f() == 1", "assert f( == 1")
    assert (verdict.error_type, verdict.pass_ratio) == ("internal_error", None)
    assert "does not compile" in verdict.tests[1].detail


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ({"tests": []}, "needs tests"),
        ({"tests": ["assert 1"], "cpu_seconds": 0}, "must be positive"),
        ({"tests": ["assert 1"], "memory_mb": -1}, "must be positive"),
    ],
)
def test_a_program_that_cannot_be_judged_is_refused(program: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Program(source="", **program)


def test_output_is_capped(pool: SandboxPool) -> None:
    verdict = judge(pool, "print('é' * 100_000)\ndef f(): return 1", "assert f() == 1")
    assert verdict.error_type == "accepted"
    assert 32_000 < len(verdict.stdout) <= 65536


def test_calls_may_print_more_than_a_file_holds(pool: SandboxPool) -> None:
    source = "import sys\ndef f(x):\n    for _ in range(30): print('x' * 10**5, file=sys.stderr if x % 2 else None)\n"
    source += "    return x"
    verdict = judge(pool, source, *(f"assert f({n}) == {n}" for n in range(16)), cpu_seconds=10)
    assert verdict.error_type == "accepted", verdict.tests
    assert len(verdict.stdout) == len(verdict.stderr) == 65536


def test_a_tuple_of_many_lists_takes_no_longer_than_a_list_of_them(pool: SandboxPool) -> None:
    """Each list of an answer was compared with each of the one before: many seconds of the program's time."""
    source = "def f(x): return tuple([n] for n in range(9000))"
    verdict = judge(pool, source, "for n in range(4):\n    assert len(f(n)) == 9000", cpu_seconds=3)
    assert verdict.error_type == "accepted", verdict.tests


def test_a_file_that_a_program_has_put_in_the_place_of_stdout_is_left_alone(pool: SandboxPool) -> None:
    source = "import os\ndef f(n):\n    log = open('log', 'w')\n    os.dup2(log.fileno(), 1)\n    print('x' * n)\n"
    source += "    return n\ndef size(): return os.stat('log').st_size"
    verdict = judge(pool, source, "assert f(100_000) == 100_000\nassert size() == 100_001")
    assert verdict.error_type == "accepted", verdict.tests


def test_objects_of_the_setups_classes_are_for_the_program_to_use(pool: SandboxPool) -> None:
    node = "class Node:\n    def __init__(self, value, next=None):\n        self.value, self.next = value, next\n"
    source = (
        node + "def total(n): return 0 if n is None else n.value + total(n.next)\ndef push(n, v): return Node(v, n)"
    )
    verdict = judge(pool, source, "assert total(push(head, 5)) == 8", "assert head.next.value == 1",
                    setup=node + "head = Node(2, Node(1))")  # fmt: skip
    assert (verdict.error_type, verdict.trusted_compare) == ("accepted", False)


V = (
    "class V:\n def __init__(self, x): self.x = x\n def __eq__(self, o): return self.x == getattr(o, 'x', o)\n"
    " def __add__(self, o): return V(self.x + o.x)\n def __str__(self): return f'V{self.x}'\n"
    " def __len__(self): return 3\n"
)


@pytest.mark.parametrize(
    ("source", "test", "is_trusted"),
    [
        ("def sum(a, b): return a + b", "assert sum(10, 5) == 15", True),
        ("def f(x): return x", "assert f(-(2**63)) == -(2**63)", True),
        (V, "assert V(1) + V(2) == V(3) and str(V(3)) == 'V3' and len(V(1)) == 3", True),
        (V, "v = V(1)\nv.x = 5\nassert v.x == 5 and [V(2), v].index(V(5)) == 1", True),
        (V, "assert V(3) == 3", False),
        (V, "class W(V): pass\nassert W(1).x == 1", False),
        (V, "assert isinstance(V(1), V)", False),
        ("async def f(x): return x + 1", "import asyncio\nassert asyncio.run(f(1)) == 2", False),
        ("def f(x): return x", "class Own: pass\no = Own()\nassert f(o) is o", False),
        ("class Bad(ValueError): pass\ndef f(): raise Bad('x')",
         "try:\n f()\nexcept Bad as e:\n assert str(e) == 'x'\nelse:\n assert False", False),
        ("def f(g, x): return g(x) + g(x)", "assert f(lambda v: v * 3, 2) == 12", False),
        ("def f(g, x): return g(x)", "assert f(str.upper, 'a') == 'A'", False),
        ("def f(x): x.append(1); return x", "v = []\nassert f(v) is v and v == [1]", False),
        ("class linked_list:\n def __init__(self): self.d = []\n def append(self, x): self.d.append(x)\n"
         " def pop(self): return self.d.pop()", "ll = linked_list()\nll.append(1)\nassert ll.pop() == 1", True),
        ("words = ['a']\ndef push(w): words.append(w)", "words.append('b')\npush('c')\nassert words == ['a', 'b', 'c']",
         True),
        ("def f(x):\n for _ in range(x): x = [x]\n return x",
         "x = f(700)\nn = 0\nwhile x != 700: x = x[0]; n += 1\nassert n == 700", True),
    ],
)  # fmt: skip
def test_honest_programs_are_accepted_and_trusted_unless_the_test_needs_their_process(
    pool: SandboxPool, source: str, test: str, is_trusted: bool
) -> None:
    verdict = judge(pool, source, test, cpu_seconds=5)
    assert (verdict.error_type, verdict.trusted_compare) == ("accepted", is_trusted), verdict.tests


OUTCOME = "import sys, unittest\ndef f(x):\n frame = sys._getframe()\n while frame:\n"
OUTCOME += "  outcome = frame.f_locals.get('outcome')\n"
OUTCOME += "  if outcome: outcome.success = outcome.expecting_failure = True\n"
OUTCOME += "  frame = frame.f_back\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import unittest\ndef f(x): raise unittest.SkipTest('no')", "wrong_answer"),
        ("import unittest\ndef f(x): raise unittest.case._ShouldStop", "wrong_answer"),
        (OUTCOME + " raise ValueError", "wrong_answer"),
        (OUTCOME + " raise unittest.case._ShouldStop", "wrong_answer"),
        ("import unittest\nunittest.TestCase.assertEqual = lambda *args: None\ndef f(x): return 0", "wrong_answer"),
        ("import sys\ndef f(x): raise sys.modules['worker.in_process'].TestsPassed", "wrong_answer"),
        ("def f(x): return 0", "wrong_answer"),
        ("def f(x): return 2", "accepted"),
    ],
)
def test_unittest_runs_apart_and_every_test_must_come_to_its_end(pool: SandboxPool, source: str, expected: str) -> None:
    suite = "import unittest\nclass T(unittest.TestCase):\n def test_f(self): self.assertEqual(f(1), 2)\n"
    ends = "unittest.main()", "unittest.main(argv=['x'], exit=False)"
    verdict = judge(pool, source, *(suite + end for end in ends), cpu_seconds=5)
    assert [outcome.verdict for outcome in verdict.tests] == [expected] * 2, verdict.tests
    assert verdict.trusted_compare


@pytest.mark.parametrize(
    ("setup", "is_trusted"),
    [
        ("from collections import Counter\nCounter.most_common = lambda self: []", False),
        ("from collections import *\nCounter.most_common = None", True),
        ("from numbers import Number\nNumber.register(str)", True),
        ("import decimal\ndecimal.DefaultContext.traps.clear()", True),
    ],
)
def test_a_setup_leaves_nothing_behind(pool: SandboxPool, setup: str, is_trusted: bool) -> None:
    source = "def f(x): return x"
    assert judge(pool, source, "assert f(1) == 1", setup=setup).trusted_compare == is_trusted
    tests = ["from collections import Counter\nassert Counter(f('aa')).most_common() == [('a', 2)]",
             "from numbers import Number\nassert not isinstance(f('a'), Number)",
             "import decimal\nassert decimal.DefaultContext.traps[decimal.InvalidOperation] == f(True)"]  # fmt: skip
    verdict = judge(pool, source, *tests)
    assert (verdict.error_type, verdict.trusted_compare) == ("accepted", True), verdict.tests


def test_a_candidate_per_test_shares_no_state(pool: SandboxPool) -> None:
    source = "calls = []\ndef f(x):\n calls.append(x)\n return len(calls)"
    tests = ["assert f(0) == 1"] * 3
    assert judge(pool, source, *tests).pass_ratio == pytest.approx(1 / 3)
    assert judge(pool, source, *tests, fresh_per_test=True).pass_ratio == 1.0


def test_shuffled_tests_keep_their_places_in_the_verdict(pool: SandboxPool) -> None:
    source = "answers = iter(range(8))\ndef f(x): return next(answers)"
    tests = [f"assert f({n}) == {n}" for n in range(8)]
    assert judge(pool, source, *tests).pass_ratio == 1.0
    assert judge(pool, source, *tests, test_order_seed=1).pass_ratio < 1.0
    honest = [outcome.verdict for outcome in judge(pool, "def f(x): return x % 7", *tests, test_order_seed=1).tests]
    assert honest == ["accepted"] * 7 + ["wrong_answer"]


def test_the_same_program_gets_the_same_answer_from_sets_and_random(pool: SandboxPool) -> None:
    source = "import random\nprint(list({'a', 'b', 'c', 'd', 'e'}), random.random())\ndef f(): return 1"
    with SandboxPool(num_workers=1) as other:
        outputs = {judge(pool, source, "assert f() == 1").stdout, judge(other, source, "assert f() == 1").stdout}
    assert len(outputs) == 1
