"""Verdicts that runs share: what is judged once, what is judged again, and that grades are the same."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.config import RewardConfig
from ares.config.reward import CodeConfig
from ares.grading import shared_verdicts
from ares.grading.code import CodeGrader
from ares.grading.shared_verdicts import SharedVerdicts
from sandbox import Program, TestOutcome, Verdict

JOB = Program(source="def f(x): return x", tests=["assert f(1) == 1", "assert f(2) == 3"])
VERDICT = Verdict(
    0.5,
    "wrong_answer",
    (TestOutcome("accepted", 0.01, 0.02), TestOutcome("wrong_answer", 0.01, 0.02, "2 != 3", False)),
    0.02,
    0.05,
    1 << 20,
    "printed",
    "",
    False,
    "standard:namespaces",
)


def test_a_verdict_comes_back_without_what_the_program_wrote(tmp_path: Path) -> None:
    one, other = (SharedVerdicts(tmp_path / "new" / "verdicts.sqlite", "local standard") for _ in range(2))
    assert one.find(JOB) is None
    one.add(JOB, VERDICT)
    found = other.find(JOB)
    assert found is not None
    assert vars(found) == vars(VERDICT) | {"stdout": ""}
    one.close()
    other.close()


@pytest.mark.parametrize(
    "change",
    [
        {"source": "def f(x): return x + 0"},
        {"tests": ["assert f(1) == 1"]},
        {"tests": ["assert f(2) == 3", "assert f(1) == 1"]},
        {"setup": "import math"},
        {"cpu_seconds": 1.0},
        {"memory_mb": 256},
    ],
)
def test_another_program_test_or_limit_is_judged_anew(tmp_path: Path, change: dict[str, Any]) -> None:
    shared = SharedVerdicts(tmp_path / "verdicts.sqlite", "local standard")
    shared.add(JOB, VERDICT)
    assert shared.find(Program(**{"source": JOB.source, "tests": JOB.tests} | change)) is None
    shared.close()


def test_another_place_or_python_judges_anew_and_a_failure_is_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = SharedVerdicts(tmp_path / "verdicts.sqlite", "local standard")
    shared.add(JOB, Verdict(None, "internal_error", ()))
    assert shared.find(JOB) is None
    shared.add(JOB, VERDICT)
    elsewhere = SharedVerdicts(tmp_path / "verdicts.sqlite", "local none")
    monkeypatch.setattr(shared_verdicts.sys, "version", "3.12.1 (another one)")
    later = SharedVerdicts(tmp_path / "verdicts.sqlite", "local standard")
    assert (elsewhere.find(JOB), later.find(JOB)) == (None, None)
    assert shared.find(JOB) is not None
    for each in (shared, elsewhere, later):
        each.close()


@pytest.mark.parametrize("outcome", ["timeout", "memory"])
def test_what_the_machine_may_have_decided_is_judged_by_every_run(tmp_path: Path, outcome: str) -> None:
    shared = SharedVerdicts(tmp_path / "verdicts.sqlite", "local standard")
    shared.add(JOB, replace(VERDICT, error_type=outcome, tests=(VERDICT.tests[0], TestOutcome(outcome, 2.0, 11.0))))
    assert shared.find(JOB) is None
    shared.add(JOB, VERDICT)  # on a machine with time to spare
    assert shared.find(JOB) is not None
    shared.close()


def rows() -> pd.DataFrame:
    bodies = ["def f(x): return x + x", "def f(x): return 7", "def f(x): return y", "def f(x)", None]
    problem: dict[str, Any] = {"id": "p", "setup": "", "entry_point": None, "stdin_tests": []}
    problem["test_cases"] = ["assert f(1) == 2", "assert f(3) == 6"]
    responses = ["no code" if body is None else f"```python\n{body}\n```\n" for body in bodies]
    return pd.DataFrame(
        [{"slot": 0, "sample": number, "response": text, **problem} for number, text in enumerate(responses)]
    )


def test_a_second_run_grades_the_same_and_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graded = []
    for verdicts in (None, tmp_path / "verdicts.sqlite", tmp_path / "verdicts.sqlite"):
        grader = CodeGrader(RewardConfig(code=CodeConfig(workers=1, verdicts=verdicts and str(verdicts))))
        grader.start()
        if len(graded) == 2:
            monkeypatch.setattr(grader._pool, "run", lambda jobs: pytest.fail("it was judged again"))
        graded.append(grader.grade(rows()))
        grader.close()
    alone, first, second = (table.drop(columns="exec_time") for table in graded)
    pd.testing.assert_frame_equal(first, alone)
    pd.testing.assert_frame_equal(second, alone)
    assert graded[2]["exec_time"].tolist() == graded[1]["exec_time"].tolist()
