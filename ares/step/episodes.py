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
from ares.environments import Answer, Episode, Reply
from ares.grading import ID_COLUMNS
from ares.step.opening import begun_episode
from ares.step.rows import SAMPLED

PLACE = ["slot", "sample"]
OF_A_TURN = [*ID_COLUMNS, "response", "token_ids", "log_probs", "finish_reason", "reply", "error", "suffix", "over"]
"""Columns of a turn's table. reply: as JSON, "" without one; suffix: tokens between it and the next response."""


def next_turns(asked: pd.DataFrame, turns: list[pd.DataFrame]) -> pd.DataFrame:
    """The rows of `asked` (first turns: slot, sample, prompt_token_ids, seed) whose episode is not over, as they are
    asked for the turn after `turns`: the prompt is everything so far, token by token, and the seed is the turn's own.
    """
    if not turns:
        return asked
    going = asked.set_index(PLACE).join(turns[-1].set_index(PLACE)["over"])
    asked = asked[~going["over"].fillna(True).to_numpy(dtype=bool)].reset_index(drop=True)
    prompts = [list(prompt) for prompt in asked["prompt_token_ids"]]
    for turn in turns:
        rows = turn.set_index(PLACE).loc[list(zip(asked["slot"], asked["sample"], strict=True))]
        for prompt, said, suffix in zip(prompts, rows["token_ids"], rows["suffix"], strict=True):
            prompt += [*said.tolist(), *suffix.tolist()]
    seeds = [derive_seed(seed, "turn", len(turns)) for seed in asked["seed"]]
    return asked.assign(prompt_token_ids=pd.Series(prompts, dtype=object), seed=seeds)


def episodes_so_far(
    asked: pd.DataFrame, problems: pd.DataFrame, turns: list[pd.DataFrame], about: tuple[str, int]
) -> list[Episode]:
    """The episode of each row of `asked`, as far as `turns` have gone. problems: of these rows, row by row; about: the
    purpose of the draw and its step, which are part of an episode's key."""
    places = list(zip(asked["slot"], asked["sample"], strict=True))
    earlier = [turn.set_index(PLACE).loc[places] for turn in turns]
    said = [tuple(texts) for texts in zip(*(turn["response"] for turn in earlier), strict=True)] or [()] * len(asked)
    replies = [tuple(texts) for texts in zip(*(turn["reply"] for turn in earlier), strict=True)] or [()] * len(asked)
    return [
        begun_episode(row, "/".join(map(str, (*about, *place))), texts, (read_reply(each).digest() for each in heard))
        for place, row, texts, heard in zip(places, problems.to_dict("records"), said, replies, strict=True)
    ]


def written_reply(answer: Answer) -> str:
    """A reply as a cell of a table."""
    return "" if answer.reply is None else json.dumps(asdict(answer.reply))


def read_reply(written: str) -> Reply:
    """A reply from the cell of a table; an empty one where there was none."""
    if not written:
        return Reply()
    fields: dict[str, Any] = json.loads(written)
    seen = fields["observation"]
    return Reply(**fields | {"observation": tuple(seen) if isinstance(seen, list) else seen})


def turn_rows(asked: pd.DataFrame, answers: list[Answer], suffixes: list[list[int]], is_last: bool) -> pd.DataFrame:
    """A turn's table. asked: its rows with the sampled responses; suffixes: of those that go on, else empty; is_last:
    there is no further turn."""
    over = [is_last or answer.reply is None or answer.reply.done for answer in answers]
    between = [np.array([] if ends else suffix, dtype=np.int32) for ends, suffix in zip(over, suffixes, strict=True)]
    return asked.assign(
        reply=list(map(written_reply, answers)),
        error=[answer.error for answer in answers],
        suffix=pd.Series(between, index=asked.index, dtype=object),
        over=over,
    )[OF_A_TURN].reset_index(drop=True)


def episode_rows(turns: list[pd.DataFrame], settings: EnvironmentConfig) -> pd.DataFrame:
    """Whole episodes, sorted by slot and sample: id, slot, sample, token_ids, log_probs, sampled of everything after
    the prompt; `response` (the last one, or the answer that it submitted: what graders see), finish_reason, and what
    the environment made of it: turns, success, turn_rewards, episode_reward, episode_error ("": none), episode_metrics
    and transcript (JSON).

    An episode whose last response was cut off, or that the environment did not end, is truncated.
    """
    rows = []
    for _, parts in pd.concat(turns).groupby(PLACE, sort=True):
        last, replies = parts.iloc[-1], [read_reply(written) for written in parts["reply"]]
        pieces = [piece for pair in zip(parts["token_ids"], parts["suffix"], strict=True) for piece in pair]
        rewards = [np.nan if reply.reward is None else reply.reward for reply in replies]
        ended = last["finish_reason"] == "stop" and (replies[-1].done or last["error"])
        answer = replies[-1].answer
        rows.append(
            {
                **{name: last[name] for name in ID_COLUMNS},
                "response": last["response"] if answer is None else f"\\boxed{{{answer}}}",
                "token_ids": np.concatenate(pieces).astype(np.int32),
                "log_probs": np.concatenate(
                    [
                        np.concatenate([known, np.zeros(len(suffix))])
                        for known, suffix in zip(parts["log_probs"], parts["suffix"], strict=True)
                    ]
                ).astype(np.float32),
                SAMPLED: np.concatenate([np.full(len(piece), place % 2 == 0) for place, piece in enumerate(pieces)]),
                "finish_reason": "stop" if ended else "length",
                "turns": len(parts),
                "turn_rewards": np.array(rewards, dtype=np.float64),
                "episode_reward": episode_reward(rewards, settings),
                "success": replies[-1].success,
                "episode_error": last["error"],
                "episode_metrics": json.dumps(_summed(replies)),
                "transcript": json.dumps(
                    [
                        {"said": said, "heard": reply.observation}
                        for said, reply in zip(parts["response"], replies, strict=True)
                    ]
                ),
            }
        )
    return pd.DataFrame(rows).astype({"success": "Float64"})


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
