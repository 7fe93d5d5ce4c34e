"""`ares eval` as a user calls it: a run's own figures again, interruptions, programs in the sandbox."""

import json
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.runs.status import run_status
from tests.short_runs import ares

MODEL = "ares/tiny/checkpoints/math"
AS_THE_RUN = ("--n", "2", "--max-problems", "8", "--k", "1,2", "--json")


def evaluated(runs: Path, *arguments: str) -> dict[str, Any]:
    ended = ares(runs, "eval", *arguments)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return dict(json.loads(ended.stdout))


def test_weights_between_checkpoints_give_the_runs_own_evaluation(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Step 2 has no checkpoint: its weights are replayed. The held-out draws are the run's own."""
    monkeypatch.setenv("ARES_RUNS", str(runs))
    (own,) = [each for each in run_status("uninterrupted")["evaluations"] if each["step"] == 2]
    found = evaluated(runs, "uninterrupted", "--step", "2", *AS_THE_RUN)
    assert found["estimates"]["accuracy"]["value"] == pytest.approx(own["accuracy"], abs=1e-12)
    assert found["estimates"]["pass@1"]["value"] == pytest.approx(own["accuracy"], abs=1e-12)
    assert found["estimates"]["pass@2"]["value"] >= own["accuracy"]
    assert found["mean_length"] == pytest.approx(own["mean_length"])
    folder = Path(found["folder"])
    samples, problems = pd.read_parquet(folder / "samples.parquet"), pd.read_parquet(folder / "problems.parquet")
    assert len(samples) == 16
    assert samples.groupby("id", sort=False)["accuracy"].sum().tolist() == problems["correct"].tolist()
    assert json.loads((folder / "summary.json").read_text()).items() <= found.items()


@pytest.mark.slow
def test_an_interrupted_evaluation_goes_on_and_ends_in_the_same_samples(tmp_path: Path) -> None:
    few = (MODEL, "--profile", "tiny-math", "rollout.shard_prompts=3", "--n", "2", "--max-problems", "7", "--json")
    whole, again = tmp_path / "whole", tmp_path / "again"
    expected = evaluated(tmp_path, *few, "--out", str(whole))
    killed = ares(tmp_path, "eval", *few, "--out", str(again), kill_at="0:score:before")
    assert killed.returncode == -signal.SIGKILL
    first = again / "rollout-validation-0000.parquet"
    kept = first.stat().st_ino
    assert not (again / "summary.json").exists()
    assert evaluated(tmp_path, *few, "--out", str(again)) == expected | {"folder": str(again)}
    assert first.stat().st_ino == kept
    for name in ("samples.parquet", "problems.parquet", "summary.json"):
        assert (again / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.slow
def test_programs_are_judged_in_the_sandbox(tmp_path: Path) -> None:
    model = "ares/tiny/checkpoints/code"
    found = evaluated(tmp_path, model, "--profile", "tiny-code", "--n", "4", "--max-problems", "10", "--json")
    assert 0 < found["estimates"]["pass@1"]["value"] < found["estimates"]["pass@4"]["value"] < 1
    assert found["estimates"]["pass_ratio"]["value"] > found["estimates"]["pass@1"]["value"]
    assert found["error_types"]["accepted"] == pytest.approx(found["estimates"]["pass@1"]["value"])
    assert (sum(found["error_types"].values()), found["unscored"]) == (pytest.approx(1), 0)
