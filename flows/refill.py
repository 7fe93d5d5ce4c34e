"""Sampling as part of a flow: shards rolled out while the ones before are graded, until a batch is full.

Covered: what is generated beside what is graded. Not covered: a shard's work (tasks/sampling.py), how much is drawn and
which groups are chosen (ares/step/refill.py), the rest of a step (flows/train.py).
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from ares.config import Config
from ares.runs import Step
from ares.step import FEW_STEPS_SLOT, Refill
from ares.store import Ref
from tasks.sampling import Draw, Rows, begin, check_graded, expect, program_seconds, rollout, rollout_part, score
from tasks.training import Batch, Samples, choose, experience

T = TypeVar("T")


class Drawn(NamedTuple):
    """What was drawn ahead for a step."""

    samples: Samples
    timings: dict[str, float]
    """Seconds of their phases."""
    under_way: list[Ref]
    """The responses of later steps that were drawn with them (rollout.parts), shard by shard."""


async def training_samples(
    step: Step, drawn: Awaitable[Drawn] | None = None
) -> tuple[Samples, list[Batch], dict[str, Any], dict[str, float]]:
    """Draw prompts until rollout.prompts groups are worth training on. Raises FilterExhausted.

    drawn: the first draw, where it was made ahead; those after it are from the newest policy.
    Returns them, the learner's measures of them, the state with cursor and counters moved on, and metrics.
    """
    run, config = step.run, step.config
    state = run.restored(run.state.state_dict())
    refill = Refill(step.number, config)
    samples = Samples(rollouts=[], scores=[], slots=[])
    batches: list[Batch] = []

    def graded(drawn: Samples) -> None:
        choose(step, drawn, refill, state)

    while not refill.is_full:
        asked, is_first = refill.ask(), refill.drawn == 0
        ids = state.planned.pop(0) if is_first and state.planned else run.next_prompts(state, asked)
        beside = partial(_experience, step, batches) if config.measures_all else None
        version, n, before = step.sampled_version if is_first else step.number - 1, config.rollout.n, samples.scores
        if is_first and drawn is not None:
            part, step.timings, _ = await drawn
            graded(part)
            if beside is not None:
                await beside(part.rollouts)
        else:
            slots = (refill.shards, refill.drawn)
            part = await sample(step, "rollout", ids, version, n, *slots, beside=beside, before=before, graded=graded)
        samples.rollouts += part.rollouts
        samples.scores += part.scores
    samples.slots = refill.slots
    if config.reward.judges_programs:
        step.timings |= program_seconds(step, refill)
    if not config.measures_all:
        batches.append(await experience(step, samples.rollouts, samples.slots, "experience"))
    return samples, batches, state.state_dict(), refill.metrics()


def begin_sampling(step: Step) -> None:
    """Have the engine start on what a step draws first, while the one before is still being recorded."""
    run, settings = step.run, step.config.rollout
    ids = run.next_prompts(run.restored(run.state.state_dict()), settings.prompts)
    begin(step, _draws(step, "rollout", ids, step.sampled_version, settings.n)[0])


async def _experience(step: Step, batches: list[Batch], rollouts: list[Ref]) -> None:
    batches.append(await experience(step, rollouts, [], f"experience-{len(batches):04d}"))


def begun(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Work as a task; of several that fail one is raised, and nobody need ask for the errors of the others."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda task: task.cancelled() or task.exception())
    return task


async def sample(
    step: Step, purpose: str, ids: list[str], version: int, n: int, first_shard: int = 0, first_slot: int = 0,
    temperature: float | None = None, beside: Callable[[list[Ref]], Awaitable[None]] | None = None,
    before: Sequence[Ref] = (), rolled_out: Callable[[Ref], None] | None = None,
    roll_out: Callable[[Draw], Awaitable[Rows]] | None = None, graded: Callable[[Samples], None] | None = None,
) -> Samples:  # fmt: skip
    """Roll out shard after shard; each is graded while the next one is generated, the last while `beside` runs.

    before: scores of what the step drew before. rolled_out: is told of each shard. roll_out: samples a shard, where it
    is not asked for whole. graded: is given all, while `beside` may still run. Raises RewardError where too much of it
    all has no score.
    """
    config = step.config
    draws: list[Draw] = []
    sampled: list[Rows] = []
    grading: list[asyncio.Task[Rows]] = []

    async def shard_of(draw: Draw) -> None:
        rows = await (roll_out(draw) if roll_out else rollout(step, draw, label=f"{draw.purpose} {draw.shard}"))
        draws.append(draw)
        sampled.append(rows)
        if rolled_out is not None:
            rolled_out(rows.rows)
        grading.append(begun(score(step, draw, rows, label=f"{draw.purpose} {draw.shard}")))
        for task in grading:
            if task.done():
                task.result()  # a reward that raises ends the draw now, not after its last shard

    planned = _draws(step, purpose, ids, version, n, first_shard, first_slot, temperature)
    done, progress = 0, step.run.progress
    progress.begin(purpose, sum(draw.responses for draw in planned))
    for draw, following in zip(planned, [*planned[1:], None], strict=True):
        # Greedy answers are a second call; beside stale samples, other draws may come between.
        goes_on = following is not None and not (following.greedy or config.rollout.max_staleness)
        expect(step, following if goes_on else None)
        await shard_of(draw)
        done += draw.responses  # a shard that was kept had nobody who counted its responses
        progress.reach(purpose, done)
    for draw, rows, scores in list(zip(draws, sampled, grading, strict=True)):
        if (second := _second_turn(draw, len(planned), config)) is not None:
            await shard_of(second.model_copy(update={"continues": (rows.rows, (await scores).rows)}))
    samples = Samples(rollouts=[rows.rows for rows in sampled], scores=[], slots=[])

    async def done_beside() -> float:
        if beside is not None:
            await beside(samples.rollouts)
        return time.perf_counter()

    async def all_graded() -> float:
        samples.scores = [(await task).rows for task in grading]
        check_graded(step, [*before, *samples.scores])
        ended = time.perf_counter()
        if graded is not None:
            graded(samples)
        return ended

    generated, scored = await _both(done_beside(), all_graded())
    if purpose == "rollout":
        waited = max(scored - generated, 0.0)
        step.timings["timing_s/scoring_wait"] = step.timings.get("timing_s/scoring_wait", 0.0) + waited
    return samples


async def _both(first: Coroutine[Any, Any, T], second: Coroutine[Any, Any, T]) -> tuple[T, T]:
    """What the two return, done at once; neither goes on when one of them raises."""
    tasks = [begun(first), begun(second)]
    try:
        one, other = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    return one, other


async def sample_part(
    step: Step, ids: list[str], under_way: list[Ref], ready: Step, ready_ids: list[str]
) -> tuple[Samples, list[Ref]]:
    """Sample one part (rollout.parts), shard by shard: the first of a step's responses, the last of those of `ready`,
    which are graded; nothing is ready before step 1. Returns these, and what stays under way.
    """
    left: list[Ref] = []
    n = step.config.rollout.n
    draws = _draws(step, "rollout", ids, step.sampled_version, n)

    async def roll_out(of_ready: Draw) -> Rows:
        whole = await shard_of(draws[of_ready.shard])
        assert whole is not None
        return whole

    async def shard_of(draw: Draw) -> Rows | None:
        before = under_way[draw.shard] if under_way else None
        part = await rollout_part(step, draw, before, label=f"{draw.purpose} {draw.shard}")
        left.append(part.under_way)
        return part.whole

    if ready.number > 0:
        return await sample(ready, "rollout", ready_ids, ready.sampled_version, n, roll_out=roll_out), left
    for draw in draws:
        await shard_of(draw)
    return Samples(rollouts=[], scores=[], slots=[]), left


def _second_turn(draw: Draw, shards: int, config: Config) -> Draw | None:
    """The draw that continues one's failed programs; None where none does. shards: of first turns."""
    if draw.purpose == "rollout" and config.rollout.second_turn.enabled:
        return draw.model_copy(update={"purpose": "second-turn", "n": config.rollout.second_turn.children})
    asked_twice = draw.purpose == "validation" and config.validation.turns > 1 and draw.denoising_steps is None
    if asked_twice:  # the purpose names the data set: it stays
        return draw.model_copy(update={"n": 1, "shard": draw.shard + shards})
    return None


def _draws(
    step: Step, purpose: str, ids: list[str], version: int, n: int, first_shard: int = 0, first_slot: int = 0,
    temperature: float | None = None,
) -> list[Draw]:  # fmt: skip
    config = step.config
    size = config.rollout.shard_prompts
    draws = [
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
    if purpose == "validation" and config.validation.few_steps is not None:
        few = {"denoising_steps": config.validation.few_steps}
        draws += [
            draw.model_copy(update={"shard": shard, "first_slot": FEW_STEPS_SLOT + draw.first_slot, **few})
            for shard, draw in enumerate(draws, len(draws))
        ]
    return draws
