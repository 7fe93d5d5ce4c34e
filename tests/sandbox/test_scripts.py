"""Programs that read stdin and write stdout, and the checkers of what they write."""

from typing import Any

import pytest

from sandbox import Program, SandboxPool, Verdict


def judge(pool: SandboxPool, source: str, *pairs: tuple[str, str], **options: Any) -> Verdict:
    """A script's verdict. pairs: inputs and expected outputs."""
    (verdict,) = pool.run([Program(source=source, stdin_tests=pairs, **options)])
    return verdict


def outcomes(verdict: Verdict) -> list[str]:
    return [outcome.verdict for outcome in verdict.tests]


def test_scripts_are_judged_by_their_output(pool: SandboxPool) -> None:
    pairs = [("1 2\n", "3\n"), ("5 6\n", "11"), ("1 1\n", "3\n")]
    source = "a, b = map(int, input().split())\nprint(a + b)"
    verdict = judge(pool, source, *pairs)
    assert outcomes(verdict) == ["accepted", "accepted", "wrong_answer"]
    assert verdict.stdout == "3\n11\n2\n"


def test_an_input_may_be_larger_than_a_file_that_a_program_writes(pool: SandboxPool) -> None:
    count = 3_000_000
    source = "print(sum(map(int, open(0).read().split())))\ntry: open('x', 'wb').write(bytes(17 << 20))\n"
    source += "except OSError: print('too large')"
    numbers = "123456\n" * count
    verdict = judge(pool, source, (numbers, f"{123456 * count}\ntoo large"), cpu_seconds=20)
    assert verdict.error_type == "accepted", (verdict.tests, verdict.stderr)


@pytest.mark.parametrize(
    ("written", "expected", "same"),
    [
        ("0.5", "0.50", True), ("1.0", "1", True), ("1e-3", "0.001", True), ("3.1415926", "3.1415927", True),
        ("1e300 2", "1.0e300 2.0", True), ("3.14", "3.15", False), ("50000000000000000", "50000000000000001", False),
        ("12", "13", False), ("yes 1.0", "no 1.0", False), ("1.0", "1.0 1.0", False), ("nan", "1.0", False),
        ("1_0.0", "10.0", False), ("5.0", "1.0e400", False), ("1e999", "9" * 310, False), ("1e3", "1000", True),
        ("1000000006.5", "1000000006", False),
    ],
)  # fmt: skip
def test_numbers_of_contests_may_be_written_in_another_way(
    pool: SandboxPool, written: str, expected: str, same: bool
) -> None:
    verdict = judge(pool, f"print({written!r})", ("", expected), stdin_compare="numbers")
    assert outcomes(verdict) == ["accepted" if same else "wrong_answer"]


CHECKER = """
def check(input, expected, output):
    first, second = map(int, output.split())
    return first + second == int(input)
"""


@pytest.mark.parametrize(
    ("source", "verdict", "detail"),
    [
        ("n = int(input())\nprint(1, n - 1)", "accepted", ""),
        ("n = int(input())\nprint(n - 1, 1)", "accepted", ""),
        ("print(2, 2)", "wrong_answer", "the checker rejected the output"),
        ("print(1)", "wrong_answer", "the checker raised ValueError: not enough values to unpack"),
        ("def check(*given): return True\nprint(2, 2)", "wrong_answer", "the checker rejected the output"),
        ("print(1, 4)\nraise SystemExit(1)", "runtime_error", ""),
    ],
)
def test_a_checker_accepts_answers_of_several_forms(pool: SandboxPool, source: str, verdict: str, detail: str) -> None:
    judged = judge(pool, source, ("5\n", "1 4\n"), checker=CHECKER)
    assert (judged.error_type, judged.trusted_compare) == (verdict, True)
    assert judged.tests[0].detail.startswith(detail)


@pytest.mark.parametrize("leave", ["raise SystemExit(1)", "import sys; sys.exit('wrong')", "raise KeyboardInterrupt"])
def test_a_checker_may_refuse_an_output_by_leaving(pool: SandboxPool, leave: str) -> None:
    leaves = f"def check(input, expected, output):\n    if output != expected: {leave}\n    return True"
    verdict = judge(pool, "print(1)", ("", "2\n"), ("", "1\n"), checker=leaves)
    assert outcomes(verdict) == ["wrong_answer", "accepted"]


@pytest.mark.parametrize("checker", ["import nowhere", "def judge(input, expected, output): return True"])
def test_a_checker_that_does_not_load_is_no_score(pool: SandboxPool, checker: str) -> None:
    verdict = judge(pool, "print(1)", ("", "1\n"), checker=checker)
    assert (verdict.error_type, verdict.pass_ratio) == ("internal_error", None)
    assert verdict.tests[0].detail.startswith("the checker does not load")


def test_a_checker_leaves_nothing_behind(pool: SandboxPool) -> None:
    """A worker judges many programs, and what a checker runs may come from one of them."""
    setting = "import decimal\ndecimal.getcontext().prec = 3\ndef check(i, e, o): return True"
    evaluating = "import sys\ndef check(i, e, o): return eval(o) == 1"
    forgery = "setattr(sys.modules['worker.checker'].Checker, '_judge', lambda *a: ('accepted', 0.0, '')) or 1"
    precise = "from decimal import Decimal\ndef f(x): return Decimal('1.23456789')"
    verdicts = pool.run(
        [
            Program(source="print(1)", stdin_tests=[("", "1")], checker=setting),
            Program(source=precise, tests=["assert f(1) * 1 == f(1)"]),
            Program(source=f"print({forgery!r})", stdin_tests=[("", "1"), ("", "2")], checker=evaluating),
            Program(source="def f(x): return 0", tests=["assert f(1) == 2"]),
        ]
    )
    assert [verdict.error_type for verdict in verdicts] == ["accepted", "accepted", "accepted", "wrong_answer"]


def test_a_checker_that_does_not_end_is_a_timeout_and_spoils_no_other_test(pool: SandboxPool) -> None:
    hangs = "def check(input, expected, output):\n    while input == '1':\n        pass\n    return True"
    verdict = judge(pool, "print(1)", ("1", ""), ("2", ""), checker=hangs, cpu_seconds=0.5)
    assert outcomes(verdict) == ["timeout", "accepted"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import sys\nsys.exit(0)", "wrong_answer"),
        ("import sys\nprint(6)\nsys.exit(3)", "runtime_error"),
        ("print(6)\nquit(1)", "runtime_error"),
        ("while True: print('x' * 1000)", "output_limit"),
    ],
)
def test_scripts_end_in_their_own_ways(pool: SandboxPool, source: str, expected: str) -> None:
    """Those that are accepted are in idioms.py."""
    verdict = judge(pool, source, ("6\n", "6\n"), cpu_seconds=1)
    assert verdict.error_type == expected, verdict
