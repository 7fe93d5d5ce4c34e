"""What surrounds the loop of a plain run. Not covered: the loop; runs with Prefect, Ray and MLflow (tests/e2e)."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ares.runs import Run
from ares.store import RunStore
from flows import start
from tests.ares.builders import config
from tests.ares.store_builders import chain


def test_a_plain_run_is_logged_wherever_it_says_but_in_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tracking.kind=jsonl nothing was written."""
    run: Any = SimpleNamespace(config=config("tracking.kind=[mlflow, jsonl]"), store=RunStore(tmp_path / "run"),
                               restore=lambda: None, close=lambda: None)  # fmt: skip

    @contextmanager
    def display(run: Run) -> Iterator[Any]:
        yield SimpleNamespace(committed=lambda: None, summary=dict)

    async def train(run: Run, conductor: object, committed: Callable[[], None]) -> None:
        chain(run.store, 2)
        committed()

    monkeypatch.setattr(start, "Display", display)
    monkeypatch.setattr(start, "train", train)
    start.train_plainly(run)
    lines = (run.store.directory / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0, 1]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
