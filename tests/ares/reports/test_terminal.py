"""What a running run prints. Not covered: bars, which need a terminal."""

from types import SimpleNamespace
from typing import Any

import pytest

from ares.reports import Display, step_line
from tests.ares.builders import config
from tests.ares.store_builders import commit


def new_run(setting: str, held_out: list[int] | None = None) -> Any:
    """What a display asks of a run before its first step."""
    return SimpleNamespace(
        store=SimpleNamespace(name="first"), progress=SimpleNamespace(watch=None), commit=None,
        state=SimpleNamespace(step=0, evaluations=[]), config=config(setting), train_set=[1], validation_set=held_out,
        adapted=None,
    )  # fmt: skip


def test_a_path_that_looks_like_markup_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with Display(new_run('model.path="models/[/x]"')) as display:
        display.summary()
    assert "first  models/[/x]  1 problems, none held out" in capsys.readouterr().out


def test_without_held_out_problems_none_are_answered_before_supervised_training(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for held_out in (None, [1]):
        with Display(new_run("algorithm=sft", held_out)):
            assert ("bootstrap: held-out problems" in capsys.readouterr().out) == bool(held_out)


@pytest.mark.parametrize("step", [0, 1])
def test_a_metric_that_was_left_out_of_a_commit_is_shown_as_nan(step: int) -> None:
    """One that was not finite is left out of the commit: its line ended the run."""
    metrics = {"bootstrap/accuracy": 0.25, "reward/sampled_accuracy": 0.25}
    committed = commit(step, None, metrics=metrics, timings={"timing_s/step": 1.0})
    run: Any = SimpleNamespace(commit=committed, config=config())
    line = step_line(run)
    assert "acc 0.250" in line
    assert {0: "τ nan", 1: "H nan"}[step] in line
    assert ("α nan/nan/nan" in line) == (step == 1)
    run.config = config("algorithm.aepo.enabled=false")
    assert "α" not in step_line(run)
