"""The tests of rows: how results are compared, what functions are called, checkers and limits of time; rows that cannot
be used, and pickles in them, which run nothing."""

import base64
import contextlib
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.data.code import RowError, program, with_unit_tests
from ares.data.code_sets import unpacked
from sandbox import SandboxPool
from tests.ares.data.code_rows import (
    ACECODE,
    ANY_ORDER,
    APPS,
    APPS_FUNCTION,
    BIG,
    CHECKER,
    DEEPCODER,
    HUMANEVAL,
    INC,
    LEETCODE,
    LIVE,
    LIVE_FUNCTION,
    MBPP_PLUS,
    PLAIN,
    RIGHT,
    SANITIZED,
    Row,
    judged,
    packed,
    read,
    verl,
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
        ({"seconds": "2"}, 2.0), ("standard", None), (0, None), (True, None), (5e-05, 5e-05), (-1, None),
        ("500 ms", None), ("1 minute", None), ("1-2 s", None), ("1 second, 256 megabytes", 1.0),
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


# ---- rows that cannot be used --------------------------------------------------------------------------------------

ANYTHING = (None, "", 0, -1, 1.5, True, [], {}, [None], [[]], [{}], {"a": None}, "null", "[", "{", "[null]", "\ud800",
            ["a", 1], [{"input": 1}], {"inputs": [1]}, {"language": 3, "solution": [1]}, 10**30)  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_a_column_of_a_set_that_holds_anything_else_is_read_or_refused(name: str) -> None:
    """Solutions as a number, or a test_list of 5, ended `ares data check` with a traceback."""
    row, _ = RIGHT[name]
    for column in row:
        for value in ANYTHING:
            with contextlib.suppress(RowError):
                read(row | {column: value})


class Opens:
    """Unpickled, it would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (str(self.path), "w")


def zipped(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw)).decode()


@pytest.mark.parametrize("protocol", [0, pickle.HIGHEST_PROTOCOL])
def test_a_pickled_text_is_read_whatever_its_protocol(protocol: int) -> None:
    tests = [{"input": "x" * 300, "output": "ü\n", "testtype": "stdin"}]
    assert json.loads(unpacked(packed(tests, protocol), "c")) == tests


def test_unpickling_runs_nothing(tmp_path: Path) -> None:
    for value in (Opens(tmp_path / "made"), ["[]", Opens(tmp_path / "made")]):
        with pytest.raises(RowError, match="pickle of something other than one text"):
            read(LIVE | {"private_test_cases": zipped(pickle.dumps(value))})
    assert not (tmp_path / "made").exists()


def scripts(text: str) -> Row:
    return APPS | {"input_output": text}


def private(text: str) -> Row:
    return {name: value for name, value in LIVE.items() if name != "public_test_cases"} | {"private_test_cases": text}


NO_PICKLE = "neither JSON nor base64 of a zlib-compressed pickle"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"prompt": "x"}, "there is no test (columns looked for: test_cases, stdin_tests, test, test_list"),
        (PLAIN | {"test_cases": [], "stdin_tests": []}, "there is no test"),
        (PLAIN | {"test_cases": None, "stdin_tests": None}, "there is no test"),
        (scripts(""), "there is no test"),
        (scripts('{"inputs": ['), "input_output is not readable as JSON"),
        (scripts('{"inputs": ["1"]}'), "input_output has neither lists inputs and outputs nor"),
        (scripts('{"inputs": ["1"], "outputs": []}'), "1 inputs and 0 outputs"),
        (scripts('{"inputs": [], "outputs": []}'), "there is no test"),
        (scripts('{"fn_name": "f", "inputs": [1], "outputs": [1]}'), "are a list of arguments"),
        (scripts('{"inputs": [{}], "outputs": ["1"]}'), "text or a list of lines, this is {}"),
        (ACECODE | {"test_cases": ["assert f()", " "]}, "or has an input and an output, this is ' '"),
        (ACECODE | {"test_cases": [7]}, "or has an input and an output, this is 7"),
        (ACECODE | {"test_cases": 7}, "test_cases holds no tests, but 7"),
        (ACECODE | {"test_cases": '["assert'}, "test_cases is not readable as JSON"),
        (PLAIN | {"stdin_tests": [["1"]]}, "stdin_tests: a test is a text, or has an input and an output"),
        (PLAIN | {"solution": 7}, "solution is text, this is 7"),
        (verl("42"), "a test neither asserts nor raises, so that every program would pass it: '42'"),
        (ACECODE | {"test_cases": ["inc(1) == 2"]}, "neither asserts nor raises"),
        (ACECODE | {"test_cases": ["def test_inc():\n    assert inc(1) == 2\n"]}, "a test only defines functions"),
        (ACECODE | {"test_cases": ["import math\n\nclass TestInc:\n    def test(self):\n        assert inc(1) == 2"]},
         "so that every program would pass it: 'import math"),
        (verl({}) | {"reward_model": {"style": "rule"}}, "reward_model has no ground_truth"),
        (verl([{"type": "function_call", "input": [1], "output": 1}]), "names no function: fn_name is None"),
        (verl([{"input": "1"}]), "a test is a text, or has an input and an output, this is {'input': '1'}"),
        ({"test_cases": ["assert f()"]}, "there is no prompt: column 'prompt' is missing or null"),
        (private(zipped(pickle.dumps(["a"]))), "pickle of something other than one text"),
        (private(zipped(pickle.dumps("a")[:-1])), NO_PICKLE),
        (private(zipped(b"[]")), NO_PICKLE),
        (private(zipped(pickle.dumps("a"))[:-8]), "private_test_cases is"),
        (private("!"), NO_PICKLE),
        (private(""), "there is no test"),
        (ANY_ORDER | {"checker": "def check("}, "checker does not parse"),
        (ANY_ORDER | {"checker": "def judge(a, b, c): return True"}, "checker defines no function check"),
        (ANY_ORDER | {"checker": 7}, "checker is text, this is 7"),
        ({"prompt": "p", "test_cases": ["assert f()"], "checker": CHECKER}, "no test has one"),
        (LIVE_FUNCTION | {"metadata": "{}"}, "names no function"),
        (scripts('{"fn_name": "a b", "inputs": [[]], "outputs": [1]}'), "fn_name is 'a b'"),
        (BIG | {"libs": "numpy"}, "libs is a list of modules, this is 'numpy'"),
        (BIG | {"instruct_prompt": 7}, "instruct_prompt is text, this is 7"),
        (HUMANEVAL | {"canonical_solution": ["x"]}, "canonical_solution is text, this is ['x']"),
        (LEETCODE | {"problem_description": -1}, "problem_description is text, this is -1"),
        *((SANITIZED | {name: 5}, f"{name} is a list of texts, this is 5") for name in ("test_list", "test_imports")),
        *((PLAIN | {"time_limit": wrong}, "time_limit's seconds and nanos are numbers, this is {")
          for wrong in ({"seconds": "two"}, {"seconds": 1, "nanos": [1]})),
        *((MBPP_PLUS | {"packages": wrong}, "packages is a list of modules")
          for wrong in (["scikit-learn"], 3, [3], "import numpy")),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_used_names_the_column(row: Row, said: str) -> None:
    with pytest.raises(RowError) as caught:
        read(row)
    assert said in str(caught.value)
