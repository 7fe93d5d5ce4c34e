"""Sampling as part of a flow: shards rolled out while the ones before are graded, until a batch is full.

Covered: what is generated beside what is graded, the refill of filtered batches, the metrics of everything drawn. Not
covered: a shard's work (tasks/sampling.py), the rest of a step (flows/train.py).
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ares.errors import UserError
from ares.runs import Step
from ares.step import (
    SECOND_TURN_SLOT,
    RunState,
    code_metrics,
    is_second_turn,
    outcome_parts,
    second_turn_metrics,
    seconds_per_solved,
)
from ares.store import Ref
from tasks.sampling import Draw, Rows, begin, exec_times, rollout, score
from tasks.training import Batch, Samples, experience, joined_rows, keep_groups


class FilterExhausted(UserError, RuntimeError):
    """Online filtering found no full batch within algorithm.filter.max_tries rollouts."""


async def training_samples(step: Step) -> tuple[Samples, list[Batch], dict[str, Any], dict[str, float]]:
    """Draw prompts until rollout.prompts groups are worth training on.

    Returns them, what the learner found of them, the state with cursor and counters moved on, and figures.
    """
    run, config = step.run, step.config
    state = run.restored(run.state.state_dict())
    wanted, filtering = config.rollout.prompts, config.algorithm.filter
    samples = Samples(rollouts=[], scores=[], slots=[])
    # Programs take a while to judge: the learner looks at all of them meanwhile, those that filtering drops too.
    ahead = config.reward.kind == "code" or not filtering.enabled
    found: list[Batch] = []
    drawn = kept = useful = scored = shards = 0
    correct = 0.0
    everything: list[pd.DataFrame] = []
    for attempt in range(1, filtering.max_tries + 1):
        missing = wanted - kept
        keep_rate = max(kept / drawn, 0.125) if drawn else 1.0
        ask = min(wanted, math.ceil(missing / keep_rate))
        ids = run.next_prompts(state, ask)
        beside = partial(_experience, step, found) if ahead else None
        version = step.sampled_version
        part = await sample(step, "rollout", ids, version, config.rollout.n, shards, drawn, beside=beside)
        shards += math.ceil(len(ids) / config.rollout.shard_prompts)
        rows = joined_rows(step, part, "rollout")
        rewards = sum(outcome_parts(rows, config, run.state.tests).values())
        good = keep_groups(rows, filtering, np.asarray(rewards))
        everything.append(rows)
        samples.rollouts += part.rollouts
        samples.scores += part.scores
        first_turn = [slot for slot in good if slot < SECOND_TURN_SLOT]
        chosen = set(first_turn[:missing])
        samples.slots += [slot for slot in good if slot % SECOND_TURN_SLOT in chosen]
        drawn += len(ids)
        kept += len(chosen)
        state.absorb_sampled(rows, good)
        accuracy = rows.loc[~is_second_turn(rows), "accuracy"]
        correct += float(accuracy.fillna(0.0).astype(float).sum())
        scored += int(accuracy.notna().sum())
        useful += len(first_turn)
        if kept == wanted:
            metrics = {
                "reward/sampled_accuracy": correct / max(scored, 1),
                "filter/kept_share": useful / drawn,
                "filter/rollouts": float(attempt),
                "filter/drawn_prompts": float(drawn),
            }
            if config.reward.kind == "code":
                drawn_rows = pd.concat(everything, ignore_index=True)
                metrics |= code_metrics(drawn_rows[~is_second_turn(drawn_rows)], samples.slots)
                times = exec_times(step, shards)
                step.timings |= seconds_per_solved(drawn_rows, times) if times is not None else {}
                if config.rollout.second_turn.enabled:
                    metrics |= second_turn_metrics(drawn_rows, config.rollout.second_turn.children)
            if not ahead:
                found.append(await experience(step, samples.rollouts, samples.slots, "experience"))
            return samples, found, state.state_dict(), metrics
    by_accuracy = f"an accuracy between {filtering.low} and {filtering.high}"
    worth = "rewards that differ" if filtering.key == "reward" else by_accuracy
    raise FilterExhausted(
        f"step {step.number}: after {filtering.max_tries} rollouts ({drawn} prompts) only {kept} of {wanted} groups "
        f"had {worth}. The data is too easy or too hard for this "
        "policy: change the data, raise rollout.n, or set algorithm.filter.enabled=false."
    )


async def sample_ahead(step: Step, state: RunState) -> None:
    """Roll out and grade what a step will draw first, while the one before updates; it will find the kept results.

    state: as the step before leaves it; its cursor is moved on.
    """
    ids = step.run.next_prompts(state, step.config.rollout.prompts)
    await sample(step, "rollout", ids, step.sampled_version, step.config.rollout.n)


def begin_sampling(step: Step) -> None:
    """Have the engine start on what a step draws first, while the one before is still being recorded."""
    run, settings = step.run, step.config.rollout
    ids = run.next_prompts(run.restored(run.state.state_dict()), settings.prompts)
    begin(step, _draws(step, "rollout", ids, step.sampled_version, settings.n)[0])


async def _experience(step: Step, found: list[Batch], rollouts: list[Ref]) -> None:
    found.append(await experience(step, rollouts, [], f"experience-{len(found):04d}"))


async def sample(
    step: Step, purpose: str, ids: list[str], version: int, n: int, first_shard: int = 0, first_slot: int = 0,
    temperature: float | None = None, beside: Callable[[list[Ref]], Awaitable[None]] | None = None,
) -> Samples:  # fmt: skip
    """Roll out shard after shard; each is graded while the next one is generated, the last while `beside` goes on."""
    config = step.config
    draws: list[Draw] = []
    sampled: list[Rows] = []
    grading: list[asyncio.Task[Rows]] = []

    async def shard_of(draw: Draw) -> None:
        rows = await rollout(step, draw, label=f"{draw.purpose} {draw.shard}")
        draws.append(draw)
        sampled.append(rows)
        grading.append(asyncio.create_task(score(step, draw, rows, label=f"{draw.purpose} {draw.shard}")))

    for draw in _draws(step, purpose, ids, version, n, first_shard, first_slot, temperature):
        await shard_of(draw)
    if purpose == "rollout" and config.rollout.second_turn.enabled:
        for draw, rows, scores in list(zip(draws, sampled, grading, strict=True)):
            continues = (rows.rows, (await scores).rows)
            children = config.rollout.second_turn.children
            await shard_of(draw.model_copy(update={"purpose": "second-turn", "n": children, "continues": continues}))
    rollouts = [rows.rows for rows in sampled]
    if beside is not None:
        await beside(rollouts)
    generated = time.perf_counter()
    scored = [await task for task in grading]
    if purpose == "rollout":
        step.timings["timing_s/scoring_wait"] = (
            step.timings.get("timing_s/scoring_wait", 0.0) + time.perf_counter() - generated
        )
    return Samples(rollouts=rollouts, scores=[rows.rows for rows in scored], slots=[])


def _draws(
    step: Step, purpose: str, ids: list[str], version: int, n: int, first_shard: int = 0, first_slot: int = 0,
    temperature: float | None = None,
) -> list[Draw]:  # fmt: skip
    config = step.config
    size = config.rollout.shard_prompts
    return [
        Draw(
            version=version,
            purpose=purpose,
            shard=first_shard + shard,
            first_slot=first_slot + shard * size,
            ids=ids[shard * size : (shard + 1) * size],
            n=n,
            temperature=config.rollout.temperature if temperature is None else temperature,
            greedy=purpose == "rollout" and config.algorithm.advantage.needs_greedy,
        )
        for shard in range(math.ceil(len(ids) / size))
    ]
