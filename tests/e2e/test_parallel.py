"""Learner ranks and engines in numbers, and overlapping steps, through the command line.

A run of several ranks equals that of one but for rounding; a killed run is bit-identical to the uninterrupted one.
"""

from pathlib import Path

import pytest

from ares.store.store import RunStore
from tests.short_runs import assert_same, commits, train

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
def test_two_ranks_killed_in_an_update_resume_bit_identical(sharded: bool, tmp_path: Path) -> None:
    both = [*SHORT, "learner.ranks=2", "rollout.engines=2", f"learner.sharded={sharded}"]
    assert train(tmp_path, "whole", *both) == 0
    assert train(tmp_path, "killed", *both, kill_at="2:update:inside") == -9
    assert train(tmp_path, "killed", *both) == 0
    assert_same(tmp_path, "whole", "killed")


@pytest.mark.slow
@pytest.mark.parametrize(("stale", "parts"), [(1, 1), (2, 1), (2, 2)])
def test_samples_drawn_ahead_are_corrected_and_after_kills_the_same(stale: int, parts: int, tmp_path: Path) -> None:
    """Step 3 samples during step 2, whose commit may come before or after."""
    ahead = [f"rollout.max_staleness={stale}", f"rollout.parts={parts}"]
    overlapping = ["train.steps=4", *SHORT[1:], *ahead, "train.keep_checkpoints=1"]
    assert train(tmp_path, "whole", *overlapping) == 0
    killed = tmp_path / "killed"
    for kill_at in ("2:update:inside", "3:rollout:after", "3:score:before", "3:update:0.05", "4:commit:before"):
        assert train(tmp_path, "killed", *overlapping, kill_at=kill_at) == -9, kill_at
        if kill_at == "3:rollout:after":
            assert list((killed / "steps" / "000003").glob("rollout-*" if parts == 1 else "under-way-*"))
    assert train(tmp_path, "killed", *overlapping) == 0
    assert_same(tmp_path, "whole", "killed")
    of_step = [commit.metrics["mismatch/logprob_diff_mean"] for commit in commits(tmp_path, "whole")[1:]]
    assert of_step[0] < 1e-5 < 1e-4 < min(of_step[1:])
