"""Short runs of the tiny profiles through the real command line, for end-to-end and resume tests."""

import contextlib
import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from mlflow import MlflowClient

from ares.reports import Tracking
from ares.store import read_config
from ares.store.store import Commit, RunStore
from flows.cli.main import main
from tests import fork_server, mlflow_database, prefect_server
from tests.shared_run import REPOSITORY, SMALL, as_a_user

WITH_A_FLOW = ("train", "resume", "eval", "ablate")


def ares(
    runs: Path | str,
    *arguments: str,
    kill_at: str | None = None,
    whole: bool = False,
    own_server: bool = False,
    seconds: float = 900,
) -> subprocess.CompletedProcess[str]:
    """`ares …` in its own process; `kill_at` names the moment at which it kills itself (killed_cli.py).

    Training is plain unless it needs several processes, or the test asks for the `whole`: Prefect, Ray and MLflow. With
    `own_server` everything is as for a user who runs no server: a fresh interpreter, which starts one.
    """
    needs_ray = any(each.startswith(("learner.ranks=", "rollout.engines=")) for each in arguments)
    if arguments[0] in ("train", "resume") and not (whole or own_server or needs_ray):
        arguments = (*arguments, "--plain")
    python = [sys.executable] if own_server else shlex.split(fork_server.python())
    environment = os.environ | as_a_user(runs) | ({"KILL_AT": kill_at} if kill_at else {})
    if arguments[0] in WITH_A_FLOW and not own_server:
        environment["PREFECT_API_URL"] = prefect_server.url()
        if isinstance(runs, Path):  # and no URL
            mlflow_database.beside(runs)
    # Pipes close when the last process that holds them ends: a survivor of a kill would make this time out.
    return subprocess.run(
        [*python, "-m", "tests.killed_cli", *arguments], cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=seconds,
    )  # fmt: skip


def told(runs: Path | str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`ares …` in this process, for commands that train nothing: a process of its own would load everything again."""
    printed, complained = io.StringIO(), io.StringIO()
    code: int | str | None = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ARES_RUNS", str(runs))
        patch.setattr(sys, "argv", ["ares", *arguments])
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complained):
            try:
                main()
            except SystemExit as ended:
                code = ended.code
    return subprocess.CompletedProcess(["ares", *arguments], int(code or 0), printed.getvalue(), complained.getvalue())


def train(
    runs: Path | str,
    name: str,
    *settings: str,
    kill_at: str | None = None,
    profile: str = "tiny-math",
    whole: bool = False,
    own_server: bool = False,
) -> int:
    """A small `ares train PROFILE --run NAME`; returns how it ended, fails the test on anything but 0 or a kill."""
    arguments = ["train", profile, *SMALL, *settings, "--run", name]
    ended = ares(runs, *arguments, kill_at=kill_at, whole=whole, own_server=own_server)
    if ended.returncode not in (0, -9):
        pytest.fail(f"{ended.stdout[-2000:]}\n{ended.stderr[-4000:]}")
    return ended.returncode


def log(runs: Path, name: str) -> None:
    """Log a plain run to MLflow, as `ares resume` would."""
    mlflow_database.beside(runs)
    store = RunStore(runs / name)
    config = read_config(store)
    Tracking(config.tracking, config, store).finish()


def metric_history(runs: Path, name: str) -> dict[tuple[str, int], list[float]]:
    """Every logged value of the metrics that a resumed run must reproduce, by metric and step."""
    if not is_logged(runs, name):
        log(runs, name)
    client = MlflowClient(tracking_uri=f"sqlite:///{runs / 'mlflow.db'}")
    run_id = json.loads((runs / name / "run.json").read_text())["mlflow_run_id"]
    history: dict[tuple[str, int], list[float]] = {}
    for key in client.get_run(run_id).data.metrics:
        if not key.startswith(("timing_s/", "perf/")):
            for row in client.get_metric_history(run_id, key):
                history.setdefault((key, row.step), []).append(row.value)
    return history


def is_logged(runs: Path, name: str) -> bool:
    """Whether a run has an entry in MLflow: a plain one has none."""
    return json.loads((runs / name / "run.json").read_text())["mlflow_run_id"] is not None


def commits(runs: Path, name: str) -> list[Commit]:
    store = RunStore(runs / name)
    return [store.read_commit(step) for step in store.committed_steps()]


def samples(runs: Path, name: str, step: int) -> pd.DataFrame:
    """The readable table of a step's samples."""
    store = RunStore(runs / name)
    return store.read_rows(store.read_commit(step).artifacts["samples"])


def assert_same_commits(runs: Path, one: str, other: str, elsewhere: Path | None = None) -> None:
    """Two runs ended bit-identical; `elsewhere`: where the other one lies, if not beside the first."""
    for expected, actual in zip(commits(runs, one), commits(elsewhere or runs, other), strict=True):
        assert actual.state == expected.state
        assert actual.metrics == expected.metrics
        assert actual.artifacts == expected.artifacts  # the checkpoints' hashes are among them
        assert actual.digest() == expected.digest()


def assert_same(runs: Path, one: str, other: str, elsewhere: Path | None = None) -> None:
    """Two runs ended bit-identical, and so did their histories if MLflow has them."""
    assert_same_commits(runs, one, other, elsewhere)
    if not (is_logged(runs, one) and is_logged(elsewhere or runs, other)):
        return
    expected_history, found_history = metric_history(runs, one), metric_history(elsewhere or runs, other)
    assert all(len(values) == 1 for values in found_history.values())  # a replay adds no row
    assert found_history == expected_history
