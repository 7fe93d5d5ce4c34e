"""Episodes: what a shard's unfinished ones are asked next, and whole ones as the rows that are trained on.

    prompt ──▶ said 1 │ heard 1 │ said 2 │ heard 2 │ said 3          one row: everything after the prompt
               ■ ■ ■ ■  □ □ □ □   ■ ■ ■    □ □ □     ■ ■ ■ ■         sampled: ■ is learnt from, □ only read

Covered: rows of turns (one table a turn), the prompts of the next one, the rows of episodes, their metrics. Pure. Not
covered: sampling and environments (tasks/episodes.py), what a template writes between turns (ares/data/turns.py).
"""

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from algorithms.keys import derive_seed
from ares.config import EnvironmentConfig
from ares.data import OPENING
from ares.environments import Answer, Episode, Reply
from ares.grading import ANSWERED, ID_COLUMNS
from ares.step.requests import asked_rows, begun_rows, continue_rows
from ares.step.rows import SAMPLED

OF_A_TURN = [*ID_COLUMNS, "token_ids", "log_probs", SAMPLED, "said", "heard", "finish_reason", "error", "over"]
"""Columns of a turn's table: what it adds to its episodes. said: its response, after the thinking tag that its prompt
ends with; heard: the reply as JSON, "" without one; token_ids, log_probs, sampled: of both."""


def played(requested: pd.DataFrame, turns: list[pd.DataFrame]) -> pd.DataFrame:
    """A shard's episodes after some turns: all that was said and heard in each, and whether it is `over`.

    requested: the rows of its first turn (ares/step/requests.py).
    """
    kinds = {SAMPLED: bool, "said": object, "heard": object}
    nothing: dict[str, Any] = {name: [np.empty(0, kind)] * len(requested) for name, kind in kinds.items()}
    rows = begun_rows(requested).assign(error="", over=False, **nothing)
    for turn in turns:  # which is of those that go on, in their order
        rows = continue_rows(rows, rows.index[~rows["over"]], turn)
    return rows


def next_turns(going: pd.DataFrame, problems: pd.DataFrame) -> pd.DataFrame:
    """What episodes that go on are asked: after everything so far, token by token, with a seed of the turn's own.

    problems: of these rows, row by row.
    """
    seeds = zip(going["seed"], going["said"], strict=True)
    own = [derive_seed(seed, "turn", len(said)) if len(said) else seed for seed, said in seeds]
    return asked_rows(going, problems).assign(seed=own)


def episodes_so_far(going: pd.DataFrame, problems: pd.DataFrame, about: tuple[str, int]) -> list[Episode]:
    """What environments know of episodes. problems: of these rows, row by row; about: the purpose of the draw and its
    step, which are part of an episode's key."""
    episodes = []
    for row, problem in zip(going.to_dict("records"), problems.to_dict("records"), strict=True):
        key, opening = "/".join(map(str, (*about, row["slot"], row["sample"]))), json.loads(problem[OPENING])
        heard = opening["heard"], *(read_reply(each).digest() for each in row["heard"])
        episodes.append(Episode(key, opening["row"], opening["seed"], tuple(row["said"]), heard))
    return episodes


def read_reply(written: str) -> Reply:
    """A reply from the cell of a table; an empty one where there was none."""
    return Reply.read(json.loads(written)) if written else Reply()


def turn_rows(said: pd.DataFrame, answers: list[Answer], suffixes: list[list[int]], is_last: bool) -> pd.DataFrame:
    """A turn's table. said: its rows with the sampled responses; suffixes: tokens between each response and the next
    one, of episodes that go on; is_last: there is no further turn."""
    over = [is_last or answer.reply is None or answer.reply.done for answer in answers]
    heard = [0 if ends else len(suffix) for ends, suffix in zip(over, suffixes, strict=True)]
    token_ids = [
        np.concatenate([ids, suffix[:count]]).astype(np.int32)
        for ids, suffix, count in zip(said["token_ids"], suffixes, heard, strict=True)
    ]
    columns = {
        "token_ids": token_ids,
        "log_probs": [np.pad(known, (0, count)) for known, count in zip(said["log_probs"], heard, strict=True)],
        SAMPLED: [np.arange(len(ids)) < len(ids) - count for ids, count in zip(token_ids, heard, strict=True)],
        "said": [[text] for text in said["response"]],
        "heard": [["" if answer.reply is None else json.dumps(asdict(answer.reply))] for answer in answers],
    }
    lists = {name: pd.Series(values, index=said.index, dtype=object) for name, values in columns.items()}
    return said.assign(**lists, error=[answer.error for answer in answers], over=over)[OF_A_TURN]


def episode_rows(rows: pd.DataFrame, settings: EnvironmentConfig) -> pd.DataFrame:
    """Whole episodes: id, slot, sample, token_ids, log_probs, sampled of everything after the prompt; `response` (the
    last one, or the answer that it submitted: what graders see), finish_reason, and what the environment made of it:
    turns, success, turn_rewards, episode_reward, episode_error ("": none), episode_metrics and transcript (JSON).

    An episode whose last response was cut off, or that the environment did not end, is truncated.
    """
    episodes = []
    for row in rows.to_dict("records"):
        replies = [read_reply(written) for written in row["heard"]]
        rewards = [np.nan if reply.reward is None else reply.reward for reply in replies]
        ended = row["finish_reason"] == "stop" and (replies[-1].done or row["error"])
        answer = replies[-1].answer
        turns = zip(row["said"], replies, strict=True)
        episodes.append(
            {
                **{name: row[name] for name in (*ID_COLUMNS, "token_ids", "log_probs", SAMPLED)},
                "response": row["said"][-1] if answer is None else ANSWERED.format(answer=answer),
                "finish_reason": "stop" if ended else "length",
                "turns": len(replies),
                "turn_rewards": np.array(rewards, dtype=np.float64),
                "episode_reward": episode_reward(rewards, settings),
                "success": replies[-1].success,
                "episode_error": row["error"],
                "episode_metrics": json.dumps(_summed(replies)),
                "transcript": json.dumps([{"said": said, "heard": reply.observation} for said, reply in turns]),
            }
        )
    return pd.DataFrame(episodes).astype({"success": "Float64"})


def episode_reward(rewards: list[float], settings: EnvironmentConfig) -> float:
    """What the rewards of an episode's turns (NaN: none) add up to; NaN without any.

    last: the last one; sum: Σ discountᵗ r_t, t from 0.
    """
    known = [(turn, reward) for turn, reward in enumerate(rewards) if not np.isnan(reward)]
    if not known:
        return float("nan")
    if settings.reward == "last":
        return known[-1][1]
    return float(sum(settings.discount**turn * reward for turn, reward in known))


def _summed(replies: list[Reply]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for reply in replies:
        for name, value in reply.metrics.items():
            totals[name] = totals.get(name, 0.0) + value
    return totals


def episode_metrics(rows: pd.DataFrame) -> dict[str, float]:
    """`episode/{turns,errors,observations_share}`, the mean reward of each turn `episode/reward/turn-N`, and the means
    of what environments count: `episode/calls/NAME`, …; nothing for rows that are no episodes."""
    if "turns" not in rows or rows.empty:
        return {}
    sampled = rows[SAMPLED].map(np.sum).sum()
    metrics = {
        "episode/turns": float(rows["turns"].mean()),
        "episode/errors": float((rows["episode_error"] != "").mean()),
        "episode/observations_share": float(1 - sampled / rows[SAMPLED].map(len).sum()),
    }
    rewards = rows["turn_rewards"].tolist()
    for turn in range(int(rows["turns"].max())):
        given = [each[turn] for each in rewards if len(each) > turn and not np.isnan(each[turn])]
        if given:
            metrics[f"episode/reward/turn-{turn + 1}"] = float(np.mean(given))
    counted = [json.loads(each) for each in rows["episode_metrics"]]
    names = sorted({name for each in counted for name in each})
    return {f"episode/{name}": float(np.mean([each.get(name, 0.0) for each in counted])) for name in names} | metrics
