"""A run that was killed and started again ends in the bits of the run that was not."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mlflow import MlflowClient

from ares.store import Commit, RunStore

REPOSITORY = Path(__file__).resolve().parents[2]
SMALL = [
    "train.steps=4", "train.checkpoint_every=3", "rollout.prompts=4", "rollout.shard_prompts=3", "rollout.n=4",
    "learner.global_batch_prompts=2", "bootstrap.max_prompts=12", "bootstrap.n=2", "validation.max_prompts=8",
    "validation.n=2", "validation.every=2",
]  # fmt: skip
QUICK = ["1:rollout:inside", "2:update:inside", "3:shape:after", "4:commit:before"]
THOROUGH = [
    f"{step}:{phase}:{moment}"
    for step, phase in [(0, "rollout"), (0, "experience"), (0, "bootstrap"), (1, "score"), (1, "experience"),
                        (2, "evaluate"), (3, "update"), (3, "checkpoint"), (4, "update"), (4, "commit")]
    for moment in ("before", "inside", "after")
    if phase != "commit" or moment == "before"
]  # fmt: skip


def train(runs: Path, name: str, kill_at: str | None = None) -> int:
    """`ares train` in its own process; returns how it ended."""
    environment = os.environ | {"ARES_RUNS": str(runs)} | ({"KILL_AT": kill_at} if kill_at else {})
    command = [sys.executable, "tests/resume/killed_cli.py", "train", "tiny-math", *SMALL, "--run", name]
    # Pipes end when the last process that holds them ends: a survivor of the kill would make this time out.
    ended = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=240)
    if ended.returncode not in (0, -signal.SIGKILL):
        pytest.fail(f"{ended.stdout[-2000:]}\n{ended.stderr[-4000:]}")
    return ended.returncode


def commits(runs: Path, name: str) -> list[Commit]:
    store = RunStore(runs / name)
    return [store.read_commit(step) for step in store.committed_steps()]


def metric_history(runs: Path, name: str) -> dict[tuple[str, int], list[float]]:
    """Every logged value of the figures that a resumed run must reproduce, by metric and step."""
    client = MlflowClient(tracking_uri=f"sqlite:///{runs / 'mlflow.db'}")
    run_id = json.loads((runs / name / "run.json").read_text())["mlflow_run_id"]
    history: dict[tuple[str, int], list[float]] = {}
    for key in client.get_run(run_id).data.metrics:
        if not key.startswith(("timing_s/", "perf/")):
            for row in client.get_metric_history(run_id, key):
                history.setdefault((key, row.step), []).append(row.value)
    return history


def assert_same(runs: Path, one: str, other: str) -> None:
    for expected, found in zip(commits(runs, one), commits(runs, other), strict=True):
        assert found.state == expected.state
        assert found.metrics == expected.metrics
        assert found.artifacts == expected.artifacts  # the checkpoints' hashes are among them
        assert found.digest() == expected.digest()
    expected_history, found_history = metric_history(runs, one), metric_history(runs, other)
    assert all(len(values) == 1 for values in found_history.values())  # a replay adds no row
    assert found_history == expected_history


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of runs with one that nobody interrupted."""
    directory = tmp_path_factory.mktemp("runs")
    assert train(directory, "uninterrupted") == 0
    return directory


def test_killed_again_and_again_ends_in_the_same_bits(runs: Path) -> None:
    for moment in QUICK:
        assert train(runs, "killed", moment) == -signal.SIGKILL, f"{moment} never came"
    assert train(runs, "killed") == 0
    assert_same(runs, "uninterrupted", "killed")


@pytest.mark.slow
@pytest.mark.parametrize("moment", THOROUGH)
def test_killed_at_any_phase_ends_in_the_same_bits(runs: Path, moment: str) -> None:
    name = moment.replace(":", "-")
    assert train(runs, name, moment) == -signal.SIGKILL
    assert train(runs, name) == 0
    assert_same(runs, "uninterrupted", name)
