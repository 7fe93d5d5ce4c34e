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


def test_the_threshold_is_never_a_constant_below_every_entropy(commits: list[Commit]) -> None:
    """Published: τ starts at −1, so that every token counts as a high-window-entropy token."""
    for commit in commits:
        assert commit.metrics["entropy/hwe_threshold"] > 0
    for commit in commits[1:]:
        assert 0 < commit.metrics["entropy/hwe_fraction"] < 0.5


def test_a_wrong_answer_is_not_graded_again(samples: pd.DataFrame) -> None:
    """Published: an accuracy of 0.0 is falsy and the answer is graded a second time."""
    wrong = samples[samples["accuracy"] == 0.0]
    assert len(wrong) > 0
    assert (wrong["reward"] == wrong["reward_entropy_score"]).all()
    assert (wrong["reward"] < 1.0).all()


def test_rewards_are_shaped_though_filtering_is_on(samples: pd.DataFrame) -> None:
    """Published: with online filtering the rewards are computed before difficulty is known, and stay unshaped."""
    assert CONFIG.algorithm.filter.enabled
    assert (samples["reward_entropy_score"].astype(float) != 0).any()
    accuracy = samples["accuracy"].astype(float)
    groups = accuracy.groupby([np.arange(len(samples)) // CONFIG.rollout.n]).mean()
    assert ((groups > CONFIG.algorithm.filter.low) & (groups < CONFIG.algorithm.filter.high)).all()


def test_token_adaptive_runs_and_its_coefficient_stays_anchored(commits: list[Commit]) -> None:
    """Published: token_adaptive crashes, and its coefficient compounds until it explodes or locks at zero."""
    assert isinstance(CONFIG.algorithm.kl.coef, float)
    for commit in commits:
        kl = commit.state["kl"]
        for bucket in BUCKETS:
            assert kl["kl_coefs"][bucket] == pytest.approx(kl["lambdas"][bucket] * CONFIG.algorithm.kl.coef)
    assert commits[-1].state["kl"]["lambdas"] != commits[0].state["kl"]["lambdas"]


def test_nothing_adaptive_is_lost_between_steps(commits: list[Commit]) -> None:
    """Published: a resumed run starts again with the initial KL coefficient, alphas and threshold."""
    for commit in commits:
        assert commit.state.keys() >= {"difficulty", "threshold", "kl", "beta", "cursor", "counters", "evaluations"}
        assert commit.state["difficulty"]["difficulty"].keys() == set(BUCKETS)
        assert commit.state["threshold"]["threshold"] is not None
    positions = [(commit.state["cursor"]["epoch"], commit.state["cursor"]["position"]) for commit in commits]
    assert positions == sorted(positions)
    assert positions[0] < positions[-1]
