"""Every advantage estimator with every KL estimator and controller finishes a run of three steps."""

from pathlib import Path

import pytest

from ares.store.store import RunStore
from tests.short_runs import train

ESTIMATORS = ["grpo", "rloo", "reinforce_plus_plus", "remax", "gae"]
PENALTIES = ["kl", "abs", "mse", "low_var_kl", "full"]
CONTROLLERS = [("reward", "fixed"), ("reward", "adaptive"), ("reward", "token_adaptive"), ("loss", "fixed"),
               ("loss", "adaptive"), ("loss", "bucket_beta"), ("none", "fixed")]  # fmt: skip
THREE = ["train.steps=3", "validation.every=3"]


def finishes(runs: Path, name: str, *settings: str) -> RunStore:
    assert train(runs, name, *THREE, *settings) == 0
    store = RunStore(runs / name)
    assert store.committed_steps() == [0, 1, 2, 3]
    return store


@pytest.mark.slow
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_each_estimator_with_each_kl(runs: Path, estimator: str, penalty: str) -> None:
    place = "reward" if penalty == "kl" else "loss"  # in the loss k1 is refused
    settings = [
        f"algorithm.advantage.estimator={estimator}",
        f"algorithm.kl={{penalty: {penalty}, placement: {place}}}",
    ]
    commit = finishes(runs, f"{estimator}-{penalty}", *settings).read_commit(3)
    assert commit.metrics["actor/skipped_updates"] == 0
    assert commit.metrics["critic/kl"] != 0.0


@pytest.mark.slow
@pytest.mark.parametrize(("placement", "kind"), CONTROLLERS)
def test_each_controller_where_it_may_act(runs: Path, placement: str, kind: str) -> None:
    name = f"{placement}-{kind}"
    settings = [f"algorithm.kl.placement={placement}", f"algorithm.kl.kind={kind}", "algorithm.kl.beta_interval=1"]
    store = finishes(runs, name, *settings)
    before, after = store.read_commit(1), store.read_commit(3)
    if kind == "bucket_beta":
        assert after.state["beta"]["betas"] != before.state["beta"]["betas"]
    elif kind != "fixed":
        assert after.state["kl"] != before.state["kl"]
