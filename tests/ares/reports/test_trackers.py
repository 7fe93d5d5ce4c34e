"""JSON lines, TensorBoard, W&B and Trackio: every committed step once, also after a resume; how trackers learn that a
run has ended. Not covered: MLflow (test_mlflow.py)."""

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ares.config import TRACKERS, TrackingConfig
from ares.errors import UserError
from ares.reports import Reporting, reporting, trackers
from ares.store import RunStore
from tests.ares.builders import config
from tests.ares.store_builders import chain, commit

Told = list[tuple[int, float, float]]


def store_of(folder: Path, commits: int) -> RunStore:
    """A run directory with so many committed steps."""
    store = RunStore(folder / "mine")
    chain(store, commits, lambda step: {"metrics": {"m": step / 4}, "timestamp": 1000 * step})
    return store


def in_json_lines(folder: Path) -> Told:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert {line["t"] for line in lines} == {1.0}  # timings, too
    return [(line["step"], line["m"], line["timestamp"] / 1000) for line in lines]


def in_tensorboard(folder: Path) -> Told:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = reader.EventAccumulator(str(folder / "tensorboard")).Reload().Scalars("m")
    return [(event.step, event.value, event.wall_time) for event in events]


MEASURED = {"jsonl": in_json_lines, "tensorboard": in_tensorboard}
"""By tracker, what it holds of the metric m: step, value, seconds."""


def tracker(kind: str, folder: Path, commits: int) -> Any:
    return TRACKERS.make(TrackingConfig(kind=kind), config(), store_of(folder, commits))


def resumed(kind: str, folder: Path) -> Any:
    """The tracker of a run that was killed after two steps, and again after the third."""
    for commits in (2, 3):
        again = tracker(kind, folder, commits)
        again.catch_up()
        again.interrupt("KILLED")
    return again


@pytest.mark.parametrize("kind", MEASURED)
def test_every_step_is_there_once_after_a_resume_and_with_what_the_run_has_redone(kind: str, tmp_path: Path) -> None:
    """Steps that were redone were left out, since steps of their numbers were logged."""
    if kind == "tensorboard":
        pytest.importorskip("tensorboard")
    again = resumed(kind, tmp_path)
    assert MEASURED[kind](tmp_path / "mine") == [(0, 0.0, 0.0), (1, 0.25, 1.0), (2, 0.5, 2.0)]
    again.store.write_commit(commit(1, again.store.read_commit(0), metrics={"m": 0.75}, timestamp=3000))
    again.finish()
    assert MEASURED[kind](tmp_path / "mine") == [(0, 0.0, 0.0), (1, 0.75, 3.0)]


def test_wandb_is_given_every_step_once_after_a_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    logged: list[int] = []
    log = wandb.sdk.wandb_run.Run.log
    monkeypatch.setattr(
        wandb.sdk.wandb_run.Run,
        "log",
        lambda run, data, step, commit: (logged.append(step), log(run, data, step, commit))[1],
    )
    ids = set()
    for commits in (2, 3):
        again = tracker("wandb", tmp_path, commits)
        again.catch_up()
        ids.add(again.run.id)
        again.finish()
    assert logged == [0, 1, 2]
    assert len(ids) == 1
    assert len(list(tmp_path.glob("mine/wandb/offline-run-*/*.wandb"))) == 2


class WandbInMemory:
    """What W&B does with rows: one waits for the next unless it is committed, and a kill loses what is not written."""

    Error = RuntimeError

    def __init__(self, offline: bool) -> None:
        self.offline, self.starting_step = offline, 0
        self.waiting: int | None = None
        self.written: list[int] = []

    def init(self, **settings: Any) -> "WandbInMemory":
        """A run's object; of one that is resumed online it knows the next step."""
        self.waiting, self.starting_step = None, 0 if self.offline else max(self.written, default=-1) + 1
        return self

    def log(self, numbers: dict[str, float], step: int, commit: bool | None = None) -> None:
        rows = [each for each in (self.waiting, step) if each is not None]
        self.waiting = None if commit else step
        self.written += rows if commit else rows[:-1]

    def lose(self, count: int) -> None:
        """Be killed before the last rows are written."""
        self.written = self.written[: len(self.written) - count]

    def finish(self, exit_code: int) -> None:
        self.written += [] if self.waiting is None else [self.waiting]


@pytest.mark.parametrize(
    ("offline", "seconds", "lost", "written"),
    [
        (True, 0.0, 0, [0, 1, 2]),
        (True, 30.0, 1, [0, 0, 1, 2]),  # too young to be sure: all come again
        (False, 30.0, 1, [0, 1, 2]),  # W&B says itself that it has one
        (False, 30.0, 0, [0, 1, 2]),
    ],
)
def test_rows_that_wandb_lost_in_a_kill_are_given_again(
    offline: bool, seconds: float, lost: int, written: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note said that they were there, though W&B had not written them."""
    monkeypatch.setattr(trackers, "WRITTEN_SECONDS", seconds)
    wandb = WandbInMemory(offline)
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    killed = tracker("wandb", tmp_path, 2)
    killed.catch_up()
    assert wandb.written == [0, 1]  # the newest, too
    killed.catch_up()
    wandb.lose(lost)
    tracker("wandb", tmp_path, 3).finish()
    assert wandb.written == written
    tracker("wandb", tmp_path, 3).finish()
    assert wandb.written == written


def test_trackio_has_every_step_once_after_a_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio")
    from trackio.sqlite_storage import SQLiteStorage

    experiment = TrackingConfig().experiment
    again = resumed("trackio", tmp_path)
    logged = SQLiteStorage.get_logs(experiment, "mine")
    assert [(line["step"], line["m"]) for line in logged] == [(0, 0.0), (1, 0.25), (2, 0.5)]
    other = tracker("trackio", tmp_path, 1)
    monkeypatch.setattr(trackers, "_identify", lambda store: "another run of this name")
    other.finish()
    assert len(list(again.trackio.Api().runs(experiment))) == 2


def reporting_of(tracking: TrackingConfig, store: RunStore | None) -> Reporting:
    """The thread of a run with these settings."""
    return Reporting(SimpleNamespace(config=SimpleNamespace(tracking=tracking), store=store))  # type: ignore[arg-type]


def test_a_package_that_is_absent_is_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match=r"tracking\.kind needs the package wandb"):
        reporting_of(TrackingConfig(kind="wandb"), store_of(tmp_path, 0))


def test_several_trackers_are_told_of_the_same_commits(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from ares.reports import Tracker\nclass Count(Tracker):\n"
        "    def catch_up(self): ...\n"
        "    def finish(self): (self.store.directory / 'count').write_text(str(len(self.store.committed_steps())))\n"
    )
    with reporting_of(TrackingConfig(kind=("jsonl", f"{mine}:Count")), store_of(tmp_path, 3)):
        pass
    assert len((tmp_path / "mine/metrics.jsonl").read_text().splitlines()) == 3
    assert (tmp_path / "mine/count").read_text() == "3"


@pytest.mark.parametrize(
    ("error", "told"),
    [(None, ["finished"]), (RuntimeError("the judge is down"), ["FAILED"]), (KeyboardInterrupt(), ["KILLED"])],
)
def test_the_tracker_is_told_how_a_run_ended(
    error: BaseException | None, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that failed or was stopped stayed RUNNING in MLflow."""
    heard: list[str] = []
    tracker = SimpleNamespace(
        catch_up=lambda: heard.append("catch up"), finish=lambda: heard.append("finished"), interrupt=heard.append
    )
    monkeypatch.setattr(reporting, "TRACKERS", SimpleNamespace(make=lambda *_: tracker))
    with nullcontext() if error is None else pytest.raises(type(error)), reporting_of(TrackingConfig(), None):
        if error is not None:
            raise error
    assert heard == told
