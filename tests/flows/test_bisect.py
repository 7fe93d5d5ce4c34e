"""Steps of a run measured again by the noise of its own evaluations, and its groups left out of an update."""

import asyncio
import re
import shutil
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from ares.config import ConfigError
from ares.evaluation import EvaluationRequest
from ares.store import RunStore, StoreError
from flows.bisect import KEPT, Bisection
from tests.short_runs import told


@pytest.fixture(scope="module")
def copied(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bisected")
    shutil.copytree(runs / "uninterrupted", folder / "uninterrupted", ignore=shutil.ignore_patterns("evals"))
    return folder


@pytest.fixture(autouse=True)
def here(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARES_RUNS", str(copied))


@pytest.fixture
def on_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are measured on 12 of the 160 held-out problems: the 8 of the run's own evaluation and 4 more."""
    monkeypatch.setattr("flows.bisect.EvaluationRequest", partial(EvaluationRequest, max_problems=12))


async def measured_at(search: Bisection, *steps: int) -> dict[int, "pd.Series[float]"]:
    return {step: await search.measure(step, 2) for step in steps}


def test_a_step_has_the_accuracies_of_the_runs_own_evaluation_and_is_measured_once(copied: Path, on_few: None) -> None:
    store = RunStore(copied / "uninterrupted")
    commits = {step: store.read_commit(step) for step in (0, 2, 4)}
    times: list[list[int]] = []
    for _ in range(2):  # the second time from what is kept
        with Bisection("uninterrupted", "val/accuracy", 0, 4, 2, copied) as search:
            for step, measured in asyncio.run(measured_at(search, 0, 4, 2)).items():  # after 4 it goes back
                own = store.read_rows(commits[step].artifacts["evaluation"]).groupby("id")["accuracy"].mean()
                assert measured[own.index].tolist() == own.astype(float).tolist()
            assert re.match(r"evaluates about 4 steps, .* each, and at most replays \d+ updates, about", search.cost())
        assert not (copied / "uninterrupted" / KEPT).exists()
        times.append(sorted(path.stat().st_mtime_ns for path in (store.directory / "evals").rglob("summary.json")))
    assert len(times[0]) == 3
    assert times[0] == times[1]


def test_each_group_of_a_step_is_left_out_of_its_update(copied: Path, on_few: None) -> None:
    with Bisection("uninterrupted", "val/accuracy", 0, 4, 2, copied) as search:
        asyncio.run(measured_at(search, 2))
        before = set((copied / "uninterrupted").rglob("*"))
        groups = list(search.groups(3, 2))
    assert set((copied / "uninterrupted").rglob("*")) <= before
    table = pd.read_parquet(copied / "uninterrupted" / "steps" / "000003" / "samples.parquet")
    assert [group.slot for group in groups] == sorted(table["slot"].unique())
    assert all(len(group.samples) == 4 for group in groups)
    assert len({group.effect.mean for group in groups}) == len(groups)
    assert {group.effect.count for group in groups} == {12}  # those that are always or never solved are counted too
    assert "makes the update of step 3 4 times" in search.cost_of_groups(3)


@pytest.mark.parametrize(
    ("metric", "drop", "error", "said"),
    [
        ("val/response_length", (0, 4), ConfigError, "val/accuracy can be measured again"),
        ("val/accuracy", (0, 9), StoreError, "has the steps 0 to 4"),
        ("val/accuracy", (3, 1), StoreError, "--drop 3:1: an earlier and a later step of"),
    ],
)
def test_what_cannot_be_searched_is_said(
    metric: str, drop: tuple[int, int], error: type[Exception], said: str, copied: Path
) -> None:
    with pytest.raises(error, match=said):
        Bisection("uninterrupted", metric, *drop, 2, copied)


def test_after_gc_it_says_what_is_gone_and_what_is_kept(copied: Path, tmp_path: Path) -> None:
    shutil.copytree(copied / "uninterrupted", tmp_path / "uninterrupted")
    (tmp_path / "uninterrupted" / "steps" / "000001" / "batch.safetensors").unlink()
    said = told(tmp_path, "bisect", "uninterrupted", "--drop", "2:4")
    assert said.returncode == 2
    assert "the weights after step 2 cannot be rebuilt, since the batch of step 1 is gone" in said.stderr
    assert "Weights are kept after steps 3, 4" in said.stderr


@pytest.mark.slow
def test_the_command_says_what_it_costs_and_that_nothing_fell_clearly(copied: Path) -> None:
    said = told(copied, "bisect", "uninterrupted", "--drop", "2:4", "--n", "2")
    assert said.returncode == 0, said.stderr
    assert "evaluates about 3 steps, 160 problems × 2 samples each" in said.stdout
    assert "step 4: 0." in said.stdout
    assert re.search(
        r"\nstep 4: 0\.\d+, 2 samples; against step 2 [+-]0\.\d+ \([+-]\S+ to [+-]\S+\): not clear", said.stdout
    )
