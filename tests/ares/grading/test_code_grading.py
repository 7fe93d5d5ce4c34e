"""Programs in responses, judged by the real sandbox: verdict, accuracy, format, judging that starts early; reference
solutions, which are judged first."""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.config import DataConfig, RewardConfig
from ares.config.reward import CodeConfig
from ares.data import DataError, Problems, load_problems
from ares.grading.code import CodeGrader, check_references
from ares.step.metrics import code_metrics
from rewards.shaping import CodeOutcomes
from sandbox import TestOutcome as Outcome
from sandbox import Verdict
from tests.ares.builders import tokenizer
from tests.ares.data.code_rows import written

TESTS = ["assert double(1) == 2", "assert double(-3) == -6", "assert double(0) == 0", "assert double(1.5) == 3.0"]
BODIES = {
    "right": "def double(x):\n    return x + x",
    "half": "def double(x):\n    return x + x if x > 0 else 7",
    "wrong": "def double(x):\n    return 9",
    "runtime": "def double(x):\n    return y",
    "syntax": "def double(x)\n    return x",
}
RESPONSES = {name: f"```python\n{body}\n```\n" for name, body in BODIES.items()} | {"none": "Double it, he said."}
SCRIPTS = {"script": "```python\nprint(2 * int(input()))\n```\n", "spaced": "```python\nprint(' 6.0')\n```\n"}


@pytest.fixture(scope="module")
def grader() -> Iterator[CodeGrader]:
    opened = CodeGrader(RewardConfig(code=CodeConfig(workers=2)))
    opened.start()
    yield opened
    opened.close()


def rows(*names: str, stdin: bool = False) -> pd.DataFrame:
    """One row per response, all to one problem."""
    problem: dict[str, Any] = {"id": "p", "setup": "", "entry_point": None, "test_cases": TESTS, "stdin_tests": []}
    if stdin:
        problem |= {"test_cases": [], "stdin_tests": [["3\n", "6"], ["4\n", "8"]]}
    return pd.DataFrame(
        [{"slot": 0, "sample": k, "response": (RESPONSES | SCRIPTS)[n], **problem} for k, n in enumerate(names)]
    )


def test_each_response_has_the_verdict_of_its_program(grader: CodeGrader) -> None:
    graded = grader.grade(rows(*RESPONSES)).set_index(pd.Index(RESPONSES))
    assert graded["error_type"].to_dict() == {
        "right": "accepted", "half": "wrong_answer", "wrong": "wrong_answer", "runtime": "runtime_error",
        "syntax": "syntax_error", "none": "syntax_error",
    }  # fmt: skip
    assert graded["pass_ratio"].tolist() == [1.0, 0.5, 0.0, 0.0, 0.0, 0.0]
    assert graded["accuracy"].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert graded["format"].tolist() == [1.0, 1.0, 1.0, 1.0, 0.5, 0.0]
    assert graded["test_outcomes"]["half"] == ["accepted", "wrong_answer", "wrong_answer", "accepted"]
    assert (graded["exec_time"] >= 0).all()
    assert all(len(outcomes) == len(TESTS) for outcomes in graded["test_outcomes"])


def graded_by(rows: pd.DataFrame, **settings: Any) -> pd.DataFrame:
    """The rows graded under settings of reward.code."""
    grader = CodeGrader(RewardConfig.model_validate({"code": {"workers": 1} | settings}))
    grader.start()
    with contextlib.closing(grader):
        return grader.grade(rows)


def test_accuracy_can_be_the_pass_ratio() -> None:
    assert graded_by(rows("half", "right"), accuracy="pass_ratio")["accuracy"].tolist() == [0.5, 1.0]


@pytest.mark.parametrize(("untrusted", "ratio"), [("accept", 1.0), ("zero", 0.5), ("drop", None)])
def test_tests_that_run_in_the_programs_process_count_as_the_config_says(untrusted: str, ratio: float | None) -> None:
    row = rows("right").assign(response="```python\ndef double(x): return x + x\n```\n")
    row["test_cases"] = [["assert double(1) == 2", "assert type(double(1)) is int"]]
    graded = graded_by(row, untrusted=untrusted)
    assert graded["trusted"].tolist() == [False]
    assert graded["pass_ratio"].isna().tolist() == [ratio is None]
    assert ratio is None or graded["pass_ratio"].tolist() == [ratio]
    rewarded = CodeOutcomes.of(graded["error_type"], graded["test_outcomes"], [False]).scored
    assert rewarded.tolist() == [ratio is not None]
    metrics = code_metrics(graded.assign(truncated=False, tokens=9), kept_slots=[0])
    assert metrics["code/untrusted"] == 1.0


def test_a_run_says_at_its_start_how_many_problems_can_be_forged(caplog: pytest.LogCaptureFixture) -> None:
    problems = pd.concat([rows("right")] * 9 + [rows("right").assign(id="forgeable")])
    problems["test_cases"] = [TESTS] * 9 + [["assert type(double(1)) is int"]]
    CodeGrader(RewardConfig()).expect(problems)
    assert "1 of 10 problems looked at, such as forgeable" in caplog.text
    with pytest.raises(DataError, match=r"1 of 2 problems .* reward.code.untrusted=accept"):
        CodeGrader(RewardConfig()).expect(problems[-2:])
    CodeGrader(RewardConfig(code=CodeConfig(untrusted="accept"))).expect(problems[-2:])


def test_a_program_may_be_a_script_with_inputs(grader: CodeGrader) -> None:
    assert grader.grade(rows("script", "right", stdin=True))["pass_ratio"].tolist() == [1.0, 0.0]


def test_equal_programs_are_judged_once_until_they_are_forgotten(grader: CodeGrader) -> None:
    grader.forget()
    grader.anticipate(rows("right", "right", "half", "none"))
    assert len(grader._verdicts) == 2
    grader.grade(rows("half", "right"))
    assert len(grader._verdicts) == 2
    grader.forget()
    assert not grader._verdicts


def test_a_program_the_sandbox_failed_on_has_no_score(grader: CodeGrader, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandbox reports such a program with the error type internal_error and no pass ratio."""

    lost = Verdict(None, "internal_error", (Outcome("internal_error"),) * len(TESTS))
    monkeypatch.setattr(grader._pool, "run", lambda programs: [lost for _ in programs])
    grader.forget()
    graded = grader.grade(rows("right"))
    assert graded["accuracy"].isna().all()
    assert graded["pass_ratio"].isna().all()
    grader.forget()


def test_equal_tests_with_another_checker_or_comparison_have_verdicts_of_their_own(grader: CodeGrader) -> None:
    row = rows("spaced", stdin=True).iloc[0].to_dict() | {"stdin_tests": [["3\n", "6"]]}
    anything = "def check(input, expected, output): return True"
    added = [{}, {"stdin_compare": "numbers"}, {"checker": anything}, {"before": "print(6)\nraise SystemExit\n"}]
    graded = grader.grade(
        pd.DataFrame([row | each for each in added]).astype(object).where(lambda cell: cell.notna(), None)
    )
    assert graded["accuracy"].tolist() == [0.0, 1.0, 1.0, 1.0]


# ---- reference solutions -------------------------------------------------------------------------------------------

REFERENCE = {"prompt": "Write f.", "test_cases": ["assert f(1) == 2"], "solution": "def f(x): return x + 1"}
FAILING = {**REFERENCE, "solution": "def f(x): return x"}


def read(path: Path, rows: dict[str, dict[str, object]]) -> Problems:
    source = str(written(path / "set.jsonl", *({"id": name} | row for name, row in rows.items())))
    return load_problems(source, "train", DataConfig(train=source), tokenizer(), "tests")


def test_references_are_counted_and_those_that_fail_refused_unless_known(grader: CodeGrader, tmp_path: Path) -> None:
    rows = {"HumanEval/31": REFERENCE, "HumanEval/32": FAILING, "HumanEval/33": {**REFERENCE, "solution": None}}
    summary = check_references(grader, read(tmp_path, rows), ("HumanEval/32",))
    assert summary == {"solutions": 2, "accepted": 1, "known_failures": ["HumanEval/32"]}
    crashing, absent = {**REFERENCE, "solution": "def f(x): return y"}, {**REFERENCE, "solution": None}
    for refused, told in (
        ({"a": REFERENCE, "b": FAILING, "c": crashing}, r"2 of 3 .*: b \(wrong_answer\), c \(runtime_error\)\. Why"),
        ({"a": absent}, "no row has one"),
    ):
        with pytest.raises(DataError, match=told):
            check_references(grader, read(tmp_path, refused))


def test_a_sandbox_that_failed_is_asked_again() -> None:
    """The retry of a phase calls the same grader: a failure is not kept as programs' verdicts are."""
    grader, calls = CodeGrader(RewardConfig(code=CodeConfig(workers=1))), []

    class Pool:
        def run(self, programs: list[Any]) -> list[Verdict]:
            calls.append(len(programs))
            if len(calls) == 1:
                raise ConnectionError("away")
            return [Verdict(1.0, "accepted", (Outcome("accepted"),) * 4)]

        def close(self) -> None: ...

    grader._pool, grader._threads = Pool(), ThreadPoolExecutor(1)  # type: ignore[assignment]
    with pytest.raises(ConnectionError):
        grader.grade(rows("right"))
    assert grader.grade(rows("right"))["accuracy"].tolist() == [1.0]
    grader.close()
