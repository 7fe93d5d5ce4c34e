"""Rows in the field's formats, exactly as published, become unit tests that a right program passes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.config.run import DataConfig
from ares.data.code import (
    CodeProblem,
    RowError,
    packages_of,
    program,
    read_problem,
    with_unit_tests,
)
from ares.data.problems import DataError, Problems, joined, load_problems
from ares.runs.run import Run
from sandbox import SandboxPool
from tests.ares.builders import config, tokenizer

HUMANEVAL = {
    "task_id": "HumanEval/0",
    "prompt": 'from typing import List\n\ndef double(x: int) -> int:\n    return 2 * x\n\n'
    'def doubles(xs: List[int]) -> List[int]:\n    """ Double each. """\n',
    "entry_point": "doubles",
    "canonical_solution": "    return [double(x) for x in xs]\n",
    "test": "\n\nMETADATA = {}\n\n\ndef check(candidate):\n    assert candidate([1, 2]) == [2, 4]\n",
}  # fmt: skip
MBPP = {
    "task_id": 2,
    "text": "Write a function to add.",
    "code": "def add(a, b):\r\n  return a + b",
    "test_list": ["assert add(1, 2) == three", "assert add(0, 0) == 0"],
    "test_setup_code": "three = 3",
    "challenge_test_list": [],
}
SANITIZED = {
    "task_id": 3,
    "prompt": "Write a function to add.",
    "code": "def add(a, b): return a + b",
    "test_list": ["assert math.isclose(add(1, 2), 3)"],
    "test_imports": ["import math"],
}
APPS_SCRIPT = {
    "problem_id": 7,
    "question": "Print the sum.",
    "solutions": json.dumps(["print(sum(map(int, input().split())))"]),
    "input_output": json.dumps({"inputs": ["1 2\n", ["3 4"]], "outputs": ["3\n", ["7"]]}),
    "starter_code": "",
}
APPS_CALL = {
    "problem_id": 8,
    "question": "Pair them.",
    "solutions": json.dumps(["class Solution:\n    def pair(self, a, b):\n        return (a, b)"]),
    "input_output": json.dumps({"fn_name": "pair", "inputs": [[1, 2], [[3], {"1": 4}]], "outputs": [[1, 2], []]}),
    "starter_code": "class Solution:\n    def pair(self, a, b):\n",
}
ACECODE = {"id": "oss_1", "question": "Write a function `inc`.", "test_cases": ["assert inc(1) == 2"]}
PLAIN = {
    "id": "p",
    "prompt": "Write f, or a script that doubles.",
    "test_cases": '["assert f(1) == k"]',
    "stdin_tests": [["1\n", "2\n"]],
    "setup": "k = 2",
    "solution": "def f(x): return 2 * x\nif __name__ == '__main__': print(f(int(input())))",
}


def verl(ground_truth: Any) -> dict[str, Any]:
    text = ground_truth if isinstance(ground_truth, str) else json.dumps(ground_truth)
    return {
        "data_source": "taco",
        "prompt": [{"role": "user", "content": "Write it."}],
        "reward_model": {"style": "rule", "ground_truth": text},
        "extra_info": {"index": 0},
    }


def read(row: dict[str, Any], **settings: str) -> CodeProblem:
    config = DataConfig(train="unused", **settings)
    return read_problem(row, config.prompt_key, config.tests_key, config.answer_key)


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool() as pool:
        yield pool


RIGHT = {
    "verl-script": (verl({"inputs": ["1"], "outputs": ["2"]}), "print(2 * int(input()))"),
    "verl-call": (verl({"inputs": [[1, 2]], "outputs": [3], "fn_name": "add"}), "def add(a, b): return a + b"),
    "verl-check": (verl({"functional": "def check(f):\n    assert f(1) == 2\n\ncheck(inc)"}), "def inc(x): return x+1"),
    "verl-asserts": (verl({"assert_case": ["assert inc(1) == 2"]}), "def inc(x): return x + 1"),
    "verl-cases": (
        verl([{"type": "function_call", "fn_name": "inc", "input": [1], "output": 2}]), "def inc(x): return x + 1"),
    "livecodebench": (
        verl([{"testtype": "functional", "input": "[1]\n2", "output": "[1, 2]", "metadata": {"func_name": "app"}}]),
        "def app(xs, x): return xs + [x]"),
    "livecodebench-script": (verl([{"testtype": "stdin", "input": "1", "output": "2"}]), "print(1 + int(input()))"),
    "acecode": (ACECODE, "def inc(x): return x + 1"),
}  # fmt: skip


PUBLISHED = {"humaneval": HUMANEVAL, "mbpp": MBPP, "mbpp-sanitized": SANITIZED, "apps": APPS_SCRIPT, "plain": PLAIN}


@pytest.mark.parametrize("row", PUBLISHED.values(), ids=PUBLISHED)
def test_the_reference_solution_passes_and_a_wrong_program_fails(row: dict[str, Any], pool: SandboxPool) -> None:
    problem = read(row)
    assert problem.solution is not None
    right, wrong = pool.run([program(vars(problem), problem.solution), program(vars(problem), "def f(x): return None")])
    assert (right.error_type, right.pass_ratio, wrong.pass_ratio) == ("accepted", 1.0, 0.0)


@pytest.mark.parametrize("name", RIGHT)
def test_rows_without_a_solution_tell_right_from_wrong(name: str, pool: SandboxPool) -> None:
    row, source = RIGHT[name]
    problem = read(row)
    assert problem.solution is None
    right, wrong = pool.run([program(vars(problem), source), program(vars(problem), "def unrelated(): pass")])
    assert (right.error_type, wrong.pass_ratio) == ("accepted", 0.0)


def test_a_function_problem_is_called_as_its_starter_code_says_and_judged_as_apps_does(pool: SandboxPool) -> None:
    problem = read(APPS_CALL)
    assert problem.test_cases == [
        "assert same(call_pair(1, 2), [1, 2])",
        "assert same(call_pair([3], {1: 4}), [])",
    ]
    (verdict,) = pool.run([program(vars(problem), str(problem.solution))])
    assert [test.verdict for test in verdict.tests] == ["accepted", "wrong_answer"]


def test_humanevals_imports_and_helpers_need_not_be_repeated_by_a_response(pool: SandboxPool) -> None:
    source = "def doubles(xs: List[int]) -> List[int]:\n    return [double(x) for x in xs]\n"
    future = "from __future__ import annotations\n" + "def doubles(xs): return [2 * x for x in xs]"
    verdicts = pool.run(program(vars(read(HUMANEVAL)), text) for text in (source, future))
    assert [verdict.error_type for verdict in verdicts] == ["accepted", "accepted"]


def test_a_bare_problem_gets_an_instruction_and_a_named_column_is_used_as_it_is() -> None:
    assert str(read(HUMANEVAL).prompt).startswith("Complete this Python function.")
    assert str(HUMANEVAL["prompt"]).rstrip() in read(HUMANEVAL).prompt
    assert "must pass this test:\nassert add(1, 2) == three\n" in read(MBPP).prompt
    assert "reads standard input" in read(APPS_SCRIPT).prompt
    assert "Go on from this code:\nclass Solution:" in read(APPS_CALL).prompt
    for row in (HUMANEVAL, MBPP, SANITIZED, APPS_SCRIPT, APPS_CALL):
        assert "```python" in read(row).prompt
    assert read(ACECODE).prompt == "Write a function `inc`."
    assert read(MBPP, prompt_key="text").prompt == MBPP["text"]
    assert read(verl({"inputs": ["1"], "outputs": ["2"]})).prompt == [{"role": "user", "content": "Write it."}]


def test_the_user_names_the_column_of_the_tests() -> None:
    row = MBPP | {"challenge_test_list": ["assert add(5, 5) == 10"]}
    problem = read(row, tests_key="challenge_test_list")
    assert (problem.test_cases, problem.setup, problem.solution) == (
        ["assert add(5, 5) == 10"], "three = 3", MBPP["code"])  # fmt: skip


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"prompt": "x"}, "there is no test (columns looked for: test_cases, stdin_tests, test, test_list"),
        (PLAIN | {"test_cases": [], "stdin_tests": []}, "there is no test"),
        (PLAIN | {"test_cases": None, "stdin_tests": None}, "there is no test"),
        (APPS_SCRIPT | {"input_output": ""}, "there is no test"),
        (APPS_SCRIPT | {"input_output": '{"inputs": ['}, "input_output is not readable as JSON"),
        (APPS_SCRIPT | {"input_output": '{"inputs": ["1"]}'}, "input_output has neither lists inputs and outputs nor"),
        (APPS_SCRIPT | {"input_output": '{"inputs": ["1"], "outputs": []}'}, "1 inputs and 0 outputs"),
        (APPS_SCRIPT | {"input_output": '{"inputs": [], "outputs": []}'}, "there is no test"),
        (APPS_CALL | {"input_output": '{"fn_name": "f", "inputs": [1], "outputs": [1]}'}, "are a list of arguments"),
        (APPS_SCRIPT | {"input_output": '{"inputs": [{}], "outputs": ["1"]}'}, "text or a list of lines, this is {}"),
        (ACECODE | {"test_cases": ["assert f()", " "]}, "test_cases: a test is a text that is not empty, this is ' '"),
        (ACECODE | {"test_cases": [7]}, "test_cases: a test is a text that is not empty, this is 7"),
        (ACECODE | {"test_cases": 7}, "test_cases holds no tests, but 7"),
        (ACECODE | {"test_cases": '["assert'}, "test_cases is not readable as JSON"),
        (PLAIN | {"stdin_tests": [["1"]]}, "stdin_tests: a test is a pair [input, output], this is ['1']"),
        (PLAIN | {"solution": 7}, "solution is text, this is 7"),
        (verl("42"), "a test neither asserts nor raises, so that every program would pass it: '42'"),
        (ACECODE | {"test_cases": ["inc(1) == 2"]}, "neither asserts nor raises"),
        (ACECODE | {"test_cases": ["def test_inc():\n    assert inc(1) == 2\n"]}, "a test only defines functions"),
        (ACECODE | {"test_cases": ["import math\n\nclass TestInc:\n    def test(self):\n        assert inc(1) == 2"]},
         "(tests in pytest's style are not read): 'import math"),
        (verl({}) | {"reward_model": {"style": "rule"}}, "reward_model has no ground_truth"),
        (verl([{"type": "function_call", "input": [1], "output": 1}]), "names no function (fn_name)"),
        (verl([{"input": "1"}]), "a test has no input or no output"),
        ({"test_cases": ["assert f()"]}, "there is no prompt: column 'prompt' is missing or null"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_used_says_which_column(row: dict[str, Any], said: str) -> None:
    with pytest.raises(RowError) as caught:
        read(row)
    assert said in str(caught.value)


@pytest.mark.parametrize("run", ["test_inc()", "if __name__ == '__main__':\n    test_inc()", "done = test_inc()"])
def test_a_test_that_runs_the_functions_it_defines_is_one(run: str, pool: SandboxPool) -> None:
    problem = read(ACECODE | {"test_cases": [f"def test_inc():\n    assert inc(1) == 2\n{run}"]})
    verdicts = pool.run(program(vars(problem), f"def inc(x): return {x}") for x in ("x + 1", "x"))
    assert [each.error_type for each in verdicts] == ["accepted", "wrong_answer"]


# ---- whole files ---------------------------------------------------------------------------------------------------


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    if path.suffix == ".parquet":
        pd.DataFrame(rows).to_parquet(path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def load(source: str, **settings: Any) -> Problems:
    return load_problems(source, "train", DataConfig(train=source, **settings), tokenizer(), needs="tests")


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_file_has_the_same_columns_whatever_it_is_stored_as(suffix: str, tmp_path: Path) -> None:
    frame = load(write(tmp_path / f"p.{suffix}", [PLAIN | {"level": 3}, PLAIN | {"id": "q", "solution": None}])).frame
    first, second = frame.to_dict("records")
    assert first["test_cases"] == ["assert f(1) == k"]
    assert first["stdin_tests"] == [["1\n", "2\n"]]
    assert (first["setup"], first["entry_point"], first["level"]) == ("k = 2", None, 3)
    assert first["answer"] == first["solution"] == PLAIN["solution"]
    assert (second["answer"], second["solution"]) == ("", None)


def test_verls_parquet_and_the_published_sets_ids_are_understood(tmp_path: Path) -> None:
    rows = [verl({"inputs": ["1"], "outputs": ["2"]}), verl({"functional": "assert f() == 1"})]
    frame = load(write(tmp_path / "p.parquet", rows)).frame
    assert frame["stdin_tests"].tolist() == [[["1", "2"]], []]
    assert frame["test_cases"].tolist() == [[], ["assert f() == 1"]]
    assert frame["data_source"].tolist() == ["taco", "taco"]
    assert load(write(tmp_path / "h.jsonl", [HUMANEVAL])).frame["id"].tolist() == ["HumanEval/0"]
    assert load(write(tmp_path / "m.parquet", [MBPP])).frame["test_cases"].tolist() == [MBPP["test_list"]]


def test_the_digest_covers_the_tests(tmp_path: Path) -> None:
    digest = load(write(tmp_path / "p.jsonl", [PLAIN])).digest()
    for key, value in {"test_cases": ["assert f(1) == 3"], "stdin_tests": [["1", "3"]], "setup": "k = 3"}.items():
        assert load(write(tmp_path / "q.jsonl", [PLAIN | {key: value}])).digest() != digest


UNTESTED = PLAIN | {"id": "q", "test_cases": [], "stdin_tests": []}


def test_rows_without_tests_are_left_out_and_named(tmp_path: Path) -> None:
    problems = load(write(tmp_path / "p.jsonl", [UNTESTED, PLAIN, UNTESTED | {"id": "r"}]))
    assert problems.frame["id"].tolist() == ["p"]
    assert problems.reasons() == {"there is no test": ["1 (q)", "3 (r)"]}
    assert list(joined({"a": problems, "b": problems}).left_out) == ["a/q", "a/r", "b/q", "b/r"]
    nameless = [{name: value for name, value in row.items() if name != "id"} for row in (UNTESTED, PLAIN)]
    assert load(write(tmp_path / "n.jsonl", nameless)).frame["id"].tolist() == ["1"]  # its row's, as with all of them


def test_the_start_of_a_run_names_them_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [UNTESTED | {"id": f"q{number}"} for number in range(12)]
    source = write(tmp_path / "p.jsonl", [*rows, PLAIN])
    settings = [f"data.train={source}", "data.validation=null", "reward.kind=code", "rollout.prompts=1"]
    settings += ["data.max_prompt_length=100"]
    run, _ = Run.check(config(*settings, "learner.global_batch_prompts=1"), "some", tmp_path)
    assert run.train_set.frame["id"].tolist() == ["p"]
    assert "p.jsonl: 12 rows left out (there is no test): 1 (q0), 2 (q1), " in caplog.text
    assert "10 (q9), …\n" in caplog.text


def test_a_set_without_a_test_is_one_error_that_names_file_and_row(tmp_path: Path) -> None:
    source = write(tmp_path / "p.jsonl", [UNTESTED, UNTESTED | {"id": "r"}])
    with pytest.raises(DataError, match=r"p\.jsonl:1: there is no test \(none of the 2 rows can be used\)"):
        load(source)


def test_a_row_that_cannot_be_read_is_an_error_that_names_file_and_row(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"p\.jsonl:2: stdin_tests is no list"):
        load(write(tmp_path / "p.jsonl", [PLAIN, PLAIN | {"id": "q", "stdin_tests": 3}]))


PLUS = {
    "task_id": 126,
    "prompt": "Write a python function to find the sum of common divisors of two given numbers.",
    "code": "def sum(a, b):\n    return a + b\n",
    "source_file": "here",
    "test_imports": ["import math"],
    "test_list": ["assert sum(10, 15) == 25", "assert sum(1, 2) == 3"],
    "test": "import numpy as np\nfor inp, exp in zip([[1, 2], [3, 4]], [3, 7]):\n"
    "    assert np.allclose(sum(*inp), exp)\n",
    "packages": ["numpy"],
}


def test_a_row_of_mbpp_plus_is_judged_by_its_long_test_and_shows_a_short_one() -> None:
    problem = read(PLUS)
    assert problem.test_cases == [PLUS["test"]]
    assert "assert sum(10, 15) == 25" in problem.prompt
    assert "numpy" not in problem.prompt
    assert (problem.setup, problem.entry_point, problem.packages) == ("import math", "sum", ("numpy",))
    assert read({**PLUS, "code": "def add(a, b):\n    return a + b\n"}).entry_point is None


@pytest.mark.parametrize("packages", [["scikit-learn"], 3, [3], "import numpy"])
def test_packages_are_modules(packages: Any) -> None:
    with pytest.raises(RowError, match="packages is a list of modules"):
        read({**PLUS, "packages": packages})


def test_packages_of_all_rows_and_of_the_settings() -> None:
    problems = [read(PLUS), read({**PLUS, "packages": None}), read({**PLUS, "packages": '["pandas"]'})]
    frame = with_unit_tests(pd.DataFrame({"test": [""] * 3}), problems, "test_cases")
    assert packages_of(["scipy"], frame.to_dict("records")) == ("numpy", "pandas", "scipy")
    assert "packages" not in with_unit_tests(pd.DataFrame({"test": [""]}), [problems[1]], "test_cases")


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (PLUS | {"packages": None}, ("numpy",)),  # as it is published
        (PLAIN | {"setup": "k = 2\nfrom numpy import testing"}, ("numpy",)),
        (PLAIN | {"test_cases": ["def check(f):\n    import pandas as pd, numpy\n    assert f"]}, ("numpy", "pandas")),
        (PLAIN | {"checker": "import numpy.linalg\ndef check(a, b, c): return True"}, ("numpy",)),
        (PLAIN | {"setup": "k = 2  # import numpy\nimport math  # no numpy"}, ()),
        (PLAIN | {"solution": "import numpy\ndef f(x): return 2"}, ()),  # a program that wants it finds another way
    ],
)
def test_what_tests_import_they_are_given(row: dict[str, Any], found: tuple[str, ...]) -> None:
    frame = with_unit_tests(pd.DataFrame([row]), [read(row)], "test_cases")
    assert packages_of([], frame.to_dict("records")) == packages_of([], [vars(read(row))]) == found
