"""Learner ranks and engines in numbers, through the command line: the run is the one rank's but for rounding."""

from pathlib import Path

import pytest

from ares.store import RunStore
from tests.short_runs import train

SHORT = ["train.steps=2", "validation.every=4", "validation.max_prompts=2", "algorithm.filter.enabled=false"]


@pytest.mark.slow
def test_two_ranks_and_two_engines_train_what_one_of_each_does(tmp_path: Path) -> None:
    assert train(tmp_path, "one", *SHORT) == 0
    assert train(tmp_path, "two", *SHORT, "learner.ranks=2", "rollout.engines=2") == 0
    one, two = (RunStore(tmp_path / name).read_commit(1) for name in ("one", "two"))
    for name in ("reward/accuracy", "response_length/mean", "entropy/mean", "actor/pg_loss", "actor/grad_norm"):
        assert two.metrics[name] == pytest.approx(one.metrics[name], rel=1e-3, abs=1e-6), name
    assert RunStore(tmp_path / "two").committed_steps() == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("sharded", [False, True])
def test_two_ranks_killed_in_an_update_go_on_to_the_same_bits(sharded: bool, tmp_path: Path) -> None:
    both = [*SHORT, "learner.ranks=2", "rollout.engines=2", f"learner.sharded={sharded}"]
    assert train(tmp_path, "whole", *both) == 0
    assert train(tmp_path, "killed", *both, kill_at="2:update:inside") == -9
    assert train(tmp_path, "killed", *both) == 0
    whole, killed = (RunStore(tmp_path / name).read_commit(2) for name in ("whole", "killed"))
    assert killed.metrics == whole.metrics
    assert killed.state == whole.state
    assert killed.artifacts["checkpoint"].sha256 == whole.artifacts["checkpoint"].sha256
