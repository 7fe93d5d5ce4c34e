"""Samples, scores and problems joined, in the order in which they are trained on."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from algorithms.groups import SECOND_TURN_SLOT
from ares.data.problems import Problems
from ares.grading.grader import RewardError
from ares.step.rewards import rewarded, total_reward
from ares.step.rows import GREEDY, in_training_order, joined_rows, scored_rows
from tests.ares.builders import config

PROBLEMS = Problems(
    "made", pd.DataFrame({"id": ["a", "b", "c"], "prompt": ["A", "B", "C"], "answer": ["1", "2", "3"],
                          "prompt_token_ids": [[1], [2, 2], [3]], "difficulty": 7}), 0,
)  # fmt: skip
Group = dict[int, float | None]


def shards(groups: list[Group], count: int = 1) -> tuple[list[pd.DataFrame], list[pd.DataFrame]]:
    """Rollouts and scores: one group per dict of sample number → accuracy, shuffled within each shard."""
    table = [
        {
            "id": PROBLEMS.frame["id"][slot], "slot": slot, "sample": sample, "accuracy": accuracy, "format": 1.0,
            "token_ids": [5] * (sample + 2), "response": f"{slot}/{sample}",
            "finish_reason": "length" if sample == 1 else "stop",
        }
        for slot, group in enumerate(groups)
        for sample, accuracy in group.items()
    ]  # fmt: skip
    whole = pd.DataFrame(table).astype({"accuracy": "Float64"}).sample(frac=1.0, random_state=0)
    parts = [whole[whole["slot"] % count == shard] for shard in range(count)]
    rollouts = [part.drop(columns=["accuracy", "format"]) for part in parts]
    return rollouts, [part[["id", "slot", "sample", "accuracy", "format"]][::-1] for part in parts]


def column(rows: pd.DataFrame, name: str) -> list[Any]:
    return [None if pd.isna(value) else value for value in rows[name]]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_rows_meet_their_scores_and_problems_in_the_order_of_slot_and_sample(count: int) -> None:
    ordered = in_training_order(joined_rows(*shards([{0: 1, 1: 0}, {0: 0, 1: None}, {0: 1, 1: 1}], count), PROBLEMS))
    assert ordered["response"].tolist() == ["0/0", "0/1", "1/0", "1/1", "2/0", "2/1"]
    assert column(ordered, "accuracy") == [1, 0, 0, None, 1, 1]
    assert ordered["answer"].tolist() == ["1", "1", "2", "2", "3", "3"]
    assert ordered["prompt_token_ids"].tolist() == [[1], [1], [2, 2], [2, 2], [3], [3]]
    assert ordered["truncated"].tolist() == [False, True] * 3
    assert ordered["tokens"].tolist() == [2, 3] * 3
    assert "difficulty" not in ordered  # a data set may have columns with the names of ours


def test_a_second_turn_keeps_its_own_prompt_and_follows_its_problems_first_turns() -> None:
    rollouts, scores = shards([{0: 0, 1: 1}, {0: 0}])
    second = (
        rollouts[0]
        .iloc[[0]]
        .assign(id="a", slot=SECOND_TURN_SLOT, sample=0, response="again", prompt="A, again", prompt_token_ids=[[9]])
    )
    graded = second[["id", "slot", "sample"]].assign(accuracy=1.0, format=1.0)
    ordered = in_training_order(joined_rows([*rollouts, second], [*scores, graded], PROBLEMS))
    assert ordered["response"].tolist() == ["0/0", "0/1", "again", "1/0"]
    assert ordered["prompt"].tolist() == ["A", "A", "A, again", "B"]
    assert ordered["prompt_token_ids"].tolist() == [[1], [1], [9], [2, 2]]


def test_the_greedy_answer_becomes_its_groups_baseline_and_no_row_of_it() -> None:
    groups: list[Group] = [{GREEDY: 1, 0: 0, 1: 0}, {GREEDY: 0, 0: 1, 1: 1}, {GREEDY: None, 0: 1, 1: 0}]
    ordered = in_training_order(rewarded(joined_rows(*shards(groups, 2), PROBLEMS), config(), None))
    assert ordered["sample"].tolist() == [0, 1] * 3
    assert column(ordered, "baseline") == [1, 1, 0, 0, None, None]
    assert total_reward(ordered).tolist() == [0, 0, 1, 1, 1, 0]
    # Without one there is no baseline, and without a score no reward.
    ordered = in_training_order(rewarded(joined_rows(*shards([{0: 1, 1: None}]), PROBLEMS), config(), None))
    assert "baseline" not in ordered
    np.testing.assert_array_equal(total_reward(ordered), [1.0, np.nan])


def test_two_scores_of_a_sample_no_reward_and_no_score_at_all_are_errors_that_say_so() -> None:
    rollouts, scores = shards([{0: 1, 1: 0}])
    with pytest.raises(pd.errors.MergeError):
        joined_rows(rollouts, scores * 2, PROBLEMS)
    with pytest.raises(ValueError, match="no parts of a reward"):
        total_reward(joined_rows(rollouts, scores, PROBLEMS))
    with pytest.raises(RewardError, match="none of the 2 responses could be graded"):
        scored_rows(joined_rows(*shards([{0: None, 1: None}]), PROBLEMS))
