"""What the flow `ares-train` does: bootstrap, then one DAG run per training step, each ending in a commit.

Covered: the order of work, where a run resumes, what runs concurrently. Not covered: refills (flows/refill.py), the
flow's parameters (flows/deployed.py), the work itself (tasks/). A killed run resumes from its last commit; phases of
the step in flight whose results are kept are not repeated.
"""

import asyncio
import logging
import math
import time
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from prefect import flow, runtime, tags

from ares.reports import Display, Tracker, held_out_line, load_tracker, step_line
from ares.runs import Run, Step
from ares.step import finished_state, with_evaluation
from ares.store import Ref
from flows import ownership
from flows.ahead import Ahead
from flows.loading import loading
from flows.opening import prepare, taken
from flows.prefect_conductor import PrefectConductor
from flows.refill import begin_sampling, begun, sample, training_samples
from flows.run_log import run_log
from tasks.mismatch import check_draw, check_mismatch
from tasks.training import (
    Batch,
    EvaluationResult,
    checkpoint,
    evaluate,
    experience,
    shape_batch,
    summarise_bootstrap,
    update,
)

if TYPE_CHECKING:
    from flows.parameters import Settings

logger = logging.getLogger(__name__)
REPORT_SECONDS = 5.0
"""Between reports of commits to MLflow."""
RUN: ContextVar[Run] = ContextVar("run")
"""The run that this process's step flows belong to, since parameters of flows must be JSON."""
AHEAD: ContextVar[Ahead] = ContextVar("ahead")
"""Their draws ahead of time."""


@flow(name="ares-train", persist_result=False)
async def ares_train(run: str) -> dict[str, Any]:
    """Train a prepared run by its name: the deployments' flow without its form, which takes time to build."""
    with run_log():
        return await train(taken(run))


async def started(run: str) -> dict[str, Any]:
    """Run the flow of a prepared run, named after it."""
    summary: dict[str, Any] = await ownership.started(ares_train, run, run=run)
    return summary


async def as_asked(
    profile: str, run: str, settings: "Settings", overrides: list[str], last: int | None = None
) -> dict[str, Any]:
    """The body of the flows in flows/deployed.py."""
    with run_log():
        return await train(_opened(profile, run, settings, overrides), last)


def _opened(profile: str, run: str, settings: "Settings", overrides: list[str]) -> Run:
    """The run that a flow run asks for; a Retry finds it by the same name."""
    from flows.parameters import RUNS_OWN, as_overrides

    changed = [*as_overrides(settings), *overrides]
    if profile == RUNS_OWN:
        return taken(prepare(None, changed, run or None))
    return taken(prepare(str(profile), changed, run or str(runtime.flow_run.name)))


async def train(run: Run, last: int | None = None) -> dict[str, Any]:
    """Take a run from its last commit to its last step (or to step `last`); returns its summary."""
    last = run.config.train.steps if last is None else last
    name, tag = run.store.name, f"run:{run.store.name}"
    with run.store.lock(), run.store.synced_behind(), tags(tag):
        run.restore()
        begins = "begins" if run.commit is None else f"resumed after step {run.state.step} of {run.config.train.steps}"
        logger.info("%s %s", name, begins, extra=_about(run))
        ahead = Ahead(run, last)
        # The step in flight, and samples of those after it.
        for step in range(run.state.step + 1, run.state.step + 3 + run.config.rollout.max_staleness):
            run.store.discard_unreadable_results(step)
        RUN.set(run)
        AHEAD.set(ahead)
        display = Display(run)
        conductor = PrefectConductor(run)
        try:
            await asyncio.to_thread(run.cluster.warm_up)
            tracking = asyncio.create_task(_loaded_tracker(run))
            reporting, reported = asyncio.create_task(_catch_up(tracking)), time.monotonic()
            with display, conductor:
                if run.commit is None:
                    await conductor.step(f"{name} bootstrap", 0, bootstrap)
                    display.committed()
                    conductor.committed(run)
                while run.state.step < last and not run.config.train.ends(run.state.step, run.state.counters.tokens):
                    # No step waits for a slow or absent MLflow, and several short steps share a call.
                    if reporting.done() and time.monotonic() - reported > REPORT_SECONDS:
                        await reporting
                        reporting, reported = asyncio.create_task(_catch_up(tracking)), time.monotonic()
                    ahead.begin()
                    number = run.state.step + 1
                    await conductor.step(f"{name} step-{number:06d}", number, partial(train_step, number))
                    display.committed()
                    conductor.committed(run)
                run.cluster.answered.set()  # a finished run has sampled nothing
                await reporting
                await asyncio.to_thread((await tracking).finish)
        finally:
            ahead.end()
            run.close()
            run.cluster.disconnect()  # before Prefect shows the run as ended: Retry needs the process gone
    logger.info("%s ended after step %d of %d", name, run.state.step, run.config.train.steps, extra=_about(run))
    return display.summary()


def _about(run: Run) -> dict[str, Any]:
    """What a JSON log line holds besides its message."""
    return {"about": {"run": run.store.name, "step": max(run.state.step, 0)}}


def _say_committed(run: Run) -> None:
    logger.info("%s", f"{step_line(run)}{held_out_line(run)}", extra=_about(run))


async def _loaded_tracker(run: Run) -> Tracker:
    """The tracker. Loading MLflow takes two seconds; until then engines should have work."""

    def load() -> Tracker:
        with loading():
            return load_tracker(run.config, run.store)

    await run.cluster.answered.wait()
    return await asyncio.to_thread(load)


async def _catch_up(tracking: asyncio.Task[Tracker]) -> None:
    """Report commits, once the tracker's library is loaded."""
    await asyncio.to_thread((await tracking).catch_up)


async def bootstrap() -> None:
    """One pass over the train set: buckets, targets, τ and alpha before the first step; the first evaluation."""
    step = RUN.get().step(0)
    run, config = step.run, step.config
    ids = run.train_set.first(config.bootstrap.max_prompts).frame["id"].tolist()
    run.progress.begin("experience", math.ceil(len(ids) / config.rollout.shard_prompts))
    measuring: list[asyncio.Task[Batch]] = []
    evaluating: asyncio.Task[EvaluationResult | None] | None = None
    compared: dict[str, float] = {}

    def measure(rollout: Ref) -> None:
        for task in measuring:
            if task.done():
                task.result()  # an error of the learner ends the draw now, not after its last shard
        measuring.append(begun(_measured(step, rollout, len(measuring))))

    async def beside(rollouts: list[Ref]) -> None:
        nonlocal compared, evaluating
        compared = await check_draw(step, rollouts, "bootstrap", config.rollout.temperature)
        if at_once is not None:
            evaluating = begun(_evaluation(step))
        for rollout in rollouts[len(measuring) :]:
            measure(rollout)
            await measuring[-1]
        for task in measuring:
            await task

    at_once = None if run.cluster.takes_turns else measure  # the learner works while the engine samples the next shard
    try:
        samples = await sample(step, "bootstrap", ids, 0, config.bootstrap.n, beside=beside, rolled_out=at_once)
        evaluating = evaluating or begun(_evaluation(step))
        shaped = await summarise_bootstrap(step, samples, [task.result() for task in measuring])
        evaluated = await evaluating
    finally:
        for task in [*measuring, *([evaluating] if evaluating else [])]:
            task.cancel()
    state = _with_evaluation(run.with_plan(run.store.read_json(shaped.state)), evaluated)
    metrics = shaped.metrics | compared | (evaluated.metrics if evaluated else {})
    artifacts = {"samples": shaped.samples} | ({"evaluation": evaluated.rows} if evaluated else {})
    step.commit(artifacts, state, metrics)
    _say_committed(run)


async def _measured(step: Step, rollout: Ref, shard: int) -> Batch:
    batch = await experience(step, [rollout], [], f"experience-{shard:04d}", label=str(shard))
    step.run.progress.add("experience", 1)
    return batch


async def train_step(number: int) -> None:
    """One training step: sample and filter, experience, shape, update, evaluate, commit."""
    step = RUN.get().step(number)
    run, config = step.run, step.config
    drawn = AHEAD.get().take(number)
    samples, measured, state, sampled_metrics = await training_samples(step, drawn)
    shaped = await shape_batch(step, samples, measured, state)
    at_once = config.algorithm.policy.old_log_probs == "learner"
    if at_once:
        check_mismatch(step, samples.rollouts, shaped.metrics)
    after_shaping = run.with_plan(run.store.read_json(shaped.state))
    is_last = config.train.ends(number, after_shaping["counters"]["tokens"])
    run.cluster.announce_update(number, shaped.batch, state["beta"])
    updated = await update(step, shaped.batch)
    step.batch = shaped.batch
    if not at_once:
        check_mismatch(step, samples.rollouts, updated.metrics)

    evaluated = await _evaluation(step) if number % config.validation.every == 0 or is_last else None
    under_way = [] if drawn is None else (await drawn).under_way
    artifacts = {"batch": shaped.batch, "samples": shaped.samples}
    artifacts |= {f"under-way-{shard:04d}": ref for shard, ref in enumerate(under_way)}
    if evaluated:
        artifacts["evaluation"] = evaluated.rows
    if number % config.train.checkpoint_every == 0 or is_last:
        artifacts["checkpoint"] = (await checkpoint(step)).checkpoint
    metrics = sampled_metrics | shaped.metrics | updated.metrics | (evaluated.metrics if evaluated else {})
    if config.rollout.max_staleness:
        metrics["rollout/staleness"] = float(number - 1 - step.sampled_version)
    skipped = int(updated.metrics["actor/skipped_updates"])
    state = finished_state(after_shaping, number, updated.beta, skipped)
    step.commit(artifacts, _with_evaluation(state, evaluated), metrics)
    _say_committed(run)
    if not is_last and not config.rollout.max_staleness:
        begin_sampling(run.step(number + 1))


async def _evaluation(step: Step) -> EvaluationResult | None:
    """Accuracy of the policy after the step on the held-out problems; None where there are none."""
    if step.run.validation_set is None:
        return None
    settings = step.config.validation
    ids = step.run.validation_set.frame["id"].tolist()
    samples = await sample(step, "validation", ids, step.number, settings.n, temperature=settings.temperature)
    compared = await check_draw(step, samples.rollouts, "validation", settings.temperature)
    evaluated = await evaluate(step, samples)
    return evaluated.model_copy(update={"metrics": evaluated.metrics | compared})


def _with_evaluation(state: dict[str, Any], evaluated: EvaluationResult | None) -> dict[str, Any]:
    return state if evaluated is None else with_evaluation(state, evaluated.accuracy, evaluated.mean_length)
