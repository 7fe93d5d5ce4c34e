"""Opening a run: what a check may start (nothing), and what opening one starts and ends."""

from pathlib import Path
from typing import Any

import pytest

from ares.config.profiles import load
from ares.config.run import Config
from ares.grading import code as code_grading
from ares.runs.evaluation import Evaluation, EvaluationRequest
from ares.runs.run import Run
from ares.store.store import RunStore, StoreError
from flows import ablate


class RecordedSandbox:
    """Stands for a sandbox, local or rented: knows whether it was ended."""

    def __init__(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


@pytest.fixture(autouse=True)
def sandboxes(monkeypatch: pytest.MonkeyPatch) -> list[RecordedSandbox]:
    """Every sandbox that is started."""
    started: list[RecordedSandbox] = []

    def open_sandbox(*settings: Any) -> RecordedSandbox:
        started.append(RecordedSandbox())
        return started[-1]

    monkeypatch.setattr(code_grading, "open_sandbox", open_sandbox)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return started


def code_config() -> Config:
    return load("tiny-code")


def test_checking_a_run_starts_no_sandbox_and_writes_nothing(tmp_path: Path, sandboxes: list[RecordedSandbox]) -> None:
    Run.check(code_config(), "unborn", tmp_path)
    assert sandboxes == []
    assert list(tmp_path.iterdir()) == []


def test_an_ablation_of_programs_that_is_only_listed_starts_no_sandbox(
    tmp_path: Path, sandboxes: list[RecordedSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    plan = ablate.prepare("code-rewards")
    assert len(plan.children) >= 5
    assert sandboxes == []


def test_an_opened_run_has_one_sandbox_until_it_is_closed(tmp_path: Path, sandboxes: list[RecordedSandbox]) -> None:
    run = Run.open(code_config(), "open", tmp_path)
    assert [sandbox.is_open for sandbox in sandboxes] == [True]
    run.close()
    assert [sandbox.is_open for sandbox in sandboxes] == [False]


def test_a_run_that_cannot_be_opened_leaves_no_sandbox(tmp_path: Path, sandboxes: list[RecordedSandbox]) -> None:
    with RunStore(tmp_path / "held").lock(), pytest.raises(StoreError):
        Run.open(code_config(), "held", tmp_path)
    assert not any(sandbox.is_open for sandbox in sandboxes)


def test_an_evaluation_has_one_sandbox(
    tmp_path: Path, sandboxes: list[RecordedSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    request = EvaluationRequest(target=code_config().model.path, profile="tiny-code", max_problems=2)
    Evaluation.open(request).run.close()
    assert [sandbox.is_open for sandbox in sandboxes] == [False]
