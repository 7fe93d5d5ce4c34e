"""A run on programs through the real command line: judged, rewarded, continued once, killed, explained."""

import json
import signal
from pathlib import Path

import pandas as pd
import pytest

from ares.history import Rescore
from ares.runs.lineage import fork
from ares.store.store import RunStore
from sandbox import packages
from sandbox.program import ERROR_TYPES
from tests.ares.builders import MODEL
from tests.ares.data.code_rows import written
from tests.sandbox.package_environment import copy_installed
from tests.shared_run import SMALL
from tests.short_runs import ares, assert_same, commits, samples, told

CODE = MODEL.parent / "code"
SETTINGS = [
    *SMALL, "data.limit=64", "train.steps=2", "reward.code.design=dense_weighted", "rollout.second_turn.enabled=true",
    "rollout.second_turn.children=2", "algorithm.aepo.enabled=true", "validation.turns=2",
]  # fmt: skip


def train(runs: Path, name: str, kill_at: str | None = None) -> int:
    ended = ares(runs, "train", "tiny-code", *SETTINGS, "--run", name, kill_at=kill_at)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr[-3000:]
    return ended.returncode


@pytest.fixture(scope="module")
def code_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the finished run `code`."""
    directory = tmp_path_factory.mktemp("code-runs")
    assert train(directory, "code") == 0
    return directory


def test_every_sample_keeps_its_verdict_and_the_parts_of_its_reward(code_runs: Path) -> None:
    rows = samples(code_runs, "code", 2)
    assert set(rows["error_type"]) <= set(ERROR_TYPES)
    ratio = rows["test_outcomes"].map(lambda ends: sum(end == "accepted" for end in ends) / len(ends))
    assert (ratio == rows["pass_ratio"].astype(float)).all()
    parts = rows[["reward_code", "reward_second_turn", "reward_entropy_score"]].astype(float).sum(axis=1)
    assert (parts - rows["reward"].astype(float)).abs().max() < 1e-12
    assert (rows["slot"] >= 1_000_000_000).any()


def test_figures_of_programs_cost_and_second_turns_are_in_the_commit(code_runs: Path) -> None:
    all_found = commits(code_runs, "code")
    found = all_found[2]
    shares = [value for name, value in found.metrics.items() if name.startswith("code/error/")]
    assert sum(shares) == pytest.approx(1.0)
    assert {"code/pass_at_1", "code/pass_ratio", "second_turn/solved", "val/pass_ratio"} <= found.metrics.keys()
    for commit in (all_found[0], found):
        assert 0.0 < commit.metrics["val/accuracy"] <= commit.metrics["val/second_turn/accuracy"] <= 1.0
        first = RunStore(code_runs / "code").read_rows(commit.artifacts["evaluation"])
        assert commit.metrics["val/accuracy"] == first["accuracy"].astype(float).mean()
    assert 0.0 <= found.timings["perf/scoring_wait_share"] < 1.0
    # Twelve problems of six tests were seen in the bootstrap; a step's commit holds those that it drew.
    assert len(all_found[0].state["tests"]["problems"]) >= 12
    assert 0 < len(found.state["tests"]["problems"]) < 12


def test_inspect_shows_every_test_of_a_program_and_how_it_ended(code_runs: Path) -> None:
    row = samples(code_runs, "code", 2).iloc[0]
    shown = told(code_runs, "inspect", "code", "--step", "2", "--id", row["id"], "--sample", str(row["sample"])).stdout
    assert shown.count("assert ") >= len(row["test_outcomes"])
    assert f"reward {row['reward']:+.4f} = reward_code" in shown


def test_a_fork_after_judging_shares_what_the_programs_took(code_runs: Path) -> None:
    fork("code", 1, "score", [], "shared", code_runs)
    of_run, of_fork = (
        {
            kept.refs()[0].path: kept.result["cpu_seconds"]
            for kept in RunStore(code_runs / name).memo(1).of_phases(["score"])
        }
        for name in ("code", "shared")
    )
    assert {path.partition("score-")[2] for path in of_fork} >= {"rollout-0000.parquet", "second-turn-0000.parquet"}
    assert of_fork == {path: seconds for path, seconds in of_run.items() if "validation" not in path}
    assert all(seconds and min(seconds) >= 0 for seconds in of_fork.values())


def test_programs_judged_again_by_an_unchanged_reward_have_the_verdicts_that_they_had(code_runs: Path) -> None:
    with Rescore("code", [], code_runs) as again:
        steps = list(again.steps(0, 2))
    assert [(one.step, one.changed, one.differs) for one in steps] == [(0, 0, False), (1, 0, False), (2, 0, False)]
    assert sum(one.samples for one in steps) > len(samples(code_runs, "code", 2))


@pytest.mark.slow
def test_tests_with_numpy_earn_what_others_do(code_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(packages.VARIABLE, str(tmp_path / "packages"))
    copy_installed(tmp_path / "packages", ("numpy",))
    data = []
    for name in ("train", "heldout"):
        rows = [json.loads(line) for line in (CODE / f"{name}.jsonl").read_text().splitlines()]
        for row in rows:
            row["packages"] = ["numpy"]
            row["test_cases"] = [
                f"import numpy as np\nassert np.asarray({test.removeprefix('assert ')}).all()"
                for test in row["test_cases"]
            ]
        data.append(str(written(tmp_path / f"{name}.jsonl", *rows)))
    settings = [*SETTINGS, "train.steps=1", f"data.train={data[0]}", f"data.validation={data[1]}"]
    ended = ares(code_runs, "train", "tiny-code", *settings, "--run", "with-numpy")
    assert ended.returncode == 0, ended.stderr[-3000:]
    plain, with_numpy = (samples(code_runs, name, 0) for name in ("code", "with-numpy"))
    compared = ["id", "sample", "response", "pass_ratio", "error_type"]
    pd.testing.assert_frame_equal(plain[compared], with_numpy[compared])
    assert set(with_numpy["error_type"]) > {"accepted"}
    assert "numpy" in json.loads((code_runs / "with-numpy" / "run.json").read_text())["digests"]["graded_with"]


@pytest.mark.slow
def test_a_fork_after_judging_resumes_to_the_same_bits_and_seconds(code_runs: Path) -> None:
    made = ares(code_runs, "fork", "code", "--at", "2", "--phase", "score", "--run", "judged")
    assert made.returncode == 0, made.stderr
    resumed = ares(code_runs, "resume", "judged")
    assert resumed.returncode == 0, resumed.stderr[-3000:]
    assert_same(code_runs, "code", "judged")
    of_run, of_fork = (commits(code_runs, name)[2].timings["perf/seconds_per_solved"] for name in ("code", "judged"))
    assert of_run == of_fork


@pytest.mark.slow
def test_killed_while_judging_it_ends_bit_identical(code_runs: Path) -> None:
    for moment in ("1:score:inside", "2:shape:before"):
        assert train(code_runs, "killed", kill_at=moment) == -signal.SIGKILL, f"{moment} never came"
    assert train(code_runs, "killed") == 0
    assert_same(code_runs, "code", "killed")
