"""Phases that sample and grade: rollout and score, one shard at a time."""

import asyncio
from collections.abc import Iterator
from functools import partial

import pandas as pd
from pydantic import BaseModel

from algorithms.keys import derive_seed
from ares.engines import Request, SamplingSettings
from ares.grading import ID_COLUMNS, RewardError
from ares.runs import Step, exec_times_name, read_exec_times
from ares.step import GREEDY, second_turns
from ares.store import Ref
from tasks.phase import phase

PROMPT = ["prompt", "prompt_token_ids"]
ANSWER = ["response", "token_ids", "log_probs", "finish_reason"]


class Draw(BaseModel):
    """What a shard samples: problems by id, in slots that are unique within the step."""

    version: int
    """Policy version that answers."""
    purpose: str
    """`rollout`, `second-turn`, `bootstrap` or `validation`: part of every draw's key, and which data set it is."""
    shard: int
    first_slot: int
    ids: list[str]
    n: int
    temperature: float
    greedy: bool = False
    """One greedy answer more per problem (ReMax's baseline)."""
    continues: tuple[Ref, Ref] | None = None
    """Rollout and scores of the first tries that are continued."""


class Rows(BaseModel):
    """A table of samples."""

    rows: Ref
    tokens: int = 0


@phase("rollout")
async def rollout(step: Step, draw: Draw) -> Rows:
    """Sample `draw.n` responses to each problem; rows are sorted by slot and sample."""
    rows = continued(step, draw, draw.continues) if draw.continues else requested(step, draw)
    parts = []
    for part, requests, how in _asked(step, draw, rows):
        finished = partial(_anticipate, step, draw.purpose, part.reset_index(drop=True))
        answers = await step.run.cluster.generate(draw.version, requests, how, finished)
        kept = [*ID_COLUMNS, *(PROMPT if draw.continues else [])]  # a problem's own prompt is in the data set
        parts.append(part[kept].reset_index(drop=True).join(answers))
    if not parts:  # nothing failed, so nothing is continued
        parts = [rows.reindex(columns=[*ID_COLUMNS, *PROMPT, *ANSWER])]
    found = pd.concat(parts).sort_values(["slot", "sample"], kind="stable").reset_index(drop=True)
    ref = step.run.store.write_rows(step.path(f"rollout-{draw.purpose}-{draw.shard:04d}.parquet"), found)
    return Rows(rows=ref, tokens=int(found["token_ids"].map(len).sum()))


def begin(step: Step, draw: Draw) -> None:
    """Have the engine start on a draw that is its next, before the phase that asks for it."""
    _, requests, how = next(_asked(step, draw, requested(step, draw)))
    step.run.cluster.begin(draw.version, requests, how)


def _asked(
    step: Step, draw: Draw, rows: pd.DataFrame
) -> Iterator[tuple[pd.DataFrame, list[Request], SamplingSettings]]:
    """What the engine is asked, call by call: rows, their requests and how they are sampled."""
    config = step.config.rollout
    for sampled, part in rows.groupby(rows["sample"] != GREEDY, sort=False):
        media = part["media_references"] if "media_references" in part else [()] * len(part)
        asked = zip(part["prompt_token_ids"], part["seed"], media, strict=True)
        requests = [Request(prompt, seed, tuple(shown)) for prompt, seed, shown in asked]
        temperature, top_p = (draw.temperature, config.top_p) if sampled else (0.0, 1.0)
        yield part, requests, SamplingSettings(temperature, top_p, config.max_response_length)


def _anticipate(step: Step, purpose: str, asked: pd.DataFrame, answers: pd.DataFrame) -> None:
    """Let the grader begin with responses that have finished."""
    problems = step.run.problems(purpose).rows(asked["id"].iloc[answers.index].tolist())
    step.run.grader.anticipate(problems.assign(response=answers["response"].tolist()))


def requested(step: Step, draw: Draw) -> pd.DataFrame:
    """One row per response to sample: id, slot, sample, prompt_token_ids, the key of its draws, what it shows."""
    problems = step.run.problems(draw.purpose).rows(draw.ids)
    samples = ([GREEDY] if draw.greedy else []) + list(range(draw.n))
    # Validation draws the same noise every time, so that two evaluations differ by the policy alone.
    moment = "held-out" if draw.purpose == "validation" else step.number
    seed = step.config.train.seed
    media = problems["media_references"] if "media_references" in problems else [()] * len(problems)
    return pd.DataFrame(
        {
            "id": name,
            "slot": draw.first_slot + place,
            "sample": sample,
            "prompt_token_ids": prompt,
            "seed": derive_seed(seed, draw.purpose, moment, draw.first_slot + place, name, sample),
            "media_references": tuple(shown),
        }
        for place, (name, prompt, shown) in enumerate(
            zip(problems["id"], problems["prompt_token_ids"], media, strict=True)
        )
        for sample in samples
    )


def continued(step: Step, draw: Draw, first: tuple[Ref, Ref]) -> pd.DataFrame:
    """One row per second turn: as `requested`, with its own prompt."""
    rollouts, scores = (step.run.store.read_rows(ref) for ref in first)
    rows = rollouts.merge(scores.drop(columns="id"), on=["slot", "sample"], validate="one_to_one")
    problems = step.run.problems(draw.purpose).rows(rows["id"].tolist())
    found = second_turns(rows, problems, step.run.tokenizer, step.config.rollout.second_turn)
    if found.empty:
        return found.reindex(columns=[*ID_COLUMNS, *PROMPT, "seed"])
    seed = step.config.train.seed
    keys = zip(found["slot"], found["id"], found["sample"], strict=True)
    return found.assign(seed=[derive_seed(seed, draw.purpose, step.number, *key) for key in keys])


@phase("score", retries=2)
async def score(step: Step, draw: Draw, sampled: Rows) -> Rows:
    """Grade a shard's responses."""
    rows = step.run.store.read_rows(sampled.rows)
    problems = step.run.problems(draw.purpose).rows(rows["id"].tolist())
    # A data set may have columns called response or sample; the policy's come first.
    whole = rows.join(problems.drop(columns=["prompt_token_ids", *(name for name in rows if name in problems)]))
    scored = await asyncio.to_thread(step.run.grader.grade, whole)
    if len(scored) and scored["accuracy"].isna().all():
        # Kept, such a result would meet every resume: a grader that is down must be asked again.
        raise RewardError(f"Not one of {len(scored)} responses could be graded ({draw.purpose} shard {draw.shard})")
    writing = [(f"score-{draw.purpose}-{draw.shard:04d}.parquet", scored.drop(columns="exec_time", errors="ignore"))]
    if "exec_time" in scored:
        writing.append((exec_times_name(draw.purpose, draw.shard), scored[[*ID_COLUMNS, "exec_time"]]))
    write = step.run.store.write_rows
    ref, *_ = await asyncio.gather(*(asyncio.to_thread(write, step.path(name), rows) for name, rows in writing))
    return Rows(rows=ref)


def exec_times(step: Step, shards: int) -> pd.DataFrame | None:
    """CPU seconds of the programs of a step's first rollout shards, second turns too: slot, sample, exec_time.

    None when a file of them is gone or damaged.
    """
    purposes = ("rollout", "second-turn") if step.config.rollout.second_turn.enabled else ("rollout",)
    paths = [step.path(exec_times_name(purpose, shard)) for purpose in purposes for shard in range(shards)]
    found = [times for path in paths if (times := read_exec_times(step.run.store, path)) is not None]
    return pd.concat(found, ignore_index=True) if len(found) == len(paths) else None
