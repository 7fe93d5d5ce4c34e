"""What a running run prints. Not covered: bars, which need a terminal."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ares.reports import Display
from tests.ares.builders import config


def test_a_path_that_looks_like_markup_is_shown_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "[/x]"
    run: Any = SimpleNamespace(
        store=SimpleNamespace(name="first", directory=directory), progress=SimpleNamespace(watch=None), commit=None,
        state=SimpleNamespace(step=0, evaluations=[]), config=config('model.path="models/[/x]"'), train_set=[1],
        validation_set=None, adapted=None,
    )  # fmt: skip
    with Display(run) as display:
        display.summary()
    told = capsys.readouterr().out
    assert "first  models/[/x]  1 problems, none held out" in told
    assert f"plot: {directory / 'progress.png'}" in told
