"""The tests of rows: how results are compared, what functions are called, checkers and limits of time."""

import json
from typing import Any

import pandas as pd
import pytest

from ares.data.code import program, with_unit_tests
from sandbox import SandboxPool
from tests.ares.data.code_rows import (
    ACECODE,
    ANY_ORDER,
    APPS_FUNCTION,
    DEEPCODER,
    INC,
    LIVE_FUNCTION,
    Row,
    judged,
    read,
)


def bare(result: Any) -> Row:
    return APPS_FUNCTION | {"input_output": json.dumps({"fn_name": "f", "inputs": [[1]], "outputs": [result]})}


def wrapped(result: Any) -> Row:
    return bare([result])


def called(result: Any) -> Row:
    """As PrimeIntellect's cases have it."""
    return DEEPCODER | {
        "tests": json.dumps([{"type": "function_call", "fn_name": "f", "input": [1], "output": [result]}])
    }


@pytest.mark.parametrize(
    ("expected", "returned", "accepted"),
    [
        ([1, 2], "(1, 2)", True), ([[1, 2], [3]], "[(1, 2), (3,)]", True), ([[1, 2], [3]], "((1, 2), [3])", True),
        ([1, 2], "[1, 2, 3]", False), ([1, 2], "{1, 2}", False), (0.3, "0.1 + 0.2", True), (0.3, "0.30001", False),
        ([0.3, 1], "(0.1 + 0.2, 1)", True), ({"1": [0.3]}, "{1: (0.1 + 0.2,)}", True),
        ({"a": 1}, "{'a': 1, 'b': 2}", False), (3, "3.0", True), (10**17, "10**17 + 1", False),
        ([10**17], "[10**17 + 1]", False), (True, "True", True), (None, "None", True), ("a", "'a'", True),
        ("a", "['b']", False), ([1.5], "'1.5'", False), (float("inf"), "float('inf')", True),
        (float("inf"), "1e308", False), ([], "None", False),
    ],
)  # fmt: skip
def test_results_are_compared_as_the_judges_of_contests_do(
    expected: Any, returned: str, accepted: bool, pool: SandboxPool
) -> None:
    for form in (bare, wrapped, called):
        (verdict,) = judged(pool, form(expected), f"def f(x): return {returned}")
        assert (verdict.error_type, verdict.trusted_compare) == (
            "accepted" if accepted else "wrong_answer", True), (form, verdict)  # fmt: skip


def test_a_case_of_livecodebench_is_never_wrapped(pool: SandboxPool) -> None:
    (verdict,) = judged(pool, LIVE_FUNCTION, "def firstOf(words, n): return words[0] if words else []")
    assert (verdict.error_type, verdict.pass_ratio) == ("wrong_answer", 0.5)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        *((name, f"def {name}(x): return x + 1") for name in ("Capital", "sum", "gcd")),
        ("f", "def f(x): return x + 1\nclass Solution:\n    def f(self, x): return f(x)"),
        ("f", "class Solution:\n    @staticmethod\n    def f(x): return x + 1"),
        ("f", "class Solution:\n    pass\ndef f(x): return x + 1"),
        ("f", "f = lambda x: x + 1"),
        ("f", "class Solution:\n    f = lambda self, x: x + 1 \\\n"),
    ],
)
def test_functions_have_any_name_and_are_plain_or_methods(name: str, source: str, pool: SandboxPool) -> None:
    row = APPS_FUNCTION | {"input_output": json.dumps({"fn_name": name, "inputs": [[1]], "outputs": [2]})}
    right, absent = judged(pool, row, source, "x = 1")
    assert (right.error_type, right.trusted_compare) == ("accepted", True), right
    assert absent.tests[0].detail == f"NameError: name '{name}' is not defined"


def test_a_program_cannot_redefine_equality(pool: SandboxPool) -> None:
    source = "def same(a, b): return True\nsame_or_wrapped = same\ndef pair(a, b): return 7"
    assert judged(pool, APPS_FUNCTION, source)[0].pass_ratio == 0.0


@pytest.mark.parametrize("run", ["test_inc()", "if __name__ == '__main__':\n    test_inc()", "done = test_inc()"])
def test_a_test_that_runs_the_functions_it_defines_is_one(run: str, pool: SandboxPool) -> None:
    row = ACECODE | {"test_cases": [f"def test_inc():\n    assert inc(1) == 2\n{run}"]}
    verdicts = judged(pool, row, INC, "def inc(x): return x")
    assert [each.error_type for each in verdicts] == ["accepted", "wrong_answer"]


def test_numbers_of_any_length_are_read(pool: SandboxPool) -> None:
    """APPS and TACO have some with more than 4300 digits, because of which the whole set was refused."""
    digits, more = "9" * 9000, "1" + "0" * 9000
    called = {"question": "Add one.", "input_output": f'{{"fn_name": "f", "inputs": [[-{digits}], [{digits}]], '
              f'"outputs": [-{digits[:-1]}8, {more}]}}'}  # fmt: skip
    right, wrong = judged(pool, called, "def f(n): return n + 1", "def f(n): return n")
    assert (right.error_type, wrong.error_type) == ("accepted", "wrong_answer")
    script = {"question": "Say it.", "input_output": f'{{"inputs": ["1"], "outputs": [{more}]}}'}
    assert read(script).stdin_tests == [["1", more]]
    prints, reads = judged(pool, script, "print(10**9000)", f"print(int('{more}'))")
    assert [each.error_type for each in (prints, reads)] == ["accepted", "accepted"]
    negative = script | {"input_output": f'{{"inputs": ["1"], "outputs": [-{digits}]}}'}
    assert read(negative).stdin_tests == [["1", f"-{digits}"]]


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ({"seconds": 2, "nanos": 500000000}, 2.5), ({"seconds": 1, "nanos": None}, 1.0), ("2.0 seconds", 2.0), (3, 3.0),
        (0.5, 0.5), ("4", 4.0), ('{"seconds": 1}', 1.0), (None, None), ({"seconds": 0, "nanos": 0}, None),
        ({"seconds": "2"}, 2.0), ("standard", None), (0, None), (True, None), ("2 s (Java 4)", 2.0),
        ("500 ms", 0.5), ("1500ms", 1.5), ("2 Milliseconds", 0.002), (5e-05, 5e-05), (-1, None),
        ("1 minute", 60.0), ("1.5 Mins.", 90.0), ("1 sec", 1.0), ("300 msec", 0.3),
        ("1 second, 256 megabytes", 1.0), ("5 sec; 64 MB", 5.0), ("2 second(s)", 2.0), ("500 ms/test", 0.5),
    ],
)  # fmt: skip
def test_a_rows_limit_of_time_is_seconds_and_bounded_by_the_settings(told: Any, seconds: float | None) -> None:
    row = {"prompt": "p", "test_cases": ["assert f() == 1"]}
    problem = read(row | {"time_limit": told})
    assert problem.time_limit == seconds
    allowed = [program(vars(problem), "def f(): return 1", cpu_seconds=most).cpu_seconds for most in (100.0, 0.25)]
    assert allowed == [seconds or 100.0, min(seconds or 0.25, 0.25)]
    frame = with_unit_tests(pd.DataFrame({"time_limit": ["", told]}), [read(row), problem], "test_cases")
    assert ("time_limit" in frame) == (seconds is not None)  # only sets with limits have the column


CALLED = APPS_FUNCTION | {
    "input_output": json.dumps({"fn_name": "split", "inputs": [[7]], "outputs": [[3, 4]]}),
    "checker": "import math\n\ndef check(input, expected, output):\n"
    "    return len(output) == len(expected) and math.fsum(output) == input[0]",
}


def test_a_rows_checker_judges_scripts_and_calls(pool: SandboxPool) -> None:
    forged = "def check(*given): return True\nprint('3 3')"
    right, wrong, cheats = judged(pool, ANY_ORDER, "print(2, 0, 1)", "print(2, 2, 1)", forged)
    assert [each.error_type for each in (right, wrong, cheats)] == ["accepted", "wrong_answer", "wrong_answer"]
    verdicts = judged(pool, CALLED, "def split(n): return 2, n - 2", "def split(n): return [n]", "def split(n): pass")
    assert [each.error_type for each in verdicts] == ["accepted", "wrong_answer", "runtime_error"]
    assert all(each.trusted_compare for each in [right, *verdicts])
