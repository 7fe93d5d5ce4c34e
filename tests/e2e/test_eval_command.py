"""`ares eval` of a suite that is killed. Not covered: of a run (tests/flows/test_bisect.py)."""

import json
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from mlflow import MlflowClient

from tests.short_runs import ares

CODE = "examples/tiny/checkpoints/code"


def evaluated(runs: Path, *arguments: str) -> dict[str, Any]:
    ended = ares(runs, "eval", *arguments)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return dict(json.loads(ended.stdout))


SUITE = (str(CODE), "--suite", f"{CODE}/heldout.jsonl", "--max-problems", "24", "--n", "2", "--json",
         "rollout.shard_prompts=2", "rollout.max_response_length=64")  # fmt: skip


@pytest.mark.slow
def test_a_suite_killed_midway_resumes_where_it_was(tmp_path: Path) -> None:
    """What was sampled and graded stays, byte by byte."""
    expected = evaluated(tmp_path / "whole", *SUITE)
    whole = Path(expected.pop("folder"))
    again = tmp_path / "again" / "evals" / whole.name
    killed = ares(tmp_path / "again", "eval", *SUITE, kill_at="0:rollout validation 3:after")
    assert killed.returncode == -signal.SIGKILL
    assert not (again / "summary.json").exists()
    noted = (again / "phases.jsonl").read_text()
    # The newest file may not be recorded yet, and is then written again.
    kept = {path.name: path.stat() for path in again.glob("*-validation-*.parquet") if path.name in noted}
    assert len(kept) >= 3
    assert evaluated(tmp_path / "again", *SUITE) == expected | {"folder": str(again)}
    for name, before in kept.items():
        now = (again / name).stat()
        assert (now.st_ino, now.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    for name in ("samples.parquet", "problems.parquet", "summary.json"):
        assert (again / name).read_bytes() == (whole / name).read_bytes()
    samples = pd.read_parquet(again / "samples.parquet")
    assert (len(samples), samples["id"].nunique()) == (48, 24)
    one, other = (metrics_in(tmp_path / runs) for runs in ("whole", "again"))
    assert one == other
    assert one["eval/pass_at_1"] == expected["estimates"]["pass@1"]["value"]


def metrics_in(runs: Path) -> dict[str, float]:
    """Those of the only entry in MLflow."""
    client = MlflowClient(tracking_uri=f"sqlite:///{runs / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("ares")
    assert experiment is not None
    (entry,) = client.search_runs([experiment.experiment_id])
    return dict(entry.data.metrics)
