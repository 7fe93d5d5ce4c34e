"""Second turns: who gets one, their prompt, and their credit to the first turn."""

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest
from transformers import PreTrainedTokenizerBase

from algorithms.groups import SECOND_TURN_SLOT
from ares.config import ConfigError, SecondTurnConfig
from ares.step.metrics import evaluation_metrics, evaluation_table
from ares.step.rewards import rewarded, total_reward
from ares.step.rows import FEW_STEPS_SLOT, is_second_turn
from ares.step.second_turn import second_turn_credit, second_turn_metrics, second_turn_rows
from tests.ares.builders import config, tokenizer

TESTS = ["assert f(1) == 1", "assert f(2) == 2"]
KEY = (0, "second-turn", 1)
SETTINGS = ["reward.kind=code", "rollout.second_turn.enabled=true", "rollout.second_turn.children=2"]


def first_turns(tokens: PreTrainedTokenizerBase) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Four attempts at one problem: right, half right, cut off, not judged."""
    ends = [["accepted"] * 2, ["accepted", "wrong_answer"], ["runtime_error"] * 2, ["internal_error"] * 2]
    rows = pd.DataFrame(
        {
            "id": "p", "slot": 7, "sample": range(4), "response": ["a", "b", "c", "d"],
            "token_ids": [np.array(tokens("1")["input_ids"] + [tokens.eos_token_id])] * 4,
            "finish_reason": ["stop", "stop", "length", "stop"],
            "pass_ratio": pd.array([1.0, 0.5, 0.0, None], dtype="Float64"), "test_outcomes": ends,
        }
    )  # fmt: skip
    problem = {"prompt": "<ask>", "prompt_token_ids": [5, 6], "test_cases": TESTS, "stdin_tests": []}
    return rows, pd.DataFrame([problem] * 4)


def test_only_judged_failures_that_ended_their_turn_are_continued_with_their_verdict_in_the_prompt() -> None:
    tokens = tokenizer()
    rows, problems = first_turns(tokens)
    continued = second_turn_rows(rows, problems, tokens, SecondTurnConfig(children=2), KEY, {})
    assert continued[["slot", "sample"]].to_numpy().tolist() == [[SECOND_TURN_SLOT + 7, 2], [SECOND_TURN_SLOT + 7, 3]]
    prompt, ids = continued["prompt"][0], continued["prompt_token_ids"][0]
    assert prompt.startswith("<ask>b\n<|im_start|>user\n1 of 2 tests passed. wrong answer: assert f(2) == 2<|im_end|>")
    assert prompt.endswith("<|im_start|>assistant\n")
    first = [5, 6, *rows["token_ids"][1].tolist()]
    assert ids[: len(first)] == first
    # The response's own end of turn is the only one before the verdict.
    assert tokens.decode(ids[len(first) :]) == prompt.removeprefix("<ask>b")


def two_failures(tokens: PreTrainedTokenizerBase, other: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The two failures that are continued, of one problem and of another with the first one's tests."""
    rows, problems = first_turns(tokens)
    rows = rows.assign(finish_reason="stop").iloc[1:3]
    theirs = problems.iloc[1:3].assign(test_cases=[[f"assert {other}(1) == 1", f"assert {other}(2) == 2"]] * 2)
    both = pd.concat([rows, rows.assign(slot=8, id="q")], ignore_index=True)
    return both, pd.concat([problems.iloc[1:3], theirs], ignore_index=True)


def test_shuffled_verdicts_are_those_on_another_problem_dealt_by_key() -> None:
    tokens, key = tokenizer(), KEY
    rows, problems = two_failures(tokens, "other")
    shuffled = SecondTurnConfig(shuffled=True)
    own = second_turn_rows(rows, problems, tokens, SecondTurnConfig(), key, {})
    dealt = second_turn_rows(rows, problems, tokens, shuffled, key, {})
    pd.testing.assert_frame_equal(dealt, second_turn_rows(rows, problems, tokens, shuffled, key, {}))
    assert [" other(" in prompt for prompt in own["prompt"]] == [False, False, True, True]
    assert [" other(" in prompt for prompt in dealt["prompt"]] == [True, True, False, False]
    pd.testing.assert_frame_equal(dealt[["id", "slot", "sample"]], own[["id", "slot", "sample"]])
    texts = {prompt.partition("user\n")[2] for prompt in own["prompt"]}
    assert {prompt.partition("user\n")[2] for prompt in dealt["prompt"]} <= texts
    others = {tuple(second_turn_rows(rows, problems, tokens, shuffled, (each,), {})["prompt"]) for each in range(8)}
    assert len(others) > 1
    assert len(second_turn_rows(rows[:2], problems[:2], tokens, shuffled, key, {})) == 2  # a problem alone: its own


def test_the_second_turn_is_written_with_the_chat_templates_settings() -> None:
    tokens = copy.deepcopy(tokenizer())
    tokens.chat_template += "{% if enable_thinking is defined and not enable_thinking %}<no>{% endif %}"
    rows, problems = first_turns(tokens)
    plain, silent = (
        second_turn_rows(rows, problems, tokens, SecondTurnConfig(), KEY, settings)["prompt"][0]
        for settings in ({}, {"enable_thinking": False})
    )
    assert silent == f"{plain}<no>"


def test_a_verdict_that_is_too_long_for_engines_gives_no_second_turn_and_is_counted() -> None:
    tokens = tokenizer()
    rows, problems = first_turns(tokens)
    verdict = len(second_turn_rows(rows, problems, tokens, SecondTurnConfig(), KEY, {})["prompt_token_ids"][0])
    verdict -= 2 + len(rows["token_ids"][1])
    for limit, tries in ((verdict, 1), (verdict - 1, 0)):
        continued = second_turn_rows(rows, problems, tokens, SecondTurnConfig(max_feedback_length=limit), KEY, {})
        assert len(continued) == tries
        judged = rows.assign(tokens=5)
        both = pd.concat([judged, judged.iloc[1:2].assign(slot=SECOND_TURN_SLOT + 7).head(tries)])
        metrics = second_turn_metrics(both, children=1)
        assert metrics["second_turn/overlong"] == 1 - tries
        assert ("second_turn/solved" in metrics) == bool(tries)


def test_the_longest_sequence_has_room_for_both_tries_and_the_verdict() -> None:
    lengths = [
        "data.max_prompt_length=48",
        "rollout.max_response_length=64",
        "rollout.second_turn.max_feedback_length=100",
    ]
    assert config(*lengths).longest_sequence == 48 + 64
    for setting in ("rollout.second_turn.enabled=true", "validation.turns=2"):
        assert config("reward.kind=code", setting, *lengths).longest_sequence == 48 + 64 + 100 + 64


def test_a_first_turn_is_credited_with_its_own_second_turns() -> None:
    settings = config(*SETTINGS)
    right, wrong = ["accepted"] * 2, ["wrong_answer"] * 2
    slots = [0, 0, SECOND_TURN_SLOT, SECOND_TURN_SLOT, SECOND_TURN_SLOT, SECOND_TURN_SLOT]
    outcomes = [wrong, wrong, wrong, wrong, wrong, right]
    rows = pd.DataFrame(
        {
            "id": "p", "slot": slots, "sample": [0, 1, 0, 1, 2, 3], "test_outcomes": outcomes, "format": 1.0,
            "finish_reason": "stop", "error_type": [ends[0] for ends in outcomes], "truncated": False, "tokens": 10,
            "pass_ratio": pd.array([float(ends == right) for ends in outcomes], dtype="Float64"),
        }
    )  # fmt: skip
    credited = rewarded(rows, settings, None)
    assert credited["reward_second_turn"].round(6).tolist() == [0, 1.3, 0, 0, 0, 0]
    assert total_reward(credited).round(6).tolist() == [-0.3, 1, -0.3, -0.3, -0.3, 1]  # repaired: as if right at once
    assert is_second_turn(rows).tolist() == [False, False, True, True, True, True]
    assert second_turn_metrics(rows, children=2) == {
        "second_turn/samples": 4.0, "second_turn/solved": 0.25, "second_turn/tokens_share": 4 / 6,
        "second_turn/overlong": 0.0,
    }  # fmt: skip


def credited(
    own: list[float], parent: list[int], second: list[float], credit: Any = "max", share: float = 1.0
) -> list[float]:
    """What first turns (slot 0, samples 0 …) gain by second turns of theirs, of which each has four at most."""
    samples = [4 * first + place for place, first in enumerate(parent)]
    rows = pd.DataFrame(
        {"slot": [0] * len(own) + [SECOND_TURN_SLOT] * len(second), "sample": [*range(len(own)), *samples]}
    )
    settings = SecondTurnConfig(children=4, credit=credit, credit_share=share)
    gained = second_turn_credit(rows, np.array([*own, *second]), settings)
    absent = np.isnan([*own, *second])
    assert (np.isnan(gained) == absent).all()
    assert not gained[len(own) :][~absent[len(own) :]].any()
    return [None if np.isnan(value) else round(value, 9) for value in gained[: len(own)].tolist()]


@pytest.mark.parametrize(("credit", "share", "gained"), [("max", 1, 1.3), ("mean", 1, 0.65), ("max", 0.5, 0.65)])
def test_a_first_turn_gains_what_its_second_turns_have_more(credit: str, share: float, gained: float) -> None:
    """With a share below 1 a repaired failure stays below a program that was right at once."""
    assert credited([-0.3, 0.48, 1.0], [0, 0, 1], [1.0, -0.3, -1.0], credit, share) == [gained, 0.0, 0.0]


def test_turns_without_a_reward_neither_gain_nor_give() -> None:
    assert credited([np.nan, -0.3], [0, 1], [1.0, np.nan]) == [None, 0.0]
    assert credited([np.nan, -0.3], [], [], "mean") == [None, 0.0]


@pytest.mark.parametrize(
    ("settings", "told"),
    [((*SETTINGS, "reward.kind=math"), "second_turn"),
     ((*SETTINGS, "algorithm.advantage.estimator=gae"), "second_turn"),
     ((*SETTINGS, "model.family=masked_diffusion", "rollout.engine=diffusion"), "masked_diffusion models have one"),
     (("reward.kind=code", "validation.turns=2", "model.family=vision_language"), "vision_language models have one"),
     (("validation.turns=2",), r"validation\.turns=2 tells a program its verdict")],
)  # fmt: skip
def test_second_turns_need_a_verdict_one_response_a_prompt_and_a_group(settings: tuple[str, ...], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        config(*settings)
    assert config("reward.kind=code", "validation.turns=2", "algorithm.advantage.estimator=gae").has_second_turns


def test_what_is_measured_beside_first_attempts_leaves_their_metrics_alone() -> None:
    rows = pd.DataFrame(
        {
            "id": ["p", "p", "p", "q", "q", "q"], "sample": [0, 1, 1, 0, 0, 0],
            "slot": [0, 0, SECOND_TURN_SLOT, 1, SECOND_TURN_SLOT + 1, FEW_STEPS_SLOT + 1],
            "accuracy": pd.array([1.0, 0.0, 1.0, 0.0, 0.0, 1.0], dtype="Float64"),
            "tokens": [2, 2, 8, 2, 8, 8], "format": 1.0, "truncated": False,
        }
    )  # fmt: skip
    first = rows[rows["slot"] < FEW_STEPS_SLOT]
    alone, found = evaluation_metrics(first), evaluation_metrics(rows, turns=2)
    beside = {"val/second_turn/accuracy": 2 / 3, "val/few_steps/accuracy": 1.0}
    assert found == alone | beside
    assert (alone["val/accuracy"], alone["val/response_length"]) == (1 / 3, 2.0)
    assert len(evaluation_table(rows)) == 3
    assert evaluation_metrics(rows[:1], turns=2)["val/second_turn/accuracy"] == 1.0  # nothing failed
