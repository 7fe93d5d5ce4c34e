"""The method: bootstrap, then training steps, each ending in a commit.

    bootstrap   sample ─▶ score ─┬▶ buckets, targets, τ, alpha ─▶ COMMIT 0
                     └▶ measure ─┘
    step n      draw ─▶ experience ─▶ shape ─▶ update ─▶ evaluate ─▶ checkpoint ─▶ COMMIT n
                (engine, graders)  (learner)  (pure)  (learner)

A phase's result is kept the moment it is there (tasks/phase.py), so a killed run goes on with the phase in flight; what
only the steps after it need is drawn beside them. Not covered: what a phase does (tasks/), how shards go through engine
and graders (flows/draw.py), how a step ends (flows/commit.py), steps on demonstrations (flows/learn.py), opening a run,
Prefect, terminal and MLflow (flows/start.py).
"""

import logging
from collections.abc import Callable
from functools import partial

from ares.runs import Conductor, Run, Step
from flows import learn
from flows.commit import commit, end_step, evaluate_policy
from flows.draw import Ahead, Sampling, draw, shards_of, together
from flows.watch import Trip, watch
from tasks.mismatch import check_draw, check_mismatch
from tasks.sampling import check_graded
from tasks.training import EvaluationResult, Experience, experience, shape_batch, summarise_bootstrap, update

logger = logging.getLogger(__name__)


async def train(run: Run, conductor: Conductor, committed: Callable[[], None], last: int | None = None) -> Trip | None:
    """Take a run from its last commit to its last step (or to step `last`); returns the wire that rewinds it, if any.

    conductor: who shows, times and retries steps and phases. committed: called after each commit. The caller holds the
    run directory's lock and has restored the run's state.
    """
    config, run.conductor = run.config, conductor
    last = config.train.steps if last is None else last
    begins = "begins" if run.commit is None else f"resumed after step {run.state.step} of {config.train.steps}"
    logger.info("%s %s", run.store.name, begins, extra=run.about)
    ahead, trip = Ahead(run, last), None
    begin, take_step = learn.begin, learn.learn_step
    if config.learns_from == "samples":
        begin, take_step = bootstrap, partial(train_step, ahead=ahead)
    try:
        if run.commit is None:
            await conductor.step(f"{run.store.name} bootstrap", 0, partial(begin, run))
            committed()
        while run.state.step < last and not config.train.ends(run.state.step, run.state.counters.tokens):
            if (trip := watch(run)) is not None:
                break
            ahead.begin()
            number = run.state.step + 1
            title = f"{run.store.name} step-{number:06d}"
            await conductor.step(title, number, partial(take_step, run, number))
            committed()
        else:
            watch(run, is_over=True)
    finally:
        ahead.end()
    logger.info("%s ended after step %d of %d", run.store.name, run.state.step, config.train.steps, extra=run.about)
    return trip


async def bootstrap(run: Run) -> None:
    """One pass over the train set: buckets, targets, τ and alpha before the first step; the first evaluation."""
    step, config = run.step(0), run.config
    with Sampling(step, shards_of(step, "bootstrap", run.bootstrap_prompts(), 0, config.bootstrap.n)) as sampling:

        async def check_and_evaluate() -> tuple[dict[str, float], EvaluationResult | None]:
            compared = await check_draw(step, await sampling.rolled_out(), "bootstrap", config.rollout.temperature)
            return compared, await evaluate_policy(step)

        drawn, measured, (compared, evaluated) = await together(
            sampling.graded(), _measure_shards(step, sampling), check_and_evaluate()
        )
    check_graded(step, drawn.scores)
    shaped = await summarise_bootstrap(step, drawn, measured)
    step.state = run.restored(shaped.state)
    run.plan(step.state, step.number)
    commit(step, {"samples": shaped.samples}, shaped.metrics | compared, evaluated)


async def _measure_shards(step: Step, sampling: Sampling) -> list[Experience]:
    """What the learner measures of each shard: of one while the engine samples the next, unless they share GPUs."""
    if step.run.workers.takes_turns:
        await sampling.rolled_out()
    step.run.progress.begin("experience", len(sampling.rollouts))
    measured = []
    for shard, rollout in enumerate(sampling.rollouts):
        rows = (await rollout).rows
        measured.append(await experience(step, [rows], [], f"experience-{shard:04d}", label=str(shard)))
        step.run.progress.add("experience", 1)
    return measured


async def train_step(run: Run, number: int, ahead: Ahead) -> None:
    """One training step. ahead: draws that were made while earlier steps ran."""
    step, config = run.step(number), run.config
    chosen = await draw(step, ahead)
    samples = chosen.samples
    measured = chosen.measured or [await experience(step, samples.rollouts, samples.slots, "experience")]
    shaped = await shape_batch(step, samples, measured)
    check_mismatch(step, samples.rollouts, shaped.metrics)
    step.state = run.restored(shaped.state)
    run.plan(step.state, step.number)
    step.train_on(shaped.batch)
    updated = await update(step, shaped.batch)
    check_mismatch(step, samples.rollouts, updated.metrics)
    step.state.take_update(updated.beta, int(updated.metrics["actor/skipped_updates"]))

    artifacts = {"batch": shaped.batch, "samples": shaped.samples}
    artifacts |= {f"under-way-{shard:04d}": ref for shard, ref in enumerate(chosen.under_way)}
    metrics = chosen.metrics | shaped.metrics | updated.metrics
    if config.rollout.max_staleness:
        metrics["rollout/staleness"] = float(number - 1 - step.sampled_version)
    await end_step(step, artifacts, metrics)
