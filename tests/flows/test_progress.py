"""How the progress of bootstrap, sampling and update is reported and shown."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from ares.reports import terminal
from tests.in_process import run_in_this_process, train_here
from tests.shared_run import SMALL


def test_every_part_reports_its_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_in_this_process(tmp_path, monkeypatch)
    told: dict[str, list[tuple[int, int]]] = {}

    def watch(self: terminal.Parts, part: str, done: int, total: int) -> None:
        told.setdefault(part, []).append((done, total))

    monkeypatch.setattr(terminal.Parts, "__call__", watch)
    train_here("tiny-math", [*SMALL, "train.steps=1", "algorithm.filter.enabled=false"], "run")
    # 12 prompts × 2, in four shards; 4 prompts × 4 in two; 8 problems × 2 in three, before and after the step.
    assert {part: counts[-1] for part, counts in told.items()} == {
        "bootstrap": (24, 24), "experience": (4, 4), "rollout": (16, 16), "validation": (16, 16), "update": (2, 2),
    }  # fmt: skip
    assert told["update"] == [(0, 2), (1, 2), (2, 2)]
    assert told["experience"] == [(done, 4) for done in range(5)]
    for part in ("bootstrap", "rollout"):
        counts = [done for done, _ in told[part]]
        assert counts == sorted(counts)
        assert counts[0] == 0
        assert len(set(counts)) > len(told[part][0:1]) + 1  # in between, too


def printed(monkeypatch: pytest.MonkeyPatch, seconds: float) -> list[str]:
    """Lines about 1,000 responses that come one by one, this many seconds apart, without a terminal."""
    now, out = [0.0], io.StringIO()
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    with terminal.bars(Console(file=out, force_terminal=False, width=100)) as progress:
        parts = terminal.Parts(progress)
        for done in range(1001):
            parts("bootstrap", done, 1000)
            now[0] += seconds
    return out.getvalue().splitlines()


def test_without_a_terminal_a_long_part_is_a_line_now_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(monkeypatch, seconds=0.125) == [
        f"  bootstrap: {done} of 1,000 responses" for done in (240, 480, 720, 960)
    ]
    assert printed(monkeypatch, seconds=0.001) == []


def test_on_a_terminal_a_part_is_a_bar_while_it_runs() -> None:
    with terminal.bars(Console(file=io.StringIO(), force_terminal=True, width=100)) as progress:
        parts = terminal.Parts(progress)
        parts("bootstrap", 3, 1000)
        parts("experience", 0, 4)
        assert [(task.description, task.completed) for task in progress.tasks] == [
            ("  bootstrap", 3),
            ("  experience", 0),
        ]
        parts("bootstrap", 1000, 1000)
        assert [task.description for task in progress.tasks] == ["  experience"]
