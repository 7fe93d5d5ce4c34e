"""An update made again has the run's own figures; other settings move the weights another way, and nothing is kept."""

import shutil
from pathlib import Path

import pytest

from ares.config import ConfigError
from ares.history import replay
from ares.store import RunStore, StoreError
from tests.short_runs import told


def files_of(runs: Path) -> set[Path]:
    return set((runs / "uninterrupted").rglob("*"))


def test_the_runs_own_settings_give_the_runs_own_figures(runs: Path) -> None:
    before = files_of(runs)
    for step in (1, 4):  # from the first weights; from the checkpoint of step 3
        (update,) = replay("uninterrupted", step, [], runs)
        kept = RunStore(runs / "uninterrupted").read_commit(step).metrics
        assert update.metrics == {name: kept[name] for name in update.metrics}
        assert update.cosine == pytest.approx(1.0)
        assert update.raised > update.lowered
    assert files_of(runs) == before


def test_a_higher_rate_goes_further_the_same_way_and_another_estimator_another_one(runs: Path) -> None:
    own, faster = replay("uninterrupted", 2, ["learner.lr=8e-4"], runs)
    assert faster.moved > 1.5 * own.moved
    assert faster.cosine > 0.9
    _, other = replay("uninterrupted", 2, ["algorithm.advantage.estimator=rloo", "algorithm.kl.placement=none"], runs)
    assert 0 < other.cosine < 1
    assert "actor/kl_loss" not in other.metrics or other.metrics["actor/kl_loss"] == 0.0


@pytest.mark.parametrize(
    ("step", "overrides", "error", "said"),
    [
        (2, ["reward.kind=math"], ConfigError, r"reward\.kind=math: an update is replayed with settings of algorithm"),
        (2, ["algorithm.kl.kind=fixed"], ConfigError, "a controller of these settings has no state in this run"),
        (2, ["algorithm.kl.penalty=full"], ConfigError, r"algorithm\.kl\.penalty: what that takes was not measured"),
        (0, [], StoreError, "no committed step 0 with an update"),
        (9, [], StoreError, "no committed step 9 with an update"),
    ],
)
def test_what_cannot_be_replayed_is_said(
    runs: Path, step: int, overrides: list[str], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        replay("uninterrupted", step, overrides, runs)


def test_the_command_shows_both_side_by_side(runs: Path) -> None:
    shown = told(runs, "replay", "uninterrupted", "--step", "2", "learner.lr=8e-4")
    assert shown.returncode == 0, shown.stderr
    (line,) = [line.split() for line in shown.stdout.splitlines() if "actor/lr" in line]
    own, faster = (float(cell) for cell in line[-2:])
    assert faster == pytest.approx(2 * own)  # both in warm-up


def test_a_step_that_a_fork_shares_is_replayed_and_judged_in_its_parent(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "uninterrupted", tmp_path / "uninterrupted")
    assert told(tmp_path, "fork", "uninterrupted", "--at", "2", "learner.lr=1e-3", "--run", "faster").returncode == 0
    with pytest.raises(StoreError, match="step 2 is of 'uninterrupted', from which 'faster' was forked"):
        replay("faster", 2, [], tmp_path)
    judged = told(tmp_path, "rescore", "faster")
    assert "steps 0 to 2 are of uninterrupted" in judged.stdout
