"""Programs in responses, judged by the real sandbox: verdict, accuracy, format, and judging that starts early."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from ares.config.reward import CodeConfig
from ares.grading.code import CodeGrader
from ares.step.code_metrics import code_metrics
from sandbox import TestOutcome as Outcome
from sandbox import Verdict

TESTS = ["assert double(1) == 2", "assert double(-3) == -6", "assert double(0) == 0", "assert double(1.5) == 3.0"]
BODIES = {
    "right": "def double(x):\n    return x + x",
    "half": "def double(x):\n    return x + x if x > 0 else 7",
    "wrong": "def double(x):\n    return 9",
    "runtime": "def double(x):\n    return y",
    "syntax": "def double(x)\n    return x",
}
RESPONSES = {name: f"```python\n{body}\n```\n" for name, body in BODIES.items()} | {"none": "Double it, he said."}


@pytest.fixture(scope="module")
def grader() -> Iterator[CodeGrader]:
    opened = CodeGrader(CodeConfig(workers=2))
    opened.start()
    yield opened
    opened.close()


def rows(*names: str, stdin: bool = False) -> pd.DataFrame:
    """One row per response, all to one problem."""
    problem: dict[str, Any] = {"id": "p", "setup": "", "entry_point": None, "test_cases": TESTS, "stdin_tests": []}
    if stdin:
        problem |= {"test_cases": [], "stdin_tests": [["3\n", "6"], ["4\n", "8"]]}
    return pd.DataFrame([{"slot": 0, "sample": k, "response": RESPONSES[n], **problem} for k, n in enumerate(names)])


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


def test_accuracy_can_be_the_pass_ratio() -> None:
    grader = CodeGrader(CodeConfig(workers=1, accuracy="pass_ratio"))
    grader.start()
    assert grader.grade(rows("half", "right"))["accuracy"].tolist() == [0.5, 1.0]
    grader.close()


@pytest.mark.parametrize(("untrusted", "ratio"), [("accept", 1.0), ("zero", 0.5), ("drop", None)])
def test_tests_that_run_in_the_programs_process_count_as_the_config_says(untrusted: str, ratio: float | None) -> None:
    body = "def double(x): return x + x"
    row = rows("right").assign(response=f"```python\n{body}\n```\n")
    row["test_cases"] = [["assert double(1) == 2", "assert type(double(1)) is int"]]
    grader = CodeGrader(CodeConfig.model_validate({"workers": 1, "untrusted": untrusted}))
    grader.start()
    graded = grader.grade(row)
    grader.close()
    assert graded["trusted"].tolist() == [False]
    assert graded["pass_ratio"].isna().tolist() == [ratio is None]
    assert ratio is None or graded["pass_ratio"].tolist() == [ratio]
    metrics = code_metrics(graded.assign(truncated=False, tokens=9), kept_slots=[0])
    assert metrics["code/untrusted"] == 1.0


def test_a_program_may_be_a_script_with_inputs(grader: CodeGrader) -> None:
    RESPONSES["script"] = "```python\nprint(2 * int(input()))\n```\n"
    assert grader.grade(rows("script", "right", stdin=True))["pass_ratio"].tolist() == [1.0, 0.0]
    del RESPONSES["script"]


def test_equal_programs_are_judged_once_until_they_are_forgotten(grader: CodeGrader) -> None:
    grader.forget()
    grader.anticipate(rows("right", "right", "half", "none"))
    assert len(grader._verdicts) == 3
    grader.grade(rows("half", "right"))
    assert len(grader._verdicts) == 3
    grader.forget()
    assert not grader._verdicts


def test_a_program_the_sandbox_failed_to_judge_has_no_score(
    grader: CodeGrader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sandbox reports such a program with the error type internal_error and no pass ratio."""

    lost = Verdict(None, "internal_error", (Outcome("internal_error"),) * len(TESTS))
    monkeypatch.setattr(grader._pool, "run", lambda programs: [lost for _ in programs])
    grader.forget()
    graded = grader.grade(rows("right"))
    assert graded["accuracy"].isna().all()
    assert graded["pass_ratio"].isna().all()
    grader.forget()


def test_equal_tests_with_another_checker_or_comparison_have_verdicts_of_their_own(grader: CodeGrader) -> None:
    RESPONSES["spaced"] = "```python\nprint(' 6.0')\n```\n"
    row = rows("spaced", stdin=True).iloc[0].to_dict() | {"stdin_tests": [["3\n", "6"]]}
    anything = "def check(input, expected, output): return True"
    added = [{}, {"stdin_compare": "numbers"}, {"checker": anything}, {"before": "print(6)\nraise SystemExit\n"}]
    graded = grader.grade(
        pd.DataFrame([row | each for each in added]).astype(object).where(lambda cell: cell.notna(), None)
    )
    assert graded["accuracy"].tolist() == [0.0, 1.0, 1.0, 1.0]
