"""Phases between the samples and the next policy: experience, shape, update, evaluate, checkpoint; the bootstrap's end.

Not covered: sampling and grading (tasks/sampling.py), the order of phases and the commit (flows/train.py).
"""

import asyncio
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel

from algorithms.difficulty import BUCKETS, difficulty_codes
from algorithms.filtering import informative_rows, varied_rows
from algorithms.protocol import DataProto
from ares.config import FilterConfig
from ares.errors import UserError
from ares.grading import RewardError
from ares.runs import Step
from ares.step import (
    GREEDY,
    SECOND_TURN_SLOT,
    Counters,
    Evaluation,
    RunState,
    as_sampled,
    ending_shares,
    entropy_statistics,
    gathered,
    graded,
    mark_hwe,
    observe_tests,
    outcome_parts,
    readable_rows,
    shape,
    token_batch,
    with_credit,
)
from ares.store import Ref
from tasks.phase import phase

OF_PROBLEMS = ("prompt", "answer", "prompt_token_ids")


class Samples(BaseModel):
    """The shards whose rows make a batch, and the slots of the groups that are trained on."""

    rollouts: list[Ref]
    scores: list[Ref]
    slots: list[int]
    """Empty: every group."""


class Batch(BaseModel):
    """A folder with a DataProto."""

    batch: Ref


class Shaped(BaseModel):
    """What shaping leaves: the batch the update takes, a readable table of its samples, the state, the metrics."""

    batch: Ref
    samples: Ref
    state: Ref
    metrics: dict[str, float]


class Updated(BaseModel):
    """What the update leaves besides new weights."""

    metrics: dict[str, float]
    beta: dict[str, Any] | None


class Evaluated(BaseModel):
    """Held-out accuracy after a step."""

    rows: Ref
    accuracy: float
    mean_length: float
    metrics: dict[str, float]


class Saved(BaseModel):
    """A weight checkpoint."""

    checkpoint: Ref


@phase("experience")
async def experience(step: Step, rollouts: list[Ref], slots: list[int], folder: str) -> Batch:
    """Have the learner add log-probs and exact entropies to what was sampled; with `slots`, to those groups alone.

    With algorithm.policy.old_log_probs=engine, what the engine said stands for them.
    """
    rows = _sampled_rows(step, rollouts, "rollout")
    rows = rows[(rows["sample"] != GREEDY) & (rows["slot"].isin(slots) if slots else True)]
    batch = token_batch(rows, step.run.pad_id)
    if step.config.algorithm.policy.old_log_probs == "engine":
        return Batch(batch=step.run.store.write_folder(step.path(folder), as_sampled(batch).save))
    inputs = step.run.store.write_folder(step.path(f"inputs-{folder}"), batch.save)
    version = max(step.number - 1, 0)
    whole = await step.run.cluster.experience(version, inputs, step.path(folder))
    step.run.store.discard(inputs)  # the learner's folder holds it all
    return Batch(batch=whole)


@phase("shape")
async def shape_batch(step: Step, samples: Samples, found: list[Batch], state: dict[str, Any]) -> Shaped:
    """HWE tokens, difficulty, targets, alpha, rewards, KL and advantages of the chosen groups; moves the state on."""
    run = step.run
    after = run.restored(state)
    batch = _graded_batch(step, samples, found)
    metrics = await asyncio.to_thread(shape, batch, after, step.config, run.is_trigger)
    return Shaped(
        batch=run.store.write_folder(step.path("batch"), batch.save),
        samples=run.store.write_rows(step.path("samples.parquet"), readable_rows(batch)),
        state=run.store.write_json(step.path("state.json"), after.state_dict()),
        metrics=metrics,
    )


def _graded_batch(step: Step, samples: Samples, found: list[Batch]) -> DataProto:
    """The samples as one batch: what the learner found of them, and what graders said."""
    rows = joined_rows(step, samples, "rollout")
    parts = [DataProto.load(step.run.store.folder(part.batch)) for part in found]
    return graded(gathered(parts, rows, step.run.pad_id), rows)


@phase("update")
async def update(step: Step, batch: Ref) -> Updated:
    """Train on the batch: the policy before the step becomes the policy after it."""
    result = await step.run.cluster.update(step.number)
    return Updated(metrics=result.metrics, beta=result.beta)


@phase("evaluate")
async def evaluate(step: Step, samples: Samples) -> Evaluated:
    """Accuracy and length on the held-out problems, over all and per bucket of their own accuracy."""
    rows = joined_rows(step, samples, "validation")
    scored = _graded(rows)
    accuracy = scored["accuracy"].astype(float)
    per_problem = accuracy.groupby(scored["id"]).agg(["mean", "max"])
    codes = difficulty_codes(per_problem["mean"].to_numpy())
    length = float(rows["token_ids"].map(len).mean())
    metrics = {
        "val/accuracy": float(accuracy.mean()),
        "val/pass_at_n": float(per_problem["max"].mean()),
        "val/response_length": length,
        "val/format": float(rows["format"].mean()),
        "val/clip_ratio": float((rows["finish_reason"] == "length").mean()),
    } | {f"val/{bucket}_share": float(np.mean(codes == code)) for code, bucket in enumerate(BUCKETS)}
    shown = ["id", "sample", "prompt", "media_references", "response", "accuracy", "finish_reason"]
    shown = [name for name in shown if name in rows]
    if "pass_ratio" in rows:
        metrics["val/pass_ratio"] = float(scored["pass_ratio"].astype(float).mean())
        metrics |= {f"val/{name}": share for name, share in ending_shares(scored).items()}
        shown += ["pass_ratio", "error_type", "test_outcomes"]
    table = rows[shown]
    ref = step.run.store.write_rows(step.path("evaluation.parquet"), table)
    return Evaluated(rows=ref, accuracy=float(accuracy.mean()), mean_length=length, metrics=metrics)


@phase("checkpoint")
async def checkpoint(step: Step) -> Saved:
    """Write weights and optimiser after the step."""
    return Saved(checkpoint=await step.run.cluster.save(step.number, f"checkpoints/{step.number:06d}"))


@phase("bootstrap")
async def summarise_bootstrap(step: Step, samples: Samples, found: list[Batch]) -> Shaped:
    """First difficulty of every problem, first targets, τ and alpha, from one pass over the train set.

    found: what the learner found of each shard of the samples.
    """
    run = step.run
    state = RunState.initial(step.config, len(run.train))
    thresholds, columns = [], []
    for shard in found:  # τ needs every response before the first HWE token can be counted
        thresholds.append(entropy_statistics(DataProto.load(run.store.folder(shard.batch)), step.config))
    threshold = state.threshold.update(np.concatenate(thresholds))
    for rollouts, scores, shard in zip(samples.rollouts, samples.scores, found, strict=True):
        batch = _graded_batch(step, Samples(rollouts=[rollouts], scores=[scores], slots=[]), [shard])
        entropy_statistics(batch, step.config)
        mark_hwe(batch, threshold, step.config, run.is_trigger)
        columns.append(readable_rows(batch))
    table = pd.concat(columns, ignore_index=True)
    scored = _graded(table)
    state.difficulty.update(
        scored["id"].to_numpy(),
        scored["accuracy"].to_numpy(dtype=float),
        scored["entropies"].to_numpy(dtype=float),
        scored["high_entropy_token_num"].to_numpy(dtype=float),
    )
    observe_tests(state.tests, table)
    state.step = 0
    tokens = int(table["tokens"].sum())
    unscored = len(table) - len(scored)
    state.counters = Counters(table["id"].nunique(), len(table), tokens, unscored_samples=unscored)
    metrics = state.metrics() | {
        "bootstrap/accuracy": float(scored["accuracy"].astype(float).mean()),
        "bootstrap/unscored": float(unscored),
        "bootstrap/response_length": tokens / len(table),
    }
    ref = run.store.write_rows(step.path("samples.parquet"), table)
    return Shaped(
        batch=ref, samples=ref, state=run.store.write_json(step.path("state.json"), state.state_dict()), metrics=metrics
    )


class EngineMismatch(UserError, RuntimeError):
    """The engine's log-probs are not the learner's: it sampled from another policy than the one being trained."""


def check_mismatch(step: Step, samples: Samples, metrics: dict[str, float]) -> None:
    """Raise EngineMismatch when the step's own tokens show an engine with other weights than the learner's.

    Every sampled token is compared, so this is the check that the weights' update in place worked. The samples are
    discarded: a resumed run draws them again, from an engine that was started anew. Stale samples differ by the update
    in between, and are not checked.
    """
    limit, found = step.config.rollout.max_mismatch, metrics.get("mismatch/logprob_diff_mean", 0.0)
    if limit is None or found <= limit or step.is_stale:
        return
    for ref in samples.rollouts:
        step.run.store.discard(ref)
    raise EngineMismatch(
        f"step {step.number}: the log-probs of {step.config.rollout.engine} and learner differ by {found:.4g} nats a "
        f"token (rollout.max_mismatch={limit}). Start the run again: its samples are drawn anew. If the difference "
        "stays, the engine computes another model or in another precision: rollout.engine=transformers is the "
        "reference, and rollout.max_mismatch raises the bound."
    )


def _sampled_rows(step: Step, rollouts: list[Ref], purpose: str) -> pd.DataFrame:
    """What was sampled, with its prompts and answers."""
    rows = pd.concat([step.run.store.read_rows(ref) for ref in rollouts], ignore_index=True)
    problems = step.run.problems(purpose).rows(rows["id"].tolist())
    problems = problems[[name for name in (*OF_PROBLEMS, "media_references") if name in problems]]
    if "prompt" in rows:  # second turns have prompts of their own
        problems = rows[["prompt", "prompt_token_ids"]].combine_first(problems)
    return rows.drop(columns=["prompt", "prompt_token_ids"], errors="ignore").join(problems)


def joined_rows(step: Step, samples: Samples, purpose: str) -> pd.DataFrame:
    """Samples with their scores and their problems; with `slots`, only those groups, in that order."""
    rows = _sampled_rows(step, samples.rollouts, purpose)
    scores = pd.concat([step.run.store.read_rows(ref) for ref in samples.scores], ignore_index=True)
    whole = rows.merge(scores.drop(columns="id"), on=["slot", "sample"], validate="one_to_one")
    whole = whole.assign(truncated=whole["finish_reason"] == "length", tokens=whole["token_ids"].map(len))
    is_greedy = whole["sample"] == GREEDY
    if is_greedy.any():
        greedy = whole[is_greedy]
        baselines = sum(outcome_parts(greedy, step.config, step.run.state.tests).values())
        whole = whole[~is_greedy].assign(
            baseline=whole["slot"].map(pd.Series(baselines, index=greedy["slot"], dtype="Float64"))
        )
    if purpose == "rollout" and step.config.rollout.second_turn.enabled:
        whole = with_credit(whole, step.config, step.run.state.tests)
    chosen = whole[whole["slot"].isin(samples.slots)] if samples.slots else whole
    # Second turns stand behind the first ones of their prompt, so that both are in one optimiser step.
    order = chosen.assign(prompt_slot=chosen["slot"] % SECOND_TURN_SLOT)
    places = order.sort_values(["prompt_slot", "slot", "sample"], kind="stable").index
    return chosen.loc[places].reset_index(drop=True)


def finished_state(shaped: dict[str, Any], updated: Updated, evaluated: Evaluated | None, step: int) -> dict[str, Any]:
    """The state to commit: what shaping left, with β from the update and the evaluation of the step."""
    state = dict(shaped) | {"step": step, "beta": updated.beta}
    counters = dict(state["counters"])
    counters["skipped_updates"] += int(updated.metrics["actor/skipped_updates"])
    state["counters"] = counters
    return with_evaluation(state, evaluated, step)


def with_evaluation(state: dict[str, Any], evaluated: Evaluated | None, step: int) -> dict[str, Any]:
    """The state with one evaluation more."""
    if evaluated is None:
        return state
    found = vars(Evaluation(step, evaluated.accuracy, evaluated.mean_length))
    return state | {"evaluations": [*state["evaluations"], found]}


def keep_groups(rows: pd.DataFrame, filtering: FilterConfig, rewards: np.ndarray) -> list[int]:
    """Slots of the groups worth training on: at least two rows with a reward and, when filtering, something to learn.

    rows: as `joined_rows` gives them; rewards: [B], NaN for none. With ReMax the greedy answer must have a score too.
    """
    counts = ~np.isnan(rewards)
    if "baseline" in rows:
        counts &= rows["baseline"].notna().to_numpy()
    scored, rewards = rows[counts], rewards[counts]
    slots = scored["slot"].to_numpy()
    keep = scored.groupby("slot")["slot"].transform("size").to_numpy() >= 2
    if filtering.enabled and filtering.key == "reward":
        keep &= varied_rows(slots, rewards)
    elif filtering.enabled:
        keep &= informative_rows(slots, scored["accuracy"].to_numpy(dtype=float), filtering.low, filtering.high)
    return [int(slot) for slot in np.unique(slots[keep])]


def _graded(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that have a score. Raises RewardError when there is none: no figure can be made of them."""
    graded = rows[rows["accuracy"].notna()]
    if graded.empty:
        raise RewardError(f"none of the {len(rows)} responses could be graded: see what the reward function reports")
    return graded
