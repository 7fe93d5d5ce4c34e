"""A row or two in the format of each published set, by hand, and the files that hold them."""

import base64
import gzip
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import pandas as pd

from ares.config.run import DataConfig
from ares.data.code import CodeProblem, program, read_problem
from sandbox import SandboxPool, Verdict

Row = dict[str, Any]
INC = "def inc(x): return x + 1"


def read(row: Row, **settings: str) -> CodeProblem:
    """The problem of a row, with these settings of data."""
    return read_problem(row, DataConfig(train="unused", **settings))


def written(path: Path, *rows: Any) -> Path:
    """A file of rows: parquet, or JSON lines, compressed if its name ends with .gz. Text is a line of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pd.DataFrame(rows).to_parquet(path)
        return path
    text = "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def packed(tests: Any, protocol: int = 4) -> str:
    """LiveCodeBench's private tests as code_generation_lite has them."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests), protocol))).decode()


def verl(ground_truth: Any) -> Row:
    """A row of verl's, whose ground truth is text."""
    text = ground_truth if isinstance(ground_truth, str) else json.dumps(ground_truth)
    return {
        "data_source": "taco", "prompt": [{"role": "user", "content": "Write it."}],
        "reward_model": {"style": "rule", "ground_truth": text}, "extra_info": {"index": 0},
    }  # fmt: skip


HUMANEVAL: Row = {
    "task_id": "HumanEval/0", "entry_point": "doubles", "canonical_solution": "    return [double(x) for x in xs]\n",
    "prompt": 'from typing import List\n\ndef double(x: int) -> int:\n    return 2 * x\n\n'
    'def doubles(xs: List[int]) -> List[int]:\n    """ Double each. """\n',
    "test": "\n\nMETADATA = {}\n\n\ndef check(candidate):\n    assert candidate([1, 2]) == [2, 4]\n",
}  # fmt: skip
HUMANEVAL_PLUS: Row = HUMANEVAL | {
    "test": "def check(candidate):\n    for inp, exp in zip([[[1, 2]], [[-1]]], [[2, 4], [-2]]):\n"
    "        assert candidate(*inp) == exp\n"
}
MBPP: Row = {
    "task_id": 11, "text": "Write a function to add.", "code": "def add(a, b):\r\n  return a + b",
    "test_list": ["assert add(1, 2) == three", "assert add(0, 0) == 0"], "test_setup_code": "three = 3",
    "challenge_test_list": [],
}  # fmt: skip
SANITIZED: Row = {
    "task_id": 3, "prompt": "Write a function to add.", "code": "def add(a, b): return a + b",
    "test_list": ["assert math.isclose(add(1, 2), 3)"], "test_imports": ["import math"],
}  # fmt: skip
MBPP_PLUS: Row = {
    "task_id": 126, "prompt": "Write a python function to find the sum of common divisors of two given numbers.",
    "code": "def sum(a, b):\n    return a + b\n", "source_file": "here", "test_imports": ["import math"],
    "test_list": ["assert sum(10, 15) == 25", "assert sum(1, 2) == 3"],
    "test": "import numpy as np\nfor inp, exp in zip([[1, 2], [3, 4]], [3, 7]):\n"
    "    assert np.allclose(sum(*inp), exp)\n",
}  # fmt: skip
APPS: Row = {
    "problem_id": 7, "question": "Print the mean of two numbers.", "difficulty": "introductory", "starter_code": "",
    "solutions": json.dumps(["a, b = map(int, input().split())\nprint((a + b) / 2)"]),
    "input_output": json.dumps({"inputs": ["1 2\n", ["4 4"]], "outputs": ["1.5\n", ["4"]]}),
}  # fmt: skip
APPS_FUNCTION: Row = APPS | {
    "problem_id": 1, "question": "Return the sorted pair.", "starter_code": "\ndef pair(a, b):\n\t",
    "solutions": json.dumps(["def pair(a, b):\n\treturn tuple(sorted((a, b)))"]),
    "input_output": json.dumps({"fn_name": "pair", "inputs": [[2, 1], [0, 5]], "outputs": [[[1, 2]], [[0, 5]]]}),
}  # fmt: skip
TACO: Row = {
    "question": "Return the square roots.", "difficulty": "EASY", "name": None, "url": None, "time_limit": None,
    "solutions": json.dumps(["class Solution:\n    def Roots(self, xs):\n        return [sqrt(x) for x in xs]"]),
    "starter_code": "#User function Template\n\nclass Solution:\n    def Roots(self, xs):\n        pass",
    "input_output": json.dumps({"fn_name": "Roots", "inputs": [[[4, 2]]], "outputs": [[2, 1.4142136]]}),
}  # fmt: skip
TACO_VERIFIED: Row = TACO | {"solutions": json.loads(TACO["solutions"]), "id": 7}
CODE_CONTESTS: Row = {
    "name": "1_A. Doubles", "description": "Print twice the number.", "source": 2, "difficulty": 7,
    "public_tests": {"input": ["1\n"], "output": ["2\n"]}, "private_tests": {"input": ["5\n"], "output": ["10\n"]},
    "generated_tests": {"input": ["7\n", "0\n"], "output": ["14\n", "0\n"]},
    "solutions": {
        "language": [2, 1, 3], "solution": ["int main() {}", "print 2 * input()", "print(2 * int(input()))"],
    },
    "incorrect_solutions": {"language": [3], "solution": ["print(1)"]}, "time_limit": {"seconds": 2, "nanos": 0},
}  # fmt: skip
LIVE: Row = {
    "question_title": "double", "question_content": "Read a number and print its double.", "platform": "atcoder",
    "question_id": "abc001_a", "contest_id": "abc001", "starter_code": "", "metadata": "{}",
    "public_test_cases": json.dumps([{"input": "1\n", "output": "2\n", "testtype": "stdin"}]),
    "private_test_cases": json.dumps([{"input": "4\n", "output": "8\n", "testtype": "stdin"}]),
}  # fmt: skip
LIVE_FUNCTION: Row = LIVE | {
    "question_content": "Return the longest prefix.", "platform": "leetcode", "question_id": "3000",
    "starter_code": "class Solution:\n    def firstOf(self, words: List[str], n: int) -> List[str]:\n        ",
    "public_test_cases": json.dumps([{"input": '["a", "b"]\n1', "output": '["a"]', "testtype": "functional"}]),
    "private_test_cases": packed([{"input": "[]\n3", "output": "[]", "testtype": "functional"}]),
    "metadata": json.dumps({"func_name": "firstOf"}),
}  # fmt: skip
BIG: Row = {
    "task_id": "BigCodeBench/0", "entry_point": "task_func", "doc_struct": "{}", "libs": "['re', 'math']",
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
}  # fmt: skip
DEEPCODER: Row = {
    "problem": "Write a function that adds.", "solutions": ["```python\npass\n```"],
    "tests": json.dumps([{"type": "function_call", "fn_name": "add", "input": [1, 2], "output": 3}]),
}  # fmt: skip
LEETCODE: Row = {
    "task_id": "two-sum", "question_id": 1, "entry_point": "Solution().twoSum", "query": "You are an expert …",
    "problem_description": "Given an array of integers nums and an integer target, return two indices.",
    "starter_code": "class Solution:\n    def twoSum(self, nums: List[int], target: int) -> List[int]:\n        ",
    "prompt": "import heapq\nfrom typing import *\n\ndef list_node(values):\n    return tuple(values)\n",
    "completion": "class Solution:\n    def twoSum(self, nums: List[int], target: int) -> List[int]:\n"
    "        return next([i, j] for j in range(len(nums)) for i in range(j) if nums[i] + nums[j] == target)",
    "test": "def check(candidate):\n    assert candidate(nums = [3,3],target = 6) == [0, 1]\n"
    "    assert candidate(nums = list_node([3,2,4]),target = 6) == [1, 2]\n",
    "input_output": [{"input": "nums = [3,3], target = 6", "output": "[0, 1]"}],
}  # fmt: skip
ACECODE: Row = {"id": "oss_1", "question": "Write a function `inc`.", "test_cases": ["assert inc(1) == 2"]}
PLAIN: Row = {
    "id": "p", "prompt": "Write f, or a script that doubles.", "test_cases": '["assert f(1) == k"]',
    "stdin_tests": [["1\n", "2\n"]], "setup": "k = 2",
    "solution": "def f(x): return 2 * x\nif __name__ == '__main__': print(f(int(input())))",
}  # fmt: skip
SCRIPT = "print(2 * int(input()))"
"""A right program for LIVE and CODE_CONTESTS."""

FIRST = (
    "class Solution:\n    def firstOf(self, words: List[str], n: int) -> List[str]:\n        return tuple(words[:n])"
)
SOLVED: dict[str, tuple[Row, str]] = {
    "humaneval": (HUMANEVAL, HUMANEVAL["prompt"] + HUMANEVAL["canonical_solution"]),
    "humaneval+": (HUMANEVAL_PLUS, HUMANEVAL["prompt"] + HUMANEVAL["canonical_solution"]),
    "mbpp": (MBPP, MBPP["code"]),
    "mbpp-sanitized": (SANITIZED, SANITIZED["code"]),
    "apps": (APPS, json.loads(APPS["solutions"])[0]),
    "apps-function": (APPS_FUNCTION, json.loads(APPS_FUNCTION["solutions"])[0]),
    "taco": (TACO, json.loads(TACO["solutions"])[0]),
    "taco-verified": (TACO_VERIFIED, TACO_VERIFIED["solutions"][0]),
    "codecontests": (CODE_CONTESTS, SCRIPT),
    "bigcodebench": (BIG, BIG["complete_prompt"] + "\n" + BIG["canonical_solution"]),
    "leetcode": (LEETCODE, LEETCODE["completion"]),
    "plain": (PLAIN, PLAIN["solution"]),
}
"""Rows with the reference solution that is found in them."""
UNSOLVED: dict[str, tuple[Row, str]] = {
    "livecodebench": (LIVE, SCRIPT),
    "livecodebench-lite": (LIVE | {"private_test_cases": packed(json.loads(LIVE["private_test_cases"]))}, SCRIPT),
    "livecodebench-function": (LIVE_FUNCTION, FIRST),
    "livecodebench-plain": (LIVE_FUNCTION, "def firstOf(words: List[str], n): return words[:n]"),
    "deepcoder": (DEEPCODER, "def add(a, b): return a + b"),
    "acecode": (ACECODE, INC),
    "verl-script": (verl({"inputs": ["1"], "outputs": ["2"]}), SCRIPT),
    "verl-call": (verl({"inputs": [[1, 2]], "outputs": [3], "fn_name": "add"}), "def add(a, b): return a + b"),
    "verl-check": (verl({"functional": "def check(f):\n    assert f(1) == 2\n\ncheck(inc)"}), INC),
    "verl-asserts": (verl({"assert_case": ["assert inc(1) == 2"]}), INC),
    "verl-cases": (verl([{"type": "function_call", "fn_name": "inc", "input": [1], "output": 2}]), INC),
    "verl-metadata": (
        verl([{"testtype": "functional", "input": "[1]\n2", "output": "[1, 2]", "metadata": {"func_name": "app"}}]),
        "def app(xs, x): return xs + [x]"),
    "verl-stdin": (verl([{"testtype": "stdin", "input": "1", "output": "2"}]), SCRIPT),
}  # fmt: skip
RIGHT = SOLVED | UNSOLVED

CHECKER = "def check(input, expected, output):\n    return sorted(output.split()) == sorted(expected.split())"
ANY_ORDER = APPS | {"input_output": json.dumps({"inputs": ["3\n"], "outputs": ["0 1 2\n"]}), "checker": CHECKER}


def judged(pool: SandboxPool, row: Row, *sources: str) -> list[Verdict]:
    """The verdicts on programs as answers to a row."""
    return pool.run([program(vars(read(row)), source) for source in sources])
