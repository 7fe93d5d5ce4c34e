"""Which groups are trained on, how many prompts are drawn for them, and the metrics of everything drawn."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from algorithms.groups import SECOND_TURN_SLOT
from ares.config import AlgorithmConfig
from ares.step.refill import FilterExhausted, Refill, keep_groups
from ares.step.rewards import rewarded
from tests.ares.builders import config

# ---- keep_groups ---------------------------------------------------------------------------------------------------


def groups_of(*groups: list[float | None], first_slot: int = 0) -> pd.DataFrame:
    table = [
        {"slot": slot, "sample": sample, "accuracy": accuracy}
        for slot, group in enumerate(groups, first_slot)
        for sample, accuracy in enumerate(group)
    ]
    return pd.DataFrame(table).astype({"accuracy": "Float64"})


def kept(rows: pd.DataFrame, rewards: list[float] | None = None, **settings: Any) -> list[int]:
    """Slots that are kept when the reward is accuracy, or what is given."""
    of_rows = rows["accuracy"].to_numpy(dtype=float, na_value=np.nan) if rewards is None else np.array(rewards)
    return keep_groups(rows, AlgorithmConfig.model_validate({"filter": settings}), of_rows)


GROUPS: tuple[list[float | None], ...] = (
    [1, 1, 1, 1],
    [1, 0, 1, 1],
    [0, 0, 0, 0],
    [0, 0, 0, 1],
    [None, None, None, 1],
    [None, None, 0, 1],
    [None, None, 1, 1],
    [None, None, None, None],
)


def test_groups_with_an_accuracy_within_the_bounds_are_kept_or_without_filtering_all_with_two_scores() -> None:
    assert kept(groups_of(*GROUPS)) == [1, 3, 5]
    assert kept(groups_of(*GROUPS), enabled=False) == [0, 1, 2, 3, 5, 6]
    assert kept(groups_of([0, 0, 0, 1], [0, 1], [1, 1, 1, 0]), low=0.25, high=0.75) == [1]


def test_by_reward_a_group_is_kept_when_its_rewards_differ_though_no_answer_is_right() -> None:
    rows = groups_of([0, 0], [0, 0], [1, 1], [0, 0])
    rewards = [-1.0, -0.6, -0.3, -0.3, 1.0, 0.9, math.nan, 0.4]  # the last group has one row with a reward
    assert kept(rows, rewards, key="reward") == [0, 2]


def test_a_group_whose_greedy_answer_has_no_score_is_not_trained_on() -> None:
    rows = groups_of([1, 0], [1, 0]).assign(baseline=pd.array([1.0, 1.0, None, None], dtype="Float64"))
    assert kept(rows, enabled=False) == [0]


# ---- Refill --------------------------------------------------------------------------------------------------------

GOOD: list[float | None] = [1, 0]
BAD: list[float | None] = [1, 1]


def refill(prompts: int = 4, *settings: str) -> Refill:
    sizes = (f"rollout.prompts={prompts}", f"learner.global_batch_prompts={prompts}", "rollout.shard_prompts=2")
    return Refill(7, config(*sizes, *settings))


def take(of: Refill, *groups: list[float | None]) -> list[int]:
    rows = groups_of(*groups, first_slot=of.drawn).assign(tokens=3)
    return of.take(rewarded(rows, of.config, None))


def test_it_asks_for_what_is_missing_by_the_share_kept_so_far_and_at_most_a_batch() -> None:
    of = refill()
    assert of.ask() == 4
    assert take(of, BAD, GOOD, BAD, GOOD) == [1, 3]
    assert of.ask() == 4  # two are missing, and half are kept
    take(of, GOOD, BAD, BAD, BAD)
    assert of.ask() == 3  # one is missing, three of eight are kept
    take(of, BAD, BAD, GOOD)
    assert of.is_full
    assert of.slots == [1, 3, 4, 10]


def test_after_a_rollout_without_a_group_it_asks_for_a_whole_batch_and_slots_and_shards_follow_one_another() -> None:
    of = refill(3)
    assert of.ask() == 3
    take(of, BAD, BAD, BAD)
    assert (of.drawn, of.shards, of.is_full) == (3, 2, False)
    assert of.ask() == 3
    take(of, BAD, BAD, BAD)
    assert (of.drawn, of.shards) == (6, 4)


def test_it_chooses_no_more_than_are_missing_and_counts_which_others_were_worth_it() -> None:
    of = refill(2)
    of.ask()
    assert take(of, GOOD, BAD) == [0]
    of.ask()
    assert take(of, GOOD, GOOD) == [2]
    assert of.slots == [0, 2]
    assert of.metrics() == {
        "reward/sampled_accuracy": 5 / 8, "reward/unscored_groups": 0.0, "filter/kept_share": 3 / 4,
        "filter/rollouts": 2.0, "filter/drawn_prompts": 4.0,
    }  # fmt: skip


def test_groups_with_fewer_than_two_scores_are_left_out_and_counted() -> None:
    of = refill(4, "algorithm.filter.enabled=false")
    of.ask()
    assert take(of, [None, None], [1, None], [1, 1], [0, None, 1]) == [2, 3]
    assert of.metrics()["reward/unscored_groups"] == 2
    assert of.metrics()["reward/sampled_accuracy"] == 4 / 5
    of.ask()
    take(of, [1, 0], [None, 0])
    assert of.metrics()["reward/unscored_groups"] == 3


@pytest.mark.parametrize("key", ["accuracy", "reward"])
@pytest.mark.parametrize(("overlong", "expected"), [
    ("{mask_truncated: true}", [2]),
    ("{mask_truncated: true, include_truncated_in_baseline: true}", [0, 1, 2]),
    ("{mask_truncated: false}", [0, 1, 2]),
])  # fmt: skip
def test_rows_that_are_cut_off_count_as_in_the_baseline(key: str, overlong: str, expected: list[int]) -> None:
    """The rows left of group 0 agree, of group 1 only one is left: their advantages would all be zero."""
    of = refill(4, f"algorithm.overlong={overlong}", f"algorithm.filter.key={key}")
    of.ask()
    rows = groups_of([1, 1, 0], [1, 0, 0], [1, 0, 0], [1, 1, 1])
    cut = [False, False, True, False, True, True, False, False, True, False, False, False]
    assert of.take(rewarded(rows.assign(tokens=3, truncated=cut), of.config, None)) == expected


def test_second_turns_come_with_the_group_they_continue_and_are_none_of_their_own() -> None:
    of = refill(2)
    of.ask()
    rows = pd.concat([groups_of(GOOD, BAD), groups_of(GOOD, GOOD, first_slot=SECOND_TURN_SLOT)], ignore_index=True)
    assert of.take(rewarded(rows, of.config, None)) == [0, SECOND_TURN_SLOT]
    assert of.slots == [0, SECOND_TURN_SLOT]
    metrics = of.metrics()
    assert metrics["filter/kept_share"] == 0.5
    assert metrics["reward/sampled_accuracy"] == 3 / 4


@pytest.mark.parametrize(("key", "group", "kept"), [("accuracy", BAD, 0), ("reward", GOOD, 1)])
def test_after_the_last_try_it_says_what_was_missing(key: str, group: list[float | None], kept: int) -> None:
    of = refill(2, "algorithm.filter.max_tries=2", f"algorithm.filter.key={key}")
    for groups in ((BAD, group), (BAD, BAD)):
        of.ask()
        take(of, *groups)
    told = rf"step 7: after 2 rollouts \(4 prompts\) only {kept} of 2 groups .* too hard by {key}, or lack 2 samples"
    with pytest.raises(FilterExhausted, match=told):
        of.ask()
