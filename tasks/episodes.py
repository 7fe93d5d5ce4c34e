"""Phases of episodes: a turn of a shard's unfinished episodes, one engine call and the environments' answers; then the
whole episodes as rows.

    turn 1 ─▶ turn 2 ─▶ … ─▶ turn n ─▶ rollout             each is kept, so that a kill loses the turn in flight;
    engine, environments                whole episodes      environments are rebuilt from the responses so far

Not covered: which shards are under way (flows/draw.py), tables of turns (ares/step/episodes.py), the processes of
environments (ares/environments).
"""

import asyncio
import logging

import pandas as pd
from pydantic import BaseModel

from ares.engines import opened_texts
from ares.grading import ID_COLUMNS
from ares.runs import Step
from ares.step import engine_calls, episode_rows, episodes_so_far, next_turns, played, turn_rows
from ares.store import Ref
from tasks.phase import phase
from tasks.sampling import Draw, Rows, request_rows

logger = logging.getLogger(__name__)


class Turn(BaseModel):
    """A turn of a shard's episodes."""

    rows: Ref
    unfinished: int
    """Episodes that go on."""


async def play(step: Step, draw: Draw, label: str) -> Rows:
    """Play a shard's episodes to their end."""
    turns: list[Turn] = []
    while not turns or turns[-1].unfinished:
        turns.append(await turn(step, draw, [each.rows for each in turns], label=f"{label} {len(turns) + 1}"))
    return await rollout(step, draw, [each.rows for each in turns], label=label)


@phase("turn")
async def turn(step: Step, draw: Draw, earlier: list[Ref]) -> Turn:
    """Sample the next response of a shard's unfinished episodes and have their environments answer."""
    store, environment = step.run.store, step.run.environment
    assert environment is not None
    so_far = played(request_rows(step, draw), [store.read_rows(ref) for ref in earlier])
    going = so_far[~so_far["over"]].reset_index(drop=True)
    problems = step.run.problems(draw.purpose).rows(going["id"].tolist())
    parts = []
    asked = next_turns(going, problems)
    for part, requests, how in engine_calls(asked, draw.temperature, step.config.rollout):
        answers = await step.run.workers.sample(draw.version, requests, how, averaged=draw.averaged)
        parts.append(answers.set_axis(part.index))
    said = going[ID_COLUMNS].join(pd.concat(parts))
    said["response"] = opened_texts(step.run.tokenizer, asked["prompt_token_ids"], said["response"])
    episodes = episodes_so_far(going, problems, (draw.purpose, step.number))
    replies, suffixes = await asyncio.to_thread(environment.answer, episodes, said)
    rows = turn_rows(said, replies, suffixes, is_last=len(earlier) + 1 == environment.settings.max_turns)
    environment.pool.end(episode.key for episode, over in zip(episodes, rows["over"], strict=True) if over)
    if broken := [answer.error for answer in replies if answer.error]:
        logger.warning("%d of %d episodes have no score: %s", len(broken), len(rows), broken[0])
    path = step.path(f"turn-{draw.purpose}-{draw.shard:04d}-{len(earlier) + 1:02d}.parquet")
    return Turn(rows=store.write_rows(path, rows), unfinished=int((~rows["over"]).sum()))


@phase("rollout")
async def rollout(step: Step, draw: Draw, turns: list[Ref]) -> Rows:
    """A shard's whole episodes, as rows that graders and learner read."""
    store, environment = step.run.store, step.config.environment
    assert environment is not None
    rows = episode_rows(played(request_rows(step, draw), [store.read_rows(ref) for ref in turns]), environment)
    return Rows(rows=store.write_rows(step.path(f"rollout-{draw.purpose}-{draw.shard:04d}.parquet"), rows))
