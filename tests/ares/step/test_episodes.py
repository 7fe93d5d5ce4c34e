"""Episodes: what each turn is asked, the row that an episode becomes, what it is worth, what is learnt from."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from algorithms.keys import derive_seed
from ares.config import EnvironmentConfig
from ares.data import DataError
from ares.environments import Answer, Reply
from ares.grading.grader import Grader, grade_rows
from ares.grading.graders import environment_scores
from ares.step.collate import token_batch
from ares.step.episodes import (
    episode_metrics,
    episode_reward,
    episode_rows,
    episodes_so_far,
    next_turns,
    played,
    turn_rows,
)
from ares.step.opening import OPENING, seed_of
from ares.step.rows import SAMPLED, sampled_log_probs
from ares.step.shaping import _at_last_token, at_turns
from rewards.math import grade_answers

ASKED = pd.DataFrame(
    {"id": ["p", "p"], "slot": [3, 3], "sample": [0, 1], "prompt_token_ids": [[1, 2], [1, 2]], "seed": [10, 11]}
)
OPENED = json.dumps({"row": {"question": "?"}, "seed": 5, "heard": "first"})
SETTINGS = EnvironmentConfig(kind="x.py:X", reward="sum", discount=0.5)


def said(*token_ids: list[int], reason: str = "stop", places: tuple[int, ...] = (0, 1)) -> pd.DataFrame:
    """The rows of ASKED at these places, with a response each."""
    return ASKED.iloc[list(places)].assign(
        response=[f"said {ids}" for ids in token_ids],
        token_ids=[np.array(ids, np.int32) for ids in token_ids],
        log_probs=[-np.array(ids, np.float32) for ids in token_ids],
        finish_reason=reason,
    )


def whole(*turns: pd.DataFrame) -> pd.DataFrame:
    """The rows of the episodes of ASKED after these turns."""
    return episode_rows(played(ASKED, list(turns)), SETTINGS)


def replied(observation: str = "", **how: Any) -> Answer:
    return Answer(Reply(observation, **how))


FIRST = turn_rows(
    said([20, 21], [22]),
    [replied("go on", reward=1.0, metrics={"calls/add": 1.0}), replied(done=True, reward=4.0, success=1.0)],
    [[7, 8, 9], []],
    is_last=False,
)
"""Sample 0 goes on, sample 1 is over."""
SECOND = turn_rows(said([30], places=(0,)), [replied(done=True, reward=2.0, success=0.0)], [[]], is_last=False)


def test_a_turn_is_asked_of_unfinished_episodes_after_all_tokens_so_far_with_draws_of_its_own() -> None:
    first, after = played(ASKED, []), played(ASKED, [FIRST])
    assert next_turns(first, ASKED)[["prompt_token_ids", "seed"]].equals(ASKED[["prompt_token_ids", "seed"]])
    assert after["over"].tolist() == [False, True]
    second = next_turns(after[:1], ASKED[:1])
    assert second["prompt_token_ids"].tolist() == [[1, 2, 20, 21, 7, 8, 9]]
    assert second["seed"].tolist() == [derive_seed(10, "turn", 1)]
    assert ASKED["prompt_token_ids"].tolist() == [[1, 2], [1, 2]]  # nobody else's list has grown
    assert played(ASKED, [FIRST, SECOND])["over"].all()


def test_an_environment_can_be_rebuilt_from_what_was_said_and_the_digests_of_what_it_heard() -> None:
    problems = pd.DataFrame({"id": ["p"], OPENING: [OPENED]})
    (episode,) = episodes_so_far(played(ASKED, [FIRST])[:1], problems, ("rollout", 6))
    assert episode.key == "rollout/6/3/0"
    assert (episode.row, episode.seed, episode.said) == ({"question": "?"}, 5, ("said [20, 21]",))
    reply = Reply("go on", reward=1.0, metrics={"calls/add": 1.0})
    assert episode.heard == ("first", reply.digest())


def test_an_episode_is_one_row_of_which_sampled_tokens_are_learnt_from() -> None:
    rows = whole(FIRST, SECOND)
    assert rows["token_ids"].map(list).tolist() == [[20, 21, 7, 8, 9, 30], [22]]
    assert rows[SAMPLED].map(list).tolist() == [[True, True, False, False, False, True], [True]]
    assert rows["log_probs"].map(list).tolist() == [[-20, -21, 0, 0, 0, -30], [-22]]
    assert sampled_log_probs(rows).tolist() == [-20, -21, -30, -22]
    assert rows["response"].tolist() == ["said [30]", "said [22]"]  # what graders see
    assert rows["finish_reason"].tolist() == ["stop", "stop"]
    assert rows["turns"].tolist() == [2, 1]
    assert rows["success"].tolist() == [0.0, 1.0]
    assert rows["episode_reward"].tolist() == [1.0 + 0.5 * 2.0, 4.0]
    batch = token_batch(rows.assign(prompt_token_ids=[[1, 2], [1, 2]]), pad_id=0)
    assert batch.tensor("response_mask").tolist() == [[1, 1, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0]]
    assert batch.tensor("attention_mask").tolist() == [[1] * 8, [1, 1, 1, 0, 0, 0, 0, 0]]
    rewards = _at_last_token(np.array([2.0, 3.0]), batch.tensor("response_mask"))
    assert torch.equal(rewards, torch.tensor([[0, 0, 0, 0, 0, 2.0], [3.0, 0, 0, 0, 0, 0]]))


def test_an_episode_without_an_end_is_truncated_and_one_whose_environment_failed_says_why() -> None:
    cut = turn_rows(said([20], [22]), [replied("more"), Answer(error="x.py:3: it broke")], [[7], [7]], is_last=True)
    rows = whole(cut)
    assert rows["token_ids"].map(list).tolist() == [[20], [22]]  # nothing follows the last turn
    assert rows["finish_reason"].tolist() == ["length", "stop"]
    assert rows["episode_error"].tolist() == ["", "x.py:3: it broke"]
    too_long = turn_rows(said([20], [22], reason="length"), [replied(done=True)] * 2, [[], []], is_last=False)
    assert whole(too_long)["finish_reason"].tolist() == ["length", "length"]


@pytest.mark.parametrize(
    ("how", "rewards", "worth"),
    [
        ({"reward": "last"}, [1.0, math.nan, 3.0], 3.0),
        ({"reward": "last"}, [1.0, math.nan], 1.0),
        ({"reward": "sum"}, [1.0, math.nan, 3.0], 4.0),
        ({"reward": "sum", "discount": 0.5}, [1.0, math.nan, 3.0], 1.75),
        ({"reward": "sum"}, [math.nan], math.nan),
    ],
)
def test_an_episode_is_worth_its_last_reward_or_their_discounted_sum(how: Any, rewards: Any, worth: float) -> None:
    assert episode_reward(rewards, EnvironmentConfig(kind="x.py:X", **how)) == pytest.approx(worth, nan_ok=True)


def test_metrics_count_turns_observations_errors_and_what_environments_count() -> None:
    rows = whole(FIRST, SECOND)
    assert episode_metrics(rows) == {
        "episode/turns": 1.5,
        "episode/errors": 0.0,
        "episode/observations_share": pytest.approx(3 / 7),
        "episode/reward/turn-1": 2.5,
        "episode/reward/turn-2": 2.0,
        "episode/calls/add": 0.5,
    }
    assert episode_metrics(pd.DataFrame({"id": ["p"]})) == {}


def test_an_answer_that_was_submitted_is_what_graders_see_and_find() -> None:
    last = turn_rows(said([20], [22]), [replied(done=True, answer="42"), replied("You win", done=True)], [[], []], True)
    rows = whole(last)
    assert rows["response"].iloc[1] == "said [22]"
    for where in ("boxed", "hash", "tag answer", "last_line"):
        assert grade_answers(rows["response"].tolist(), ["42", "42"], where) == [1.0, 0.0]


def test_an_episode_that_nothing_rewarded_is_worth_its_success_and_failed_if_none_is_told() -> None:
    ends = [replied("more"), replied(done=True, success=1.0)]
    scores = environment_scores(whole(turn_rows(said([20], [22]), ends, [[7], []], is_last=True)))
    assert [(each.score, each.extras["success"], each.failed) for each in scores] == [
        (0.0, 0.0, False),
        (1.0, 1.0, False),
    ]


def test_a_broken_episode_has_no_score_whatever_the_grader_says() -> None:
    class Judge(Grader):
        def grade(self, rows: pd.DataFrame) -> pd.DataFrame:
            return rows[["id", "slot", "sample"]].assign(
                accuracy=1.0, format=0.0, pass_ratio=1.0, error_type="accepted", test_outcomes=[["accepted"]] * 2,
                exec_time=0.1, trusted=True,
            )  # fmt: skip

    rows = ASKED.assign(episode_error=["", "x.py:3: it broke"])
    judged = grade_rows(Judge(), rows)
    assert judged["accuracy"].fillna(-1).tolist() == judged["pass_ratio"].fillna(-1).tolist() == [1.0, -1.0]
    assert judged["error_type"].tolist() == ["accepted", "internal_error"]
    assert judged[["test_outcomes", "exec_time", "trusted"]].notna().all().all()


def test_turn_rewards_lie_where_they_were_given_and_what_is_left_at_the_end() -> None:
    mask = torch.tensor([[1, 1, 0, 1, 0], [1, 0, 0, 0, 0]])
    scores = _at_last_token(np.array([3.5, 1.0]), mask)
    spread = at_turns(scores, [np.array([1.0, 2.0]), np.array([math.nan])], mask)
    assert spread.tolist() == [[0, 1.0, 0, 2.5, 0], [1.0, 0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("row", "seed"),
    [({"seed": 7}, 7), ({"seed": 7.0}, 7), ({"seed": "x"}, None), ({"seed": True}, None), ({"seed": math.nan}, None)],
)
def test_the_seed_of_a_row_is_its_own_or_refused(row: dict[str, Any], seed: int | None) -> None:
    if seed is None:
        with pytest.raises(DataError, match=r"games\.jsonl:3: the column seed is"):
            seed_of(row, "games.jsonl:3")
    else:
        assert seed_of(row, "games.jsonl:3") == seed
    assert seed_of({"prompt": "a"}, "") != seed_of({"prompt": "b"}, "")
