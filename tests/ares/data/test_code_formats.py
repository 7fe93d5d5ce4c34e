"""Rows of published sets exactly as they ship: read, prompted and judged as their own judges do."""

import base64
import json
import pickle
import pickletools
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.config.run import DataConfig
from ares.data.code import CodeProblem, RowError, program, read_problem, with_unit_tests
from ares.data.code_sets import unpacked
from ares.data.problems import load_problems
from sandbox import Program, SandboxPool, Verdict
from tests.ares.builders import tokenizer

APPS = {
    "problem_id": 0,
    "question": "Print the mean of two numbers.",
    "solutions": json.dumps(["a, b = map(int, input().split())\nprint((a + b) / 2)"]),
    "input_output": json.dumps({"inputs": ["1 2\n", "4 4\n"], "outputs": ["1.5\n", "4\n"]}),
    "difficulty": "introductory",
    "url": "https://example.org/0",
    "starter_code": "",
}
APPS_FUNCTION = APPS | {
    "problem_id": 1,
    "question": "Return the sorted pair.",
    "solutions": json.dumps(["def pair(a, b):\n\treturn tuple(sorted((a, b)))"]),
    "input_output": json.dumps({"fn_name": "pair", "inputs": [[2, 1], [0, 5]], "outputs": [[[1, 2]], [[0, 5]]]}),
    "starter_code": "\ndef pair(a, b):\n\t",
}
TACO = {
    "question": "Return the square roots.",
    "solutions": json.dumps(["class Solution:\n    def Roots(self, xs):\n        return [sqrt(x) for x in xs]"]),
    "starter_code": "#User function Template\n\nclass Solution:\n    def Roots(self, xs):\n        pass",
    "input_output": json.dumps({"fn_name": "Roots", "inputs": [[[4, 2]]], "outputs": [[2, 1.4142136]]}),
    "difficulty": "EASY",
    "raw_tags": "[]",
    "name": None,
    "source": "geeksforgeeks",
    "tags": "[]",
    "skill_types": "[]",
    "url": None,
    "Expected Auxiliary Space": None,
    "time_limit": None,
    "date": None,
    "picture_num": "0",
    "memory_limit": None,
    "Expected Time Complexity": None,
}
TACO_VERIFIED = TACO | {"solutions": json.loads(TACO["solutions"]), "id": 7}
CODE_CONTESTS = {
    "name": "1_A. Doubles",
    "description": "Print twice the number.",
    "public_tests": {"input": ["1\n"], "output": ["2\n"]},
    "private_tests": {"input": ["5\n"], "output": ["10\n"]},
    "generated_tests": {"input": ["7\n", "0\n"], "output": ["14\n", "0\n"]},
    "source": 2,
    "difficulty": 7,
    "solutions": {
        "language": [2, 1, 3],
        "solution": ["int main() {}", "print 2 * input()", "print(2 * int(input()))"],
    },
    "incorrect_solutions": {"language": [3], "solution": ["print(1)"]},
    "cf_contest_id": 1,
    "cf_index": "A",
    "time_limit": {"seconds": 2, "nanos": 0},
    "memory_limit_bytes": 256000000,
    "input_file": "",
    "output_file": "",
}
LIVE = {
    "question_title": "double",
    "question_content": "Read a number and print its double.",
    "platform": "atcoder",
    "question_id": "abc001_a",
    "contest_id": "abc001",
    "contest_date": "2024-01-01T00:00:00",
    "starter_code": "",
    "difficulty": "easy",
    "public_test_cases": json.dumps([{"input": "1\n", "output": "2\n", "testtype": "stdin"}]),
    "private_test_cases": json.dumps([{"input": "4\n", "output": "8\n", "testtype": "stdin"}]),
    "metadata": "{}",
}


def packed(tests: Any, protocol: int = 4) -> str:
    """Private tests as code_generation_lite has them."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests), protocol))).decode()


LIVE_FUNCTION = LIVE | {
    "question_content": "Return the longest prefix.",
    "platform": "leetcode",
    "question_id": "3000",
    "starter_code": "class Solution:\n    def firstOf(self, words: List[str], n: int) -> List[str]:\n        ",
    "public_test_cases": json.dumps([{"input": '["a", "b"]\n1', "output": '["a"]', "testtype": "functional"}]),
    "private_test_cases": packed([{"input": "[]\n3", "output": "[]", "testtype": "functional"}]),
    "metadata": json.dumps({"func_name": "firstOf"}),
}
BIG = {
    "task_id": "BigCodeBench/0",
    "complete_prompt": "import re\nimport math\nROOT = 2\n\ndef task_func(text):\n"
    '    """Roots of the numbers in a text."""\n',
    "instruct_prompt": "Roots of the numbers in a text.\nYou should write self-contained code starting with:\n"
    "```\nimport re\nimport math\nROOT = 2\ndef task_func(text):\n```",
    "canonical_solution": "    return [math.sqrt(int(found)) for found in re.findall(r'\\d+', text)]",
    "code_prompt": "import re\nimport math\nROOT = 2\ndef task_func(text):\n",
    "test": "import unittest\nfrom unittest.mock import patch\n\nclass TestCases(unittest.TestCase):\n"
    "    def setUp(self):\n        self.text = '4 and 9'\n"
    "    def test_case_1(self):\n        self.assertEqual(task_func(self.text), [2.0, 3.0])\n"
    "    def test_case_2(self):\n        self.assertEqual(task_func(''), [])\n"
    "    def test_case_3(self):\n        with patch('math.sqrt', return_value=1.0):\n"
    "            self.assertAlmostEqual(task_func('16')[0], 1.0)\n",
    "entry_point": "task_func",
    "doc_struct": "{}",
    "libs": "['re', 'math']",
}
DEEPCODER = {
    "problem": "Write a function that adds.",
    "solutions": ["```python\npass\n```"],
    "tests": json.dumps([{"type": "function_call", "fn_name": "add", "input": [1, 2], "output": 3}]),
}
LEETCODE = {
    "task_id": "two-sum",
    "question_id": 1,
    "difficulty": "Easy",
    "tags": ["Array"],
    "problem_description": "Given an array of integers nums and an integer target, return two indices.",
    "starter_code": "class Solution:\n    def twoSum(self, nums: List[int], target: int) -> List[int]:\n        ",
    "prompt": "import heapq\nfrom typing import *\n\ndef list_node(values):\n    return tuple(values)\n",
    "completion": "class Solution:\n    def twoSum(self, nums: List[int], target: int) -> List[int]:\n"
    "        return next([i, j] for j in range(len(nums)) for i in range(j) if nums[i] + nums[j] == target)",
    "entry_point": "Solution().twoSum",
    "test": "def check(candidate):\n    assert candidate(nums = [3,3],target = 6) == [0, 1]\n"
    "    assert candidate(nums = list_node([3,2,4]),target = 6) == [1, 2]\n",
    "input_output": [{"input": "nums = [3,3], target = 6", "output": "[0, 1]"}],
    "query": "You are an expert Python programmer. …",
    "response": "…",
}

SCRIPT = "print(2 * int(input()))"
FIRST = (
    "class Solution:\n    def firstOf(self, words: List[str], n: int) -> List[str]:\n        return tuple(words[:n])"
)
RIGHT: dict[str, tuple[dict[str, Any], str]] = {
    "apps": (APPS, json.loads(APPS["solutions"])[0]),
    "apps-function": (APPS_FUNCTION, json.loads(APPS_FUNCTION["solutions"])[0]),
    "taco": (TACO, json.loads(TACO["solutions"])[0]),
    "taco-verified": (TACO_VERIFIED, TACO_VERIFIED["solutions"][0]),
    "codecontests": (CODE_CONTESTS, SCRIPT),
    "livecodebench": (LIVE, SCRIPT),
    "livecodebench-lite": (LIVE | {"private_test_cases": packed(json.loads(LIVE["private_test_cases"]))}, SCRIPT),
    "livecodebench-function": (LIVE_FUNCTION, FIRST),
    "livecodebench-plain": (LIVE_FUNCTION, "def firstOf(words: List[str], n): return words[:n]"),
    "bigcodebench": (BIG, BIG["complete_prompt"] + "\n" + BIG["canonical_solution"]),
    "deepcoder": (DEEPCODER, "def add(a, b): return a + b"),
    "leetcode": (LEETCODE, LEETCODE["completion"]),
}  # fmt: skip


def read(row: dict[str, Any], **settings: str) -> CodeProblem:
    config = DataConfig(train="unused", **settings)
    return read_problem(row, config.prompt_key, config.tests_key, config.answer_key)


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(num_workers=1) as pool:
        yield pool


def judged(pool: SandboxPool, row: dict[str, Any], *sources: str) -> list[Verdict]:
    return pool.run([program(vars(read(row)), source) for source in sources])


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_program_passes_and_an_empty_one_fails(name: str, pool: SandboxPool) -> None:
    row, source = RIGHT[name]
    right, empty, futuristic = judged(pool, row, source, "", f"from __future__ import annotations\nfrom math import *\n"
        f"from typing import *\n{source}")  # fmt: skip
    assert (right.error_type, right.pass_ratio) == ("accepted", 1.0), right.tests
    assert empty.pass_ratio == 0.0
    assert futuristic.pass_ratio == 1.0, futuristic.tests
    # Calls with plain data are judged outside the program; only unittest's classes run in its process.
    assert right.trusted_compare == (name != "bigcodebench")


@pytest.mark.parametrize("name", [name for name in RIGHT if not name.startswith(("live", "deepcoder"))])
def test_the_reference_solution_is_found(name: str) -> None:
    row, source = RIGHT[name]
    solution = read(row).solution
    assert solution is not None
    assert solution.split() == source.split()


ASKED = {
    "apps": ("Print the mean of two numbers.", "standard input"),
    "apps-function": ("Return the sorted pair.", "Go on from this code:\ndef pair(a, b):"),
    "taco": ("Return the square roots.", "Go on from this code:\n#User function"),
    "codecontests": ("Print twice the number.", "standard input"),
    "livecodebench": ("Read a number and print its double.", "standard input"),
    "livecodebench-function": ("Return the longest prefix.", "Go on from this code:\nclass Solution:"),
    "bigcodebench": ("Roots of the numbers in a text.", "self-contained code starting with:"),
    "deepcoder": ("Write a function that adds.", "Write the function add."),
    "leetcode": ("Given an array of integers", "Go on from this code:\nclass Solution:\n    def twoSum("),
}


@pytest.mark.parametrize("name", ASKED)
def test_problems_are_asked_with_their_starter_code(name: str) -> None:
    prompt = read(RIGHT[name][0]).prompt
    assert prompt.startswith(ASKED[name][0])
    assert ASKED[name][1] in prompt
    assert prompt.endswith("in one ```python block.")


def test_a_named_column_is_used_as_it_is() -> None:
    assert read(BIG, prompt_key="complete_prompt").prompt == BIG["complete_prompt"]


def test_all_three_sets_of_codecontests_and_both_of_livecodebench_count() -> None:
    assert [given for given, _ in read(CODE_CONTESTS).stdin_tests] == ["1\n", "5\n", "7\n", "0\n"]
    assert [given for given, _ in read(LIVE).stdin_tests] == ["1\n", "4\n"]
    assert read(LIVE_FUNCTION).test_cases == [
        "assert same(call_firstOf(['a', 'b'], 1), ['a'])", "assert same(call_firstOf([], 3), [])"
    ]  # fmt: skip


def test_a_row_of_bigcodebench_has_a_test_a_method_and_the_packages_of_its_libs(pool: SandboxPool) -> None:
    problem = read(BIG | {"libs": "['re', 'numpy', 'matplotlib.pyplot', 'os']"})
    assert len(problem.test_cases) == 3
    assert problem.packages == ("matplotlib", "numpy")
    wrong = "import math\ndef task_func(text):\n    return [math.sqrt(4), 3.0] if text else 1 / 0"
    bare = "def task_func(text): return [math.sqrt(int(found)) for found in re.findall(r'\\d+', text)]"
    verdicts = judged(pool, BIG, wrong, bare)
    assert [test.verdict for test in verdicts[0].tests] == ["accepted", "runtime_error", "accepted"]
    assert "ZeroDivisionError" in verdicts[0].tests[1].detail
    assert verdicts[1].error_type == "accepted"  # its imports are there, as in the completion
    (verdict,) = judged(pool, BIG, "def task_func(text): return ['no']")
    assert [test.verdict for test in verdict.tests] == ["wrong_answer", "wrong_answer", "runtime_error"]
    assert "AssertionError" in verdict.tests[0].detail


def case(result: Any, wrapped: bool = False) -> dict[str, Any]:
    tests = {"fn_name": "f", "inputs": [[1]], "outputs": [[result] if wrapped else result]}
    return APPS_FUNCTION | {"input_output": json.dumps(tests)}


@pytest.mark.parametrize(
    ("expected", "returned", "accepted"),
    [
        ([1, 2], "(1, 2)", True),
        ([[1, 2], [3]], "[(1, 2), (3,)]", True),
        ([[1, 2], [3]], "((1, 2), [3])", True),
        ([1, 2], "[1, 2, 3]", False),
        ([1, 2], "{1, 2}", False),
        (0.3, "0.1 + 0.2", True),
        (0.3, "0.30001", False),
        ([0.3, 1], "(0.1 + 0.2, 1)", True),
        ({"1": [0.3]}, "{1: (0.1 + 0.2,)}", True),
        ({"a": 1}, "{'a': 1, 'b': 2}", False),
        (3, "3.0", True),
        (10**17, "10**17 + 1", False),
        ([10**17], "[10**17 + 1]", False),
        (True, "True", True),
        (None, "None", True),
        ("a", "'a'", True),
        ("a", "['b']", False),
        ([1.5], "'1.5'", False),
        (float("inf"), "float('inf')", True),
        (float("inf"), "1e308", False),
        ([], "None", False),
    ],
)
def test_results_are_compared_as_the_judges_of_contests_do(
    expected: Any, returned: str, accepted: bool, pool: SandboxPool
) -> None:
    for wrapped in (False, True):
        (verdict,) = judged(pool, case(expected, wrapped), f"def f(x): return {returned}")
        assert (verdict.error_type, verdict.trusted_compare) == (
            "accepted" if accepted else "wrong_answer", True), (wrapped, verdict)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("Capital", "def Capital(x): return x + 1"),
        ("sum", "def sum(x): return x + 1"),
        ("gcd", "def gcd(x): return x + 1"),
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


# ---- private tests of LiveCodeBench -------------------------------------------------------------------------------


class Opens:
    """Unpickled, it would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (str(self.path), "w")


def zipped(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw)).decode()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("tests", [[], [{"input": "x" * 300, "output": "ü\n", "testtype": "stdin"}]])
def test_a_pickled_text_is_read_whatever_its_protocol(protocol: int, tests: list[Any]) -> None:
    text = packed(tests, protocol)
    assert json.loads(unpacked(text, "c")) == tests == json.loads(pickle.loads(zlib.decompress(base64.b64decode(text))))


def test_nothing_is_ever_unpickled(tmp_path: Path) -> None:
    for value in (Opens(tmp_path / "made"), ["[]", Opens(tmp_path / "made")]):
        with pytest.raises(RowError, match="pickle of more than one text"):
            read(LIVE | {"private_test_cases": zipped(pickle.dumps(value))})
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (zipped(pickle.dumps(["a"])), "pickle of more than one text"),
        (zipped(pickle.dumps(b"[]")), "pickle of more than one text"),
        (zipped(pickle.dumps("a")[:-1]), "neither JSON nor base64 of a zlib-compressed pickle"),
        (zipped(b"[]"), "neither JSON nor base64"),
        (zipped(pickletools.optimize(b"\x80\x04.")), "pickle of no text"),
        (zipped(pickle.dumps("a"))[:-8], "private_test_cases is"),
        ("!", "neither JSON nor base64"),
        ("", "there is no test"),
    ],
)
def test_private_tests_that_cannot_be_read_name_the_column(text: str, said: str) -> None:
    row = {name: value for name, value in LIVE.items() if name != "public_test_cases"} | {"private_test_cases": text}
    with pytest.raises(RowError) as caught:
        read(row)
    assert said in str(caught.value)


def test_private_tests_that_would_fill_the_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.data.code_sets._MOST_BYTES", 1000)
    with pytest.raises(RowError, match="is cut off, or more than"):
        unpacked(zipped(pickle.dumps("[" * 2000)), "private_test_cases")


# ---- checkers ------------------------------------------------------------------------------------------------------

CHECKER = "def check(input, expected, output):\n    return sorted(output.split()) == sorted(expected.split())"
ANY_ORDER = APPS | {
    "input_output": json.dumps({"inputs": ["3\n"], "outputs": ["0 1 2\n"]}), "checker": CHECKER,
}  # fmt: skip
CALLED = APPS_FUNCTION | {
    "input_output": json.dumps({"fn_name": "split", "inputs": [[7]], "outputs": [[3, 4]]}),
    "checker": "import math\n\ndef check(input, expected, output):\n"
    "    return len(output) == len(expected) and math.fsum(output) == input[0]",
}


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ({"seconds": 2, "nanos": 500000000}, 2.5), ({"seconds": 1, "nanos": None}, 1.0), ("2.0 seconds", 2.0),
        ("1 second", 1.0), ("1500ms", 1.5), (3, 3.0), (0.5, 0.5), ("4", 4.0), ('{"seconds": 1}', 1.0), (None, None),
        ({"seconds": 0, "nanos": 0}, None), ('{"seconds": 2, "nanos": null}', 2.0), ({"seconds": "2"}, None),
        ("standard", None), (0, None), (True, None),
    ],
)  # fmt: skip
def test_a_rows_limit_of_time_is_seconds_and_bounded_by_the_settings(told: Any, seconds: float | None) -> None:
    row = {"prompt": "p", "test_cases": ["assert f() == 1"], "time_limit": told}
    problem = read_problem(row, "prompt", "test_cases", "answer")
    assert problem.time_limit == seconds
    allowed = [program(vars(problem), "def f(): return 1", cpu_seconds=most).cpu_seconds for most in (100.0, 0.25)]
    assert allowed == [seconds or 100.0, 0.25]


@pytest.mark.parametrize("as_text", [False, True])
def test_a_test_names_its_function_in_its_own_metadata(as_text: bool) -> None:
    metadata: Any = {"func_name": "add"}
    test = {"input": "1\n2", "output": "3", "testtype": "functional", "metadata": metadata}
    if as_text:
        test["metadata"] = json.dumps(metadata)
    problem = read_problem({"problem": "Add.", "tests": json.dumps([test])}, "prompt", "test_cases", "answer")
    assert problem.test_cases == ["assert call_add(1, 2) == 3"]


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


def test_only_sets_with_limits_have_the_column(tmp_path: Path) -> None:
    row = {"prompt": "p", "test_cases": ["assert f() == 1"]}
    problems = [read_problem(each, "prompt", "test_cases", "answer") for each in (row, row | {"time_limit": "1 s"})]
    frame = pd.DataFrame({"prompt": ["p", "p"], "time_limit": ["", "1 s"]})
    assert "time_limit" not in with_unit_tests(frame[:1], problems[:1], "test_cases")
    assert with_unit_tests(frame, problems, "test_cases")["time_limit"].tolist() == [None, 1.0]


def test_a_rows_checker_judges_scripts_and_calls(pool: SandboxPool) -> None:
    forged = "def check(*given): return True\nprint('3 3')"
    right, wrong, cheats = judged(pool, ANY_ORDER, "print(2, 0, 1)", "print(2, 2, 1)", forged)
    assert [each.error_type for each in (right, wrong, cheats)] == ["accepted", "wrong_answer", "wrong_answer"]
    verdicts = judged(pool, CALLED, "def split(n): return 2, n - 2", "def split(n): return [n]", "def split(n): pass")
    assert [each.error_type for each in verdicts] == ["accepted", "wrong_answer", "runtime_error"]
    assert right.trusted_compare  # a script's; what a call returned is handed to the row's checker in its process


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (ANY_ORDER | {"checker": "def check("}, "checker does not parse"),
        (
            ANY_ORDER | {"checker": "def judge(input, expected, output): return True"},
            "checker defines no function check",
        ),
        (ANY_ORDER | {"checker": 7}, "checker is text, this is 7"),
        ({"prompt": "p", "test_cases": ["assert f()"], "checker": CHECKER}, "no test has one"),
        (LIVE_FUNCTION | {"metadata": "{}"}, "names no function"),
        (case(1) | {"input_output": json.dumps({"fn_name": "a b", "inputs": [[]], "outputs": [1]})}, "no name of a"),
        (BIG | {"libs": "numpy"}, "libs is a list of modules, this is 'numpy'"),
    ],
)
def test_a_row_that_cannot_be_used_names_the_column(row: dict[str, Any], said: str) -> None:
    with pytest.raises(RowError) as caught:
        read(row)
    assert said in str(caught.value)


# ---- whole files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("name", RIGHT)
def test_a_file_of_it_loads_and_programs_are_made_from_its_rows(name: str, suffix: str, tmp_path: Path) -> None:
    row, source = RIGHT[name]
    path = tmp_path / f"rows.{suffix}"
    if suffix == "parquet":
        pd.DataFrame([row]).to_parquet(path)
    else:
        path.write_text(json.dumps(row) + "\n")
    problems = load_problems(
        str(path), "train", DataConfig(train="x", max_prompt_length=2000), tokenizer(), needs="tests"
    )
    assert program(problems.frame.iloc[0], source) == program(vars(read(row)), source)
    assert not {"solutions", "incorrect_solutions", "private_tests", "private_test_cases"} & set(problems.frame)
    digest = problems.digest()
    path.unlink()
    assert isinstance(program(problems.frame.iloc[0], source), Program)
    assert len(digest) == 16
