"""Sampling as part of a step: shards rolled out while the ones before are graded, until a batch is full.

    engine    shard 0 ▶ shard 1 ▶ shard 2 ▶ … refill      engine and graders are never waited for by each other:
    grader              shard 0 ▶ shard 1 ▶ shard 2       the engine has the next shard's requests in hand
    learner                                 all of them   (programs: while they are judged; else the chosen groups only)

Covered: that overlap, second turns, refills, draws ahead of time (rollout.max_staleness, rollout.parts). Not covered: a
shard's work (tasks/sampling.py), how much is drawn and which groups are chosen (ares/step/refill.py).
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeVar

from ares.runs import Run, Step, under_way
from ares.step import FEW_STEPS_SLOT, Refill
from ares.store import Ref
from tasks.episodes import play
from tasks.sampling import Draw, Rows, Scores, check_graded, rollout, rollout_part, score
from tasks.training import Experience, Samples, choose, experience

T = TypeVar("T")
IN_HAND = 2
"""Shards of single responses that the engine has at a time: one that it samples, and the next one."""


class Sampling:
    """Shards on their way through engine and grader. Leaving the context cancels what is not done.

    roll_out: samples a shard, if not the phase `rollout` or, with an environment, `play`. Of episodes all shards are
    under way: while the environments of one answer, the engine samples the turns of others.
    """

    def __init__(
        self, step: Step, draws: list[Draw], roll_out: Callable[[Draw], Awaitable[Rows]] | None = None
    ) -> None:
        self.step = step
        episodes = step.config.environment is not None
        self._roll_out = roll_out or (lambda draw: (play if episodes else rollout)(step, draw, label=draw.label))
        self._room = asyncio.Semaphore(len(draws) if episodes else IN_HAND)
        self._done = 0
        self.rollouts: list[asyncio.Task[Rows]] = []
        self._scores: list[asyncio.Task[Scores]] = []
        step.run.progress.begin(draws[0].purpose, sum(draw.responses for draw in draws))
        first = [(draw, *self._begin(draw)) for draw in draws]
        for draw, *turn in first:
            if (second := _second_turn(step, draw, len(draws))) is not None:
                self._begin(second, *turn)

    def _begin(self, draw: Draw, *first: asyncio.Task[Any]) -> tuple[asyncio.Task[Rows], asyncio.Task[Scores]]:
        rows = begin(self._rolled_out(draw, *first))
        scores = begin(self._graded(draw, rows))
        self.rollouts.append(rows)
        self._scores.append(scores)
        return rows, scores

    async def _rolled_out(self, draw: Draw, *first: asyncio.Task[Any]) -> Rows:
        """first: rollout and scores of the shard whose failed programs get a second turn, if it is one of these."""
        if first:
            draw = draw.model_copy(update={"continues": tuple([(await each).rows for each in first])})
        async with self._room:
            rows = await self._roll_out(draw)
        self._done += draw.responses  # nobody has counted those of a shard that was kept
        self.step.run.progress.reach(draw.purpose, self._done)
        return rows

    async def _graded(self, draw: Draw, rows: asyncio.Task[Rows]) -> Scores:
        return await score(self.step, draw, await rows, label=draw.label)

    async def rolled_out(self) -> list[Ref]:
        """The samples of all shards."""
        return [rows.rows for rows in await asyncio.gather(*self.rollouts)]

    async def graded(self) -> Samples:
        """All shards and their grades; the first error of any shard is raised at once."""
        scores = await asyncio.gather(*self._scores)
        return Samples(
            rollouts=await self.rolled_out(),
            scores=[each.rows for each in scores],
            cpu_seconds=sum(sum(each.cpu_seconds) for each in scores),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for task in [*self.rollouts, *self._scores]:
            task.cancel()


def begin(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start work as a task whose error need not be retrieved: of several that fail, only one is raised."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda task: task.cancelled() or task.exception())
    return task


async def together(*works: Coroutine[Any, Any, Any]) -> list[Any]:
    """Await all at once; when one raises, the others are cancelled."""
    tasks = [begin(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def sample(step: Step, draws: list[Draw]) -> Samples:
    """Roll out and grade shards. Raises RewardError if too many samples have no score."""
    with Sampling(step, draws) as sampling:
        samples = await sampling.graded()
    check_graded(step, samples.scores)
    return samples


@dataclass
class Chosen:
    """The groups that a step trains on."""

    samples: Samples = field(default_factory=lambda: Samples(rollouts=[], scores=[]))
    measured: list[Experience] = field(default_factory=list)
    """What the learner has measured of every group, where it looks at all of them."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Of everything that was drawn."""
    under_way: list[Ref] = field(default_factory=list)
    """Unfinished responses of later steps that were sampled with them (rollout.parts), shard by shard."""


async def draw(step: Step, ahead: "Ahead") -> Chosen:
    """Draw prompts until rollout.prompts groups are worth training on. Raises FilterExhausted.

    The first draw may have been made ahead; later ones are from the newest policy. The state's cursor and counters
    advance.
    """
    run, state, config = step.run, step.state, step.config
    chosen, refill = Chosen(), Refill(step.number, config)
    while not refill.is_full:
        asked, is_first = refill.ask(), refill.drawn == 0
        ids = state.planned.pop(0) if is_first and state.planned else run.next_prompts(state, asked, step.number)
        if is_first and (early := await ahead.take(step.number)) is not None:
            step.timings, chosen.under_way, sampling = early.timings, early.under_way, early.sampling
        else:
            version = step.sampled_version if is_first else step.number - 1
            shards = shards_of(step, "rollout", ids, version, config.rollout.n, refill.shards, refill.drawn)
            sampling = Sampling(step, shards)
        assert sampling is not None
        with sampling:
            await _add(step, chosen, refill, sampling)
    chosen.samples.slots = refill.slots
    chosen.metrics = refill.metrics()
    if config.reward.judges_programs:
        step.timings |= refill.seconds_per_solved(chosen.samples.cpu_seconds)
    return chosen


async def _add(step: Step, chosen: Chosen, refill: Refill, drawing: Sampling) -> None:
    """Choose among a draw's groups once they are graded; meanwhile the learner measures them, if it looks at all."""

    async def grade() -> float:
        drawn = await drawing.graded()
        chosen.samples.rollouts += drawn.rollouts
        chosen.samples.scores += drawn.scores
        chosen.samples.cpu_seconds += drawn.cpu_seconds
        check_graded(step, chosen.samples.scores)
        ended = time.perf_counter()
        choose(step, drawn, refill)
        return ended

    async def measure() -> float:
        rollouts = await drawing.rolled_out()
        if step.config.measures_all:
            name = f"experience-{len(chosen.measured):04d}"
            chosen.measured.append(await experience(step, rollouts, [], name))
        return time.perf_counter()

    graded, measured = await together(grade(), measure())
    waited = step.timings.get("timing_s/scoring_wait", 0.0)
    step.timings["timing_s/scoring_wait"] = waited + max(graded - measured, 0.0)


# ---- which shards ----------------------------------------------------------------------------------------------------


def shards_of(
    step: Step, purpose: str, ids: list[str], version: int, n: int, first_shard: int = 0, first_slot: int = 0,
) -> list[Draw]:  # fmt: skip
    """The shards of a draw."""
    config, size = step.config, step.config.rollout.shard_prompts
    sampling = config.validation if purpose == "validation" else config.rollout
    return [
        Draw(
            version=version,
            purpose=purpose,
            shard=first_shard + shard,
            first_slot=first_slot + shard * size,
            ids=ids[shard * size : (shard + 1) * size],
            n=n,
            temperature=sampling.temperature,
            greedy=purpose == "rollout" and config.algorithm.advantage.needs_greedy,
        )
        for shard in range(math.ceil(len(ids) / size))
    ]


def held_out_shards(step: Step, ids: list[str]) -> list[Draw]:
    """The shards of an evaluation after the step; masked diffusion may be asked once more with few denoising steps."""
    settings = step.config.validation
    draws = shards_of(step, "validation", ids, step.number, settings.n)
    if settings.few_steps is None:
        return draws
    few = {"denoising_steps": settings.few_steps}
    return draws + [
        draw.model_copy(update={"shard": shard, "first_slot": FEW_STEPS_SLOT + draw.first_slot, **few})
        for shard, draw in enumerate(draws, len(draws))
    ]


def averaged_shards(draws: list[Draw]) -> list[Draw]:
    """The shards of an evaluation once more, from averaged weights: the same problems, slots and noise. Their numbers
    follow those of the evaluation's second turns."""
    return [draw.model_copy(update={"shard": 2 * len(draws) + draw.shard, "averaged": True}) for draw in draws]


def _second_turn(step: Step, draw: Draw, shards: int) -> Draw | None:
    """The draw of second turns for a draw's failed programs, if any. shards: the number of first turns' shards."""
    second_turn, validation = step.config.rollout.second_turn, step.config.validation
    if draw.purpose == "rollout" and second_turn.enabled:
        return draw.model_copy(update={"purpose": "second-turn", "n": second_turn.children})
    if draw.purpose == "validation" and validation.turns > 1:  # the purpose names the data set: it stays
        return draw.model_copy(update={"n": 1, "shard": draw.shard + shards})
    return None


# ---- draws ahead of time ---------------------------------------------------------------------------------------------


class Early(NamedTuple):
    """A draw that was made ahead."""

    sampling: Sampling | None
    """All of it is sampled and graded. None: it belongs to no step, as parts of responses before those of step 1."""
    timings: dict[str, float]
    """Seconds of its phases."""
    under_way: list[Ref]
    """Unfinished responses of later steps, shard by shard."""


class Ahead:
    """The first draws of coming steps, made while the steps before them run (rollout.max_staleness=k).

    Draw n is from the policy after step n − 1 − k, whenever it is made: what a killed process has finished is kept, and
    the rest is drawn again from that policy. With p parts (rollout.parts) it samples the first part of step n's
    responses and the last of those of step n − p + 1, which takes it. For k = p = 2:

        draw                      5, of version 2                   6, of version 3                   7, of version 4
        responses of step 4       part 2 ─▶ step 4 takes them
                     step 5       part 1 ─▶ COMMIT 4 keeps them ─▶  part 2 ─▶ step 5 takes them
                     step 6                                         part 1 ─▶ COMMIT 5 keeps them ─▶  part 2 ─▶ …

    Draws that only steps after `last` would take are not made.
    """

    def __init__(self, run: Run, last: int) -> None:
        self.run = run
        self.last = last
        self.parts = run.config.rollout.parts
        self._drawing: dict[int, asyncio.Task[Early]] = {}

    def begin(self) -> None:
        """Start the draws that the last commit has planned, one after the other."""
        assert self.run.commit is not None
        done, left = self.run.state.step, under_way(self.run.commit)
        planned = dict(enumerate(self.run.state.planned, done + 1))
        for number in planned:
            is_new = done == 0 or number >= done + self.parts  # the commit has the earlier ones
            if is_new and number < self.last + self.parts and number not in self._drawing:
                self._drawing[number] = begin(self._draw(number, planned, self._drawing.get(number - 1), left))

    async def _draw(
        self, number: int, planned: dict[int, list[str]], before: asyncio.Task[Early] | None, left: list[Ref]
    ) -> Early:
        """Make a draw. left: the unfinished responses, if there is no draw `before`."""
        if before is not None:
            left = (await before).under_way
        begun, ready = (self.run.step(each, ahead=True) for each in (number, number + 1 - self.parts))
        unfinished: dict[int, Ref] = {}

        def shards(step: Step) -> list[Draw]:
            return shards_of(step, "rollout", planned[step.number], step.sampled_version, self.run.config.rollout.n)

        async def part(draw: Draw) -> Any:  # Rows, or None before step 1
            earlier = left[draw.shard] if left else None
            part = await rollout_part(begun, shards(begun)[draw.shard], earlier, label=draw.label)
            unfinished[draw.shard] = part.under_way
            return part.finished

        sampling = None
        if ready.number > 0:
            with Sampling(ready, shards(ready), part if self.parts > 1 else None) as sampling:
                await sampling.graded()
        else:
            for shard in shards(begun):
                await part(shard)
        return Early(sampling, begun.timings | ready.timings, [unfinished[shard] for shard in sorted(unfinished)])

    async def take(self, number: int) -> Early | None:
        """Wait for the draw of a step, which is no longer kept here; None: the step makes it itself."""
        drawing = self._drawing.pop(number + self.parts - 1, None)
        return None if drawing is None else await drawing

    def end(self) -> None:
        """Cancel the draws that are not done."""
        for drawing in self._drawing.values():
            drawing.cancel()
