"""Defects of the published AEPO code that must not come back, checked in the output of a real run."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from algorithms.buckets import BUCKETS
from ares.config.profiles import load
from ares.store.store import Commit, RunStore
from tests.shared_run import SMALL

CONFIG = load("tiny-math", SMALL)


@pytest.fixture(scope="module")
def commits(runs: Path) -> list[Commit]:
    store = RunStore(runs / "uninterrupted")
    return [store.read_commit(step) for step in store.committed_steps()]


@pytest.fixture(scope="module")
def samples(runs: Path, commits: list[Commit]) -> pd.DataFrame:
    store = RunStore(runs / "uninterrupted")
    return pd.concat([store.read_rows(commit.artifacts["samples"]) for commit in commits[1:]], ignore_index=True)


def test_alpha_adapts_to_the_target_in_force_before_the_batch(commits: list[Commit]) -> None:
    """Published: the target is the batch's own mean, so alpha sees a rounding residue and never adapts."""
    moved = 0.0
    for before, after in pairwise(commits):
        for bucket in BUCKETS:
            old, new = (commit.state["difficulty"]["alpha"][bucket] for commit in (before, after))
            hwe, target = after.metrics.get(f"bucket/{bucket}/hwe"), before.state["difficulty"]["target"].get(bucket)
            if hwe is None or target is None:
                assert new == old
                continue
            gap = target - hwe if bucket == "hard" else hwe - target
            settings = CONFIG.algorithm.difficulty
            assert new == pytest.approx(np.clip(old + settings.alpha_lr * gap, settings.alpha_min, settings.alpha_max))
            moved = max(moved, abs(gap))
    assert moved > 0.5  # beyond what rounding a mean could give


def test_rewards_are_shaped_though_filtering_is_on(samples: pd.DataFrame) -> None:
    """Published: with online filtering the rewards are computed before difficulty is known, and stay unshaped."""
    assert CONFIG.algorithm.filter.enabled
    assert (samples["reward_entropy_score"].astype(float) != 0).any()
    accuracy = samples["accuracy"].astype(float)
    groups = accuracy.groupby([np.arange(len(samples)) // CONFIG.rollout.n]).mean()
    assert ((groups > CONFIG.algorithm.filter.low) & (groups < CONFIG.algorithm.filter.high)).all()
