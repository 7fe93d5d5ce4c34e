"""Rows in the field's formats that cannot be used, and pickles in them, which run nothing."""

import base64
import contextlib
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest

from ares.data.code import RowError
from ares.data.code_sets import unpacked
from tests.ares.data.code_rows import (
    ACECODE,
    ANY_ORDER,
    APPS,
    BIG,
    CHECKER,
    HUMANEVAL,
    LEETCODE,
    LIVE,
    LIVE_FUNCTION,
    MBPP_PLUS,
    PLAIN,
    RIGHT,
    SANITIZED,
    Row,
    packed,
    read,
    verl,
)

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


# ---- rows that cannot be used --------------------------------------------------------------------------------------


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
         "(tests in pytest's style are not read): 'import math"),
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
        *((PLAIN | {"time_limit": wrong}, f"or has a unit, as 500 ms or 1 minute, this is {wrong!r}")
          for wrong in ("2 hours", "2m", "2,000 ms", "1 min 30 s", "1-2 minutes")),
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
