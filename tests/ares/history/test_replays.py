"""An update made again has the run's own figures; other settings move the weights another way, and nothing is kept."""

import re
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest
from safetensors.torch import load_file, save_file

from ares.config import ConfigError
from ares.history import Replayed, Update, open_past, replay
from ares.history.replays import _held_out
from ares.step import FEW_STEPS_SLOT
from ares.store import RunStore, StoreError, read_drawn
from tests.short_runs import told


def made_again(runs: Path, step: int, *overrides: str, name: str = "uninterrupted") -> list[Update]:
    with replay(name, step, list(overrides), runs) as again:
        return again.updates()


@pytest.fixture(scope="module")
def of_first(runs: Path) -> tuple[Replayed, Update, Update]:
    """Step 1 with the run's own settings and with twice its rate; the run is as it was."""
    before = set((runs / "uninterrupted").rglob("*"))
    with replay("uninterrupted", 1, ["learner.lr=8e-4"], runs) as again:
        own, faster = again.updates()
    assert set((runs / "uninterrupted").rglob("*")) == before
    return again, own, faster


def has_the_figures_of(update: Update, store: RunStore, step: int) -> None:
    kept = store.read_commit(step).metrics
    assert update.metrics == {name: kept[name] for name in update.metrics}
    assert update.cosine == pytest.approx(1.0)


def test_the_runs_own_settings_give_the_runs_own_figures(runs: Path, of_first: tuple[Replayed, Update, Update]) -> None:
    update = of_first[1]
    has_the_figures_of(update, RunStore(runs / "uninterrupted"), 1)
    assert update.raised > update.lowered
    norms = [each["actor/grad_norm"] for each in update.steps]
    assert len(norms) == 2
    assert min(norms) < update.metrics["actor/grad_norm"] < max(norms)


def test_a_higher_rate_goes_further_the_same_way(of_first: tuple[Replayed, Update, Update]) -> None:
    again, own, faster = of_first
    assert faster.moved > 1.5 * own.moved
    assert faster.cosine > 0.9
    assert len(own.losses) == len(again.table) == 16
    assert own.losses != faster.losses
    moved = [abs(each.held_out_right or 0) + abs(each.held_out_wrong or 0) for each in (own, faster)]
    assert 0 < moved[0] < moved[1]


@pytest.mark.parametrize("setting", ["algorithm.kl.reference_sync=2", "learner.ema=0.9"])
def test_the_first_step_can_keep_what_the_run_did_not(runs: Path, setting: str) -> None:
    own, other = made_again(runs, 1, setting)
    assert own.moved == other.moved


def test_held_out_answers_are_those_of_the_policy_with_all_of_its_passes(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_past("uninterrupted", runs)
    for step in range(3):
        run.advance(run.store.read_commit(step))
    rows, scores = read_drawn(run.store, 2, held_out=True)
    few = rows.assign(slot=rows["slot"] + FEW_STEPS_SLOT)
    drawn = pd.concat([rows, few, rows], ignore_index=True), pd.concat([scores] * 3, ignore_index=True)
    monkeypatch.setattr(sys.modules["ares.history.replays"], "read_drawn", lambda store, step, held_out: drawn)
    held_out = _held_out(run, 3)
    assert held_out is not None
    assert len(held_out[0]) == len(held_out[1]) == len(rows)


def test_another_estimator_and_loss_go_another_way(runs: Path) -> None:
    loss = ["algorithm.policy.loss=kl_cov", "algorithm.policy.settings.share=0.5"]
    own, other = made_again(runs, 1, "algorithm.advantage.estimator=rloo", "algorithm.kl.placement=none", *loss)
    assert len(other.losses) == len(own.losses)
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
        made_again(runs, step, *overrides)


def test_the_first_number_that_is_not_finite_is_named_with_its_sample_and_token(runs: Path) -> None:
    with replay("uninterrupted", 1, [], runs) as again:
        assert again.find_not_finite() is None
        batch = again.batches[-1][1]
        batch.tensor("advantages")[3, 2] = float("inf")
        names = batch.non_tensor_batch
        place = f"{names['global_id'][3]}, sample {names['sample'][3]}, token 2 \\('.+'\\)"
        assert re.fullmatch(f"advantages of {place}, as the batch has it", str(again.find_not_finite()))
        batch.tensor("advantages")[3, 2] = 0.0
        weights = again.start / "policy.safetensors"
        tensors = load_file(weights)
        tensors["model.norm.weight"][0] = float("nan")
        save_file(tensors, weights)
        found = str(again.find_not_finite())
    assert found.startswith(f"log-prob of {names['global_id'][0]}, sample {names['sample'][0]}, token 0 (")
    assert found.endswith(", before the update")


def test_the_command_shows_both_side_by_side(runs: Path) -> None:
    shown = told(runs, "replay", "uninterrupted", "--step", "2", "learner.lr= 8e-4")
    assert shown.returncode == 0, shown.stderr
    fork = "ares fork uninterrupted --at 2 --phase rollout 'learner.lr= 8e-4' --run"
    assert f"next: {fork} uninterrupted-again" in shown.stdout
    (line,) = [line.split() for line in shown.stdout.splitlines() if "actor/lr" in line]
    own, faster = (float(cell) for cell in line[-2:])
    assert faster == pytest.approx(2 * own)  # both in warm-up
    assert "log-prob of right held-out answers" in shown.stdout
    assert "the highest losses after it" in shown.stdout
    assert "replays 3 updates, about " in shown.stdout  # that of step 1, and two of step 2
    assert [line.split()[0] for line in shown.stdout.splitlines() if "grad_norm" in line] == [
        "actor/grad_norm",
        "1",
        "2",
    ]
    debugged = told(runs, "replay", "uninterrupted", "--step", "1", "--debug")
    assert debugged.stdout.splitlines()[1:] == ["every number of this update is finite"]


def test_what_gc_has_deleted_is_said_with_the_weights_that_are_left(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "uninterrupted", tmp_path / "uninterrupted")
    (tmp_path / "uninterrupted" / "steps" / "000001" / "batch.safetensors").unlink()
    with pytest.raises(StoreError, match=r"the batch of step 1 is gone or damaged\. Weights are kept after steps 3, 4"):
        made_again(tmp_path, 3)
    has_the_figures_of(made_again(tmp_path, 4)[0], RunStore(runs / "uninterrupted"), 4)


def test_a_step_that_a_fork_shares_is_replayed_and_judged_in_its_parent(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "uninterrupted", tmp_path / "uninterrupted")
    assert told(tmp_path, "fork", "uninterrupted", "--at", "2", "learner.lr=1e-3", "--run", "faster").returncode == 0
    with pytest.raises(StoreError, match="step 2 is of 'uninterrupted', from which 'faster' was forked"):
        made_again(tmp_path, 2, name="faster")
    judged = told(tmp_path, "rescore", "faster")
    assert "steps 0 to 2 are of uninterrupted" in judged.stdout
