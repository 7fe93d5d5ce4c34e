"""Rows in the field's formats, as published: read, prompted and judged as their own judges do."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.config.run import DataConfig
from ares.data.code import RowError, packages_of, program, with_unit_tests
from ares.data.problems import Problems, joined, load_problems
from ares.runs.run import Run
from sandbox import Program, SandboxPool
from tests.ares.builders import config, tokenizer
from tests.ares.data.code_rows import (
    ACECODE,
    BIG,
    CODE_CONTESTS,
    HUMANEVAL,
    LIVE,
    LIVE_FUNCTION,
    MBPP,
    MBPP_PLUS,
    PLAIN,
    RIGHT,
    SOLVED,
    TACO,
    Row,
    judged,
    read,
    verl,
    written,
)

# ---- published rows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RIGHT)
def test_the_reference_passes_and_other_programs_fail(name: str, pool: SandboxPool) -> None:
    row, source = RIGHT[name]
    solution = read(row).solution
    assert name == "deepcoder" or str(solution).split() == (source.split() if name in SOLVED else ["None"])
    from_the_future = f"from __future__ import annotations\nfrom math import *\nfrom typing import *\n{source}"
    right, empty, wrong, futuristic = judged(pool, row, source, "", "def f(x): return None", from_the_future)
    assert (right.error_type, right.pass_ratio) == ("accepted", 1.0), right.tests
    assert (empty.pass_ratio, wrong.pass_ratio) == (0.0, 0.0)
    assert futuristic.pass_ratio == 1.0, futuristic.tests
    # Calls with plain data are judged outside the program; only unittest's classes run in its process.
    assert right.trusted_compare == (name != "bigcodebench")


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("name", RIGHT)
def test_a_file_of_it_loads_and_programs_are_made_from_its_rows(name: str, suffix: str, tmp_path: Path) -> None:
    row, source = RIGHT[name]
    path = written(tmp_path / f"rows.{suffix}", row)
    problems = load(path)
    assert program(problems.frame.iloc[0], source) == program(vars(read(row)), source)
    assert not {"solutions", "incorrect_solutions", "private_tests", "private_test_cases"} & set(problems.frame)
    digest = problems.digest()
    path.unlink()
    assert isinstance(program(problems.frame.iloc[0], source), Program)
    assert len(digest) == 16


ASKED = {
    "humaneval": ("Complete this Python function.", HUMANEVAL["prompt"].rstrip()),
    "mbpp": ("Write a function to add.", "must pass this test:\nassert add(1, 2) == three\n"),
    "mbpp-sanitized": ("Write a function to add.", "must pass this test:\nassert math"),
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
def test_bare_problems_are_asked_for_a_program(name: str) -> None:
    prompt = read(RIGHT[name][0]).prompt
    assert prompt.startswith(ASKED[name][0])
    assert ASKED[name][1] in prompt
    assert "```python" in prompt


def test_what_is_no_bare_problem_is_asked_as_it_is() -> None:
    assert read(BIG, prompt_key="complete_prompt").prompt == BIG["complete_prompt"]
    assert read(MBPP, prompt_key="text").prompt == MBPP["text"]
    assert read(ACECODE).prompt == "Write a function `inc`."
    assert read(verl({"inputs": ["1"], "outputs": ["2"]})).prompt == [{"role": "user", "content": "Write it."}]


def test_the_user_names_the_column_of_the_tests() -> None:
    problem = read(MBPP | {"challenge_test_list": ["assert add(5, 5) == 10"]}, tests_key="challenge_test_list")
    assert (problem.test_cases, problem.setup, problem.solution) == (
        ["assert add(5, 5) == 10"], "three = 3", MBPP["code"])  # fmt: skip


def test_humanevals_imports_and_helpers_need_not_be_repeated_by_a_response(pool: SandboxPool) -> None:
    (verdict,) = judged(pool, HUMANEVAL, "def doubles(xs: List[int]) -> List[int]:\n    return [double(x) for x in xs]")
    assert verdict.error_type == "accepted"


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
    skips = "import unittest\ndef task_func(text): raise unittest.SkipTest('no data')"
    fails, passes, other, skipped = judged(pool, BIG, wrong, bare, "def task_func(text): return ['no']", skips)
    assert skipped.pass_ratio == 0.0
    assert [test.verdict for test in fails.tests] == ["accepted", "runtime_error", "accepted"]
    assert "ZeroDivisionError" in fails.tests[1].detail
    assert passes.error_type == "accepted"  # its imports are there, as in the completion
    assert [test.verdict for test in other.tests] == ["wrong_answer", "wrong_answer", "runtime_error"]
    assert "AssertionError" in other.tests[0].detail


INHERITED = """import unittest
class Mixin:
    def test_mixed(self):
        self.assertEqual(f(2), 4)
class First(unittest.TestCase):
    def test_first(self):
        self.assertEqual(f(1), 2)
class More(Mixin, First):
    def test_more(self):
        self.assertEqual(f(3), 6)
class Later(unittest.IsolatedAsyncioTestCase):
    async def test_later(self):
        self.assertEqual(f(4), 8)
def test_data():
    return []
print(test_data())
"""


def test_tests_of_base_classes_and_coroutines_are_run(pool: SandboxPool) -> None:
    """Only First's was: a program that is wrong for 2, 3 and 4 was accepted."""
    row = {"prompt": "Double.", "test": INHERITED}
    runs = [text.splitlines()[-1] for text in read(row).test_cases]
    more = [f'run_one(More("{name}"))' for name in ("test_more", "test_mixed", "test_first")]
    assert runs == ['run_one(First("test_first"))', *more, 'run_one(Later("test_later"))']
    right, wrong = judged(pool, row, "def f(x): return 2 * x", "def f(x): return 2")
    assert right.error_type == "accepted"
    assert [each.verdict == "accepted" for each in wrong.tests] == [True, False, False, True, False]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            "class Plain:\n    def test_a(self):\n        assert f(2) == 4\n",
            "test: test_a would not be run: it is in no",
        ),
        ("def test_b():\n    assert f(2) == 4\n", "test: test_b would not be run"),
        ("if f:\n    class C(unittest.TestCase):\n        def test_c(self): pass\n", "test: test_c would not be run"),
        ("class D(First):\n    async def test_d(self): pass\n", "test: D.test_d is async, but in no unittest.Isolated"),
    ],
)
def test_a_test_that_would_not_be_run_is_refused(more: str, said: str) -> None:
    with pytest.raises(RowError, match=said):
        read({"prompt": "Double.", "test": INHERITED + more})


def test_a_rows_own_columns_are_not_put_around_programs(tmp_path: Path) -> None:
    """CanItEdit's `after` is the solution: every program was accepted."""
    own = {"before": "x = 1", "after": PLAIN["solution"], "stdin_compare": "numbers"}
    problems = load(written(tmp_path / "p.jsonl", PLAIN | own))
    assert program(problems.frame.iloc[0], "y = 2") == program(vars(read(PLAIN)), "y = 2")
    both = load(written(tmp_path / "q.jsonl", PLAIN | own, TACO | own | {"id": "t", "prompt": TACO["question"]}))
    made = [program(row, "y = 2") for _, row in both.frame.iterrows()]
    assert made[0] == program(vars(read(PLAIN)), "y = 2")
    assert PLAIN["solution"] not in made[1].source


def test_lines_end_only_at_line_feeds() -> None:
    """U+2028 within the first argument: it was no JSON."""
    case = {"input": '"a\u2028b"\r\n1\n', "output": '"a"', "testtype": "functional"}
    (test,) = read(LIVE_FUNCTION | {"public_test_cases": [case], "private_test_cases": None}).test_cases
    assert test == r"assert call_firstOf('a\u2028b', 1) == 'a'"


def test_a_row_of_mbpp_plus_is_judged_by_its_long_test_and_shows_a_short_one() -> None:
    problem = read(MBPP_PLUS)
    assert problem.test_cases == [MBPP_PLUS["test"]]
    assert "assert sum(10, 15) == 25" in problem.prompt
    assert "numpy" not in problem.prompt
    assert (problem.setup, problem.entry_point) == ("import math", "sum")
    assert read({**MBPP_PLUS, "code": "def add(a, b):\n    return a + b\n"}).entry_point is None


# ---- whole files ---------------------------------------------------------------------------------------------------


def load(path: Path, **settings: Any) -> Problems:
    asked = DataConfig(train=str(path), max_prompt_length=2000, **settings)
    return load_problems(str(path), "train", asked, tokenizer(), needs="tests")


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_file_has_the_same_columns_whatever_it_is_stored_as(suffix: str, tmp_path: Path) -> None:
    rows = [PLAIN | {"level": 3}, PLAIN | {"id": "q", "solution": None}]
    first, second = load(written(tmp_path / f"p.{suffix}", *rows)).frame.to_dict("records")
    assert first["test_cases"] == ["assert f(1) == k"]
    assert first["stdin_tests"] == [["1\n", "2\n"]]
    assert (first["setup"], first["entry_point"], first["level"]) == ("k = 2", None, 3)
    assert first["answer"] == first["solution"] == PLAIN["solution"]
    assert (second["answer"], second["solution"]) == ("", None)


UNTESTED = PLAIN | {"id": "q", "test_cases": [], "stdin_tests": []}


def test_rows_without_tests_are_left_out_and_named(tmp_path: Path) -> None:
    problems = load(written(tmp_path / "p.jsonl", UNTESTED, PLAIN, UNTESTED | {"id": "r"}))
    assert problems.frame["id"].tolist() == ["p"]
    assert problems.reasons() == {"there is no test": ["1 (q)", "3 (r)"]}
    assert list(joined({"a": problems, "b": problems}).left_out) == ["a/1 (q)", "a/3 (r)", "b/1 (q)", "b/3 (r)"]
    nameless = [{name: value for name, value in row.items() if name != "id"} for row in (UNTESTED, PLAIN)]
    assert load(written(tmp_path / "n.jsonl", *nameless)).frame["id"].tolist() == ["1"]  # its row's, as with all


def test_the_start_of_a_run_names_them_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = written(tmp_path / "p.jsonl", *(UNTESTED | {"id": f"q{number}"} for number in range(12)), PLAIN)
    settings = [f"data.train={source}", "data.validation=null", "reward.kind=code", "rollout.prompts=1"]
    settings += ["data.max_prompt_length=100"]
    run, _ = Run.check(config(*settings, "learner.global_batch_prompts=1"), "some", tmp_path)
    assert run.train_set.frame["id"].tolist() == ["p"]
    assert "p.jsonl: 12 rows left out (there is no test): 1 (q0), 2 (q1), " in caplog.text
    assert "10 (q9), …\n" in caplog.text


def test_packages_of_all_rows_and_of_the_settings() -> None:
    problems = [read(MBPP_PLUS | {"packages": each}) for each in (["numpy"], None, '["pandas"]')]
    frame = with_unit_tests(pd.DataFrame({"test": [""] * 3}), problems, "test_cases")
    assert packages_of(["scipy"], frame.to_dict("records")) == ("numpy", "pandas", "scipy")
    assert "packages" not in with_unit_tests(pd.DataFrame({"test": [""]}), [problems[1]], "test_cases")


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (MBPP_PLUS, ("numpy",)),  # as it is published
        (PLAIN | {"setup": "k = 2\nfrom numpy import testing"}, ("numpy",)),
        (PLAIN | {"test_cases": ["def check(f):\n    import pandas as pd, numpy\n    assert f"]}, ("numpy", "pandas")),
        (PLAIN | {"checker": "import numpy.linalg\ndef check(a, b, c): return True"}, ("numpy",)),
        (PLAIN | {"setup": "k = 2  # import numpy\nimport math  # no numpy"}, ()),
        (PLAIN | {"solution": "import numpy\ndef f(x): return 2"}, ()),  # a program that wants it finds another way
    ],
)
def test_what_tests_import_they_are_given(row: Row, found: tuple[str, ...]) -> None:
    frame = with_unit_tests(pd.DataFrame([row]), [read(row)], "test_cases")
    assert packages_of([], frame.to_dict("records")) == packages_of([], [vars(read(row))]) == found


def test_a_row_that_needs_pandas_has_it_imported_by_its_setup_so_that_its_values_are_judged_where_they_are() -> None:
    """`len(frame()) == 3` counted a frame's columns, and an honest program got a trusted 0."""
    row = {"prompt": "p", "test_cases": ["assert len(f()) == 3"], "packages": ["pandas"], "setup": "import math"}
    assert program(vars(read(row)), "def f(): ...").setup == "import math\nimport pandas\n"
    assert program(vars(read(row | {"packages": ["numpy"]})), "def f(): ...").setup == "import math"
