"""Evaluating a run or a model: sample every problem n times, grade, and report pass@k.

Covered: the order of work; shards sampled or graded before an interruption are not repeated. Not covered: the flow's
parameters (flows/deployed.py), what is evaluated, estimates (ares/evaluation).
"""

import asyncio
import logging
from typing import Any

from ares.evaluation import Evaluation, finish
from flows.draw import sample, shards_of
from flows.prefect_conductor import PrefectConductor
from tasks.mismatch import check_draw
from tasks.sampling import Draw

logger = logging.getLogger(__name__)


async def conduct(evaluation: Evaluation) -> dict[str, Any]:
    """Evaluate inside a flow run, which shows the phases."""
    with PrefectConductor(evaluation.run) as evaluation.run.conductor:
        return await evaluate(evaluation)


async def evaluate(evaluation: Evaluation) -> dict[str, Any]:
    """`measure`, and log it to MLflow. Returns the summary."""
    with evaluation.run.store.lock():
        try:
            summary = await measure(evaluation)
        finally:
            evaluation.run.close()
        from ares.reports import log_evaluation  # imports MLflow, which is slow

        await asyncio.to_thread(log_evaluation, evaluation, summary)
        figures = {name: estimate["value"] for name, estimate in summary["estimates"].items()}
        logger.info("evaluation of %s: %s", evaluation.request.target, figures, extra={"about": {"estimates": figures}})
        return summary


async def measure(evaluation: Evaluation) -> dict[str, Any]:
    """Sample and grade what is missing, write samples.parquet, problems.parquet and summary.json; returns the summary.

    The caller holds the evaluation's folder."""
    samples = await sample(evaluation, _shards(evaluation))
    # Log-probs of greedy answers have no temperature at which the learner could be compared.
    temperature, is_greedy = evaluation.description["temperature"], evaluation.request.greedy
    compared = {} if is_greedy else await check_draw(evaluation, samples.rollouts, "validation", temperature)
    return finish(evaluation, samples.rollouts, samples.scores, compared)


def _shards(evaluation: Evaluation) -> list[Draw]:
    """Purpose `validation` draws as a run's own evaluations do: the same samples, as far as n is the same."""
    request, ids = evaluation.request, evaluation.run.train_set.frame["id"].tolist()
    how = {"temperature": evaluation.description["temperature"], "greedy": request.greedy}
    drawn = shards_of(evaluation, "validation", ids, evaluation.number, 0 if request.greedy else request.n)
    return [draw.model_copy(update=how) for draw in drawn]
