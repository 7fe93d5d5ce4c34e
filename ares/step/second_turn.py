"""A second turn for programs that failed: which first turns get one, and its prompt with the verdict (Murphy).

A second turn is a row whose prompt ends with the verdict, not an episode of two turns: its first turn is learnt from
once, in a row of its own, however many second turns continue it. Covered: slots, prompts, credit to the first turn. Not
covered: sampling and judging (tasks/sampling.py, as any shard), episodes (ares/step/episodes.py).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from transformers import PreTrainedTokenizerBase

from algorithms.groups import SECOND_TURN_SLOT
from algorithms.keys import derive_seed
from algorithms.settings import MOST_TOKENS
from ares.config import SecondTurnConfig
from ares.data import TurnTemplate
from ares.grading import ID_COLUMNS
from ares.step.rows import is_second_turn
from rewards.code import execution_feedback

PROMPT = ["prompt", "prompt_token_ids"]


def second_turn_rows(
    rows: pd.DataFrame, problems: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, settings: SecondTurnConfig,
    key: tuple[int | str, ...], template_settings: Mapping[str, Any],
) -> pd.DataFrame:  # fmt: skip
    """One row per second turn: id, slot, sample, its own prompt and prompt_token_ids, seed.

    rows: judged first turns (id, slot, sample, response, token_ids, finish_reason, pass_ratio, test_outcomes);
    problems: of these rows, row by row; template_settings: data.chat_template_kwargs; key: seed of the run, purpose,
    moment. A first turn that passed, was truncated or was not judged gets no second one; nor does one whose verdict is
    longer than max_feedback_length. Raises ConfigError if the chat template cannot go on after a response.
    """
    chosen = np.flatnonzero(_may_go_on(rows))
    failed, theirs = rows.iloc[chosen].to_dict("records"), problems.iloc[chosen].to_dict("records")
    told = [
        execution_feedback(_tests(problem), row["test_outcomes"]) for row, problem in zip(failed, theirs, strict=True)
    ]
    if settings.shuffled:
        told = _of_another_problem(told, np.array([row["slot"] for row in failed]), key)
    template = TurnTemplate(tokenizer, template_settings)
    following = [
        template.following(verdict, int(row["token_ids"][-1]), MOST_TOKENS)
        for verdict, row in zip(told, failed, strict=True)
    ]
    turns = [
        {
            "id": row["id"],
            "slot": row["slot"] + SECOND_TURN_SLOT,
            "sample": row["sample"] * settings.children + child,
            "prompt": problem["prompt"] + row["response"] + text,
            "prompt_token_ids": [*problem["prompt_token_ids"], *row["token_ids"].tolist(), *tokens],
        }
        for row, problem, (text, tokens) in zip(failed, theirs, following, strict=True)
        if len(tokens) <= settings.max_feedback_length
        for child in range(settings.children)
    ]
    seeds = [derive_seed(*key, turn["slot"], turn["id"], turn["sample"]) for turn in turns]
    return pd.DataFrame(turns, columns=[*ID_COLUMNS, *PROMPT]).assign(seed=seeds)


def _may_go_on(rows: pd.DataFrame) -> np.ndarray:
    """Which first turns [B] failed and were not truncated."""
    failed = rows["pass_ratio"].notna() & (rows["pass_ratio"].fillna(1.0).astype(float) < 1.0)
    return failed.to_numpy() & (rows["finish_reason"] == "stop").to_numpy()


def _of_another_problem(told: list[str], slots: np.ndarray, key: tuple[int | str, ...]) -> list[str]:
    """For each row a text of another slot: each slot takes those of its neighbour in a ring, shuffled by the key.

    If only one problem has failed, its own texts are dealt among its rows.
    """
    rng = np.random.default_rng(derive_seed("shuffled verdicts", *key))
    ring = rng.permutation(np.unique(slots))
    next_of = dict(zip(ring, np.roll(ring, 1), strict=True))
    return [told[rng.choice(np.flatnonzero(slots == next_of[slot]))] for slot in slots]


def second_turn_credit(rows: pd.DataFrame, rewards: np.ndarray, settings: SecondTurnConfig) -> np.ndarray:
    """What each row gains by its second turns: share·max(0, c − its own reward), c their highest or mean reward.

    With a share of 1 a repaired failure is worth as much as a program that was right at once. rows: both turns (slot,
    sample); rewards: [B], each turn's own (NaN: none, ignored). Returns [B] float64, 0 for second turns themselves and
    first turns without one, NaN without a reward.
    """
    second = is_second_turn(rows).to_numpy()
    slots, samples = rows["slot"].to_numpy() % SECOND_TURN_SLOT, rows["sample"].to_numpy()
    first_turn = pd.MultiIndex.from_arrays([slots, np.where(second, samples // settings.children, samples)])
    earned = pd.Series(rewards, index=first_turn)
    best = earned[second].groupby(level=[0, 1]).agg(settings.credit).reindex(first_turn).to_numpy()
    gained = np.where(second | np.isnan(best), 0.0, settings.credit_share * np.maximum(best - rewards, 0.0))
    return np.where(np.isnan(rewards), np.nan, gained)


def second_turn_metrics(rows: pd.DataFrame, children: int) -> dict[str, float]:
    """`second_turn/{samples,solved,tokens_share,overlong}`: count, share that passed, share of the step's tokens, first
    turns that got none because their verdict was too long. `solved` is absent if there are none.
    """
    is_second = is_second_turn(rows)
    second, failed = rows[is_second], _may_go_on(rows[~is_second])
    solved = second["pass_ratio"].astype("Float64") == 1.0
    metrics = {
        "second_turn/samples": float(len(second)),
        "second_turn/tokens_share": float(second["tokens"].sum() / rows["tokens"].sum()),
        "second_turn/overlong": float(failed.sum() - len(second) / children),
    }
    return metrics | ({"second_turn/solved": float(solved.mean())} if len(second) else {})


def _tests(problem: Mapping[Any, Any]) -> list[str]:
    stdin_tests = [f"stdin {given!r}, expected {expected!r}" for given, expected in problem["stdin_tests"]]
    return [*problem["test_cases"], *stdin_tests]
