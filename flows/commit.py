"""The end of a step: evaluation, checkpoint, commit.

Not covered: what comes before (flows/train.py, flows/learn.py).
"""

import logging

from ares.reports import held_out_line, step_line
from ares.runs import Step
from ares.store import Ref
from flows.draw import averaged_shards, held_out_shards, sample
from tasks.mismatch import check_draw
from tasks.training import EvaluationResult, checkpoint, evaluate

logger = logging.getLogger(__name__)


async def end_step(step: Step, artifacts: dict[str, Ref], metrics: dict[str, float]) -> None:
    """Evaluate the new policy and write its weights, where it is time, and commit."""
    config, number = step.config, step.number
    is_last = config.train.ends(number, step.state.counters.tokens)
    evaluated = await evaluate_policy(step) if number % config.validation.every == 0 or is_last else None
    if number % config.train.checkpoint_every == 0 or is_last:
        artifacts["checkpoint"] = (await checkpoint(step)).checkpoint
    commit(step, artifacts, metrics, evaluated)


async def evaluate_policy(step: Step) -> EvaluationResult | None:
    """Accuracy of the policy after the step on the held-out problems, and of its averaged weights where they are kept;
    None where there are no such problems."""
    if step.run.validation_set is None:
        return None
    shards, averaged = held_out_shards(step, step.run.validation_set.frame["id"].tolist()), None
    if step.config.learner.ema is not None and step.number:  # at step 0 the average is the policy
        # First, so that the engine then has the weights that the next step samples from.
        averaged = await sample(step, averaged_shards(shards))
    samples = await sample(step, shards)
    compared = await check_draw(step, samples.rollouts, "validation", step.config.validation.temperature)
    evaluated = await evaluate(step, samples, averaged)
    return evaluated.model_copy(update={"metrics": evaluated.metrics | compared})


def commit(
    step: Step, artifacts: dict[str, Ref], metrics: dict[str, float], evaluated: EvaluationResult | None
) -> None:
    """Finish a step: from here on it is never done again."""
    if evaluated is not None:
        step.state.add_evaluation(step.number, evaluated.metrics)
        artifacts, metrics = artifacts | {"evaluation": evaluated.rows}, metrics | evaluated.metrics
    step.run.look_for_files(step.state)
    step.commit(artifacts, metrics)
    logger.info("%s%s", step_line(step.run), held_out_line(step.run), extra=step.run.about)
