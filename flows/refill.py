"""Sampling as part of a flow: shards rolled out while the ones before are graded, until a batch is full.

Covered: the overlap of sampling and grading. Not covered: a shard's work (tasks/sampling.py), how much is drawn and
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
    """Unfinished responses of later steps, sampled with them (rollout.parts), shard by shard."""


async def training_samples(
    step: Step, drawn: Awaitable[Drawn] | None = None
) -> tuple[Samples, list[Batch], dict[str, Any], dict[str, float]]:
    """Draw prompts until rollout.prompts groups are worth training on. Raises FilterExhausted.

    drawn: the first draw, if it was made ahead; later ones are from the newest policy.
    Returns the samples, the learner's measures of them, the state with cursor and counters advanced, and metrics.
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
    """Have the engine start a step's first draw while the step before is still being recorded."""
    run, settings = step.run, step.config.rollout
    ids = run.next_prompts(run.restored(run.state.state_dict()), settings.prompts)
    begin(step, _draws(step, "rollout", ids, step.sampled_version, settings.n)[0])


async def _experience(step: Step, batches: list[Batch], rollouts: list[Ref]) -> None:
    batches.append(await experience(step, rollouts, [], f"experience-{len(batches):04d}"))


def begun(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start work as a task whose error need not be retrieved: of several that fail, only one is raised."""
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

    before: scores of the step's earlier draws. rolled_out: called with each shard. roll_out: samples a shard, if not
    the phase `rollout`. graded: called with all samples, maybe while `beside` still runs. Raises RewardError if too
    many samples have no score.
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
        # Greedy answers are a second call; with stale samples, other draws may come between.
        goes_on = following is not None and not (following.greedy or config.rollout.max_staleness)
        expect(step, following if goes_on else None)
        await shard_of(draw)
        done += draw.responses  # nobody has counted the responses of a shard that was kept
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
    """Await both at once; when one raises, the other is cancelled."""
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
    """Sample one part (rollout.parts), shard by shard: the first of a step's responses and the last of `ready`'s, which
    are graded; before step 1 there are none. Returns the graded samples and the unfinished responses.
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
    """The draw of second turns for a draw's failed programs, if any. shards: the number of first turns' shards."""
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
