"""`ares eval` as a user calls it: a run's own figures again, interruptions, programs in the sandbox."""

import json
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.status import run_status
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
def test_an_interrupted_evaluation_goes_on_and_ends_in_the_same_samples(runs: Path) -> None:
    whole, again = str(runs / "whole"), str(runs / "again")
    expected = evaluated(runs, "uninterrupted", *AS_THE_RUN, "--out", whole)
    arguments = ("eval", "uninterrupted", *AS_THE_RUN, "--out", again)
    assert ares(runs, *arguments, kill_at="4:score:before").returncode == -signal.SIGKILL
    first = runs / "again" / "rollout-validation-0000.parquet"
    kept = first.stat().st_ino
    assert not (runs / "again" / "summary.json").exists()
    assert evaluated(runs, *arguments[1:]) == expected | {"folder": again}
    assert first.stat().st_ino == kept
    for name in ("samples.parquet", "problems.parquet", "summary.json"):
        assert (runs / "again" / name).read_bytes() == (runs / "whole" / name).read_bytes()


@pytest.mark.slow
def test_programs_are_judged_in_the_sandbox(runs: Path, tmp_path: Path) -> None:
    """The arithmetic model writes no programs: every one is a failure, and none is without a score."""
    row = {"id": "a", "prompt": "1+1=?", "test_cases": ["assert f() == 2"]}
    (tmp_path / "p.jsonl").write_text(json.dumps(row) + "\n")
    found = evaluated(
        runs, MODEL, "--profile", "tiny-math", "reward.kind=code", "--data", str(tmp_path / "p.jsonl"), "--n", "2",
        "--json",
    )  # fmt: skip
    assert (found["estimates"]["pass@1"]["value"], found["unscored"]) == (0.0, 0)
    assert sum(found["error_types"].values()) == pytest.approx(1)
    assert "accepted" not in found["error_types"]


@pytest.mark.slow
def test_greedy_answers_are_the_same_twice(runs: Path) -> None:
    first, second = (
        evaluated(runs, MODEL, "--profile", "tiny-math", "--greedy", "--max-problems", "5", "--json", "--out", out)
        for out in (str(runs / "greedy-1"), str(runs / "greedy-2"))
    )
    assert first | {"folder": ""} == second | {"folder": ""}
    assert len(pd.read_parquet(runs / "greedy-1" / "samples.parquet")) == 5
