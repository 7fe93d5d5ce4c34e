"""What the flow `ares-eval` does: sample every problem n times, grade, and report pass@k.

Covered: the order of work; shards sampled or graded before an interruption are not repeated. Not covered: the flow's
parameters (flows/deployed.py), what is evaluated, estimates (ares/evaluation).
"""

import asyncio
import logging
from typing import Any

from ares.evaluation import Evaluation, EvaluationRequest, finish
from flows.run_log import run_log
from tasks.mismatch import check_draw
from tasks.sampling import Draw, Rows, check_graded, rollout, score
from tasks.training import Samples

logger = logging.getLogger(__name__)
_prepared: dict[str, Evaluation] = {}
"""Evaluations that the command line has opened and checked, for the flow that it starts next."""


def prepare(request: EvaluationRequest) -> Evaluation:
    """Open and check an evaluation before anything is started. Raises what `Evaluation.open` raises."""
    evaluation = _prepared[request.model_dump_json()] = Evaluation.open(request)
    return evaluation


async def as_asked(request: EvaluationRequest) -> dict[str, Any]:
    """The body of the flow in flows/deployed.py."""
    with run_log():
        if (name := request.model_dump_json()) not in _prepared:
            prepare(request)
        summary = await evaluate(_prepared.pop(name))
        figures = {name: estimate["value"] for name, estimate in summary["estimates"].items()}
        logger.info("evaluation of %s: %s", request.target, figures, extra={"about": {"estimates": figures}})
        return summary


async def evaluate(evaluation: Evaluation) -> dict[str, Any]:
    """Sample and grade what is missing, write samples.parquet, problems.parquet and summary.json, log them to MLflow.
    Returns the summary."""
    request = evaluation.request
    with evaluation.run.store.lock():
        evaluation.run.store.discard_unreadable_results(evaluation.number)
        try:
            samples = await _samples(evaluation)
            # Log-probs of greedy answers have no temperature at which the learner could be compared.
            temperature = evaluation.description["temperature"]
            compared = (
                {} if request.greedy else await check_draw(evaluation, samples.rollouts, "validation", temperature)
            )
        finally:
            evaluation.run.close()
        summary = finish(evaluation, samples.rollouts, samples.scores, compared)
        await asyncio.to_thread(_log, evaluation, summary)
        return summary


def _log(evaluation: Evaluation, summary: dict[str, Any]) -> None:
    from ares.reports import log_evaluation  # imports MLflow, which is slow

    log_evaluation(evaluation, summary)


async def _samples(evaluation: Evaluation) -> Samples:
    """Every shard with its scores. Each is graded while the next one is generated."""
    request, size = evaluation.request, evaluation.config.rollout.shard_prompts
    ids = evaluation.run.train_set.frame["id"].tolist()
    sampled: list[Rows] = []
    grading: list[asyncio.Task[Rows]] = []
    draws: list[Draw] = []
    evaluation.run.progress.begin("validation", len(ids) * request.samples)
    for place in range(0, len(ids), size):
        # Purpose `validation` draws as a run's own evaluations do: the same samples, as far as n is the same.
        draw = Draw(
            version=evaluation.number,
            purpose="validation",
            shard=len(sampled),
            first_slot=place,
            ids=ids[place : place + size],
            n=0 if request.greedy else request.n,
            temperature=evaluation.description["temperature"],
            greedy=request.greedy,
        )
        await _shard(evaluation, draw, sampled, grading)
        draws.append(draw)
        evaluation.run.progress.reach(draw.purpose, (place + len(draw.ids)) * request.samples)
    if request.turns > 1:
        await _second_turns(evaluation, draws, sampled, grading)
    scores = [(await task).rows for task in grading]
    check_graded(evaluation, scores)
    return Samples(rollouts=[rows.rows for rows in sampled], scores=scores, slots=[])


async def _second_turns(
    evaluation: Evaluation, draws: list[Draw], sampled: list[Rows], grading: list[asyncio.Task[Rows]]
) -> None:
    """One more shard for each: second turns of its failed programs."""
    for draw, rows, scores in list(zip(draws, sampled, grading, strict=True)):
        continues = (rows.rows, (await scores).rows)
        second = draw.model_copy(update={"shard": draw.shard + len(draws), "continues": continues})
        await _shard(evaluation, second, sampled, grading)


async def _shard(evaluation: Evaluation, draw: Draw, sampled: list[Rows], grading: list[asyncio.Task[Rows]]) -> None:
    """Sample a shard, and begin to grade it."""
    sampled.append(await rollout(evaluation, draw, label=f"{draw.shard}"))
    grading.append(asyncio.create_task(score(evaluation, draw, sampled[-1], label=f"{draw.shard}")))
