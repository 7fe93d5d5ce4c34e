"""From sampled rows to a training batch and from a batch to rewards: the numbers between rollout and update.

Covered: padding rows into a DataProto; τ and HWE tokens, difficulty, targets and alpha, the AEPO reward, KL in the
reward or its coefficients in the loss, advantages, importance weights, metrics. Pure but for the state it moves on. Not
covered: where rows come from and where batches go (tasks/).
"""

import math
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from algorithms.advantages import (
    compute_gae_advantage_return,
    compute_grpo_outcome_advantage,
    compute_reinforce_plus_plus_outcome_advantage,
    compute_remax_outcome_advantage,
    compute_rloo_outcome_advantage,
)
from algorithms.difficulty import BUCKETS
from algorithms.entropy import (
    entropy_percentile_thresholds,
    hwe_count,
    hwe_mask,
    trigger_mask,
)
from algorithms.filtering import mask_truncated
from algorithms.kl import (
    TokenLevelAdaptiveKLController,
    apply_kl_penalty,
    bucket_means,
    bucket_totals,
    compute_kl,
    row_coefficients,
    second_chance,
    token_coefficients,
)
from algorithms.losses import truncated_importance_weights
from algorithms.protocol import DataProto
from ares.config import Config
from ares.outcome_rewards import observe_tests, outcome_parts
from ares.samples import SECOND_TURN_SLOT
from ares.state import RunState
from rewards.aepo import entropy_score
from rewards.overlong import soft_overlong

OF_GRADERS = ("prompt", "response", "baseline", "pass_ratio", "error_type", "test_outcomes", "second_turn_credit")
"""Columns that not every sample has, and that are stored with those that do."""

OF_WHOLE_ROWS = ("canvas", "mask_seeds")
"""Tensors of a masked-diffusion model whose width is not the response's."""


def to_batch(rows: pd.DataFrame, pad_id: int) -> DataProto:
    """Graded rows (prompt_token_ids, token_ids, log_probs, accuracy, …) as a batch."""
    return graded(token_batch(rows, pad_id), rows)


def token_batch(rows: pd.DataFrame, pad_id: int) -> DataProto:
    """What was sampled, before it is graded: prompts padded left, responses right, uid and sample of each row, and the
    references of what it shows."""
    prompts = _padded(rows["prompt_token_ids"].tolist(), pad_id, np.int64, left=True)
    responses = _padded(rows["token_ids"].tolist(), pad_id, np.int64)
    prompt_mask = _padded([np.ones(len(ids)) for ids in rows["prompt_token_ids"]], 0, np.int64, left=True)
    response_mask = _padded([np.ones(len(ids)) for ids in rows["token_ids"]], 0, np.int64)
    return DataProto.from_dict(
        tensors={
            "prompts": prompts,
            "responses": responses,
            "attention_mask": torch.cat([prompt_mask, response_mask], 1),
            "response_mask": response_mask,
            "engine_log_probs": _padded(rows["log_probs"].tolist(), 0.0, np.float32),
        }
        | _diffusion_tensors(rows, pad_id),
        non_tensors={"uid": rows["slot"].tolist(), "sample": rows["sample"].tolist()}
        | ({"media_references": [list(row) for row in rows["media_references"]]} if "media_references" in rows else {}),
    )


def as_sampled(batch: DataProto) -> DataProto:
    """A token batch with the engine's log-probs for the learner's, and −log p for each token's entropy (nats).

    Over samples the mean of −log p is the entropy; of a single token it says little.
    """
    batch.batch["old_log_probs"] = batch.tensor("engine_log_probs")
    batch.batch["entropies"] = -batch.tensor("engine_log_probs")
    return batch


def graded(batch: DataProto, rows: pd.DataFrame) -> DataProto:
    """A batch with what graders said of its rows, which are given in its order."""
    batch.non_tensor_batch |= DataProto.from_dict(
        non_tensors={
            "global_id": rows["id"].tolist(),
            "ground_truth": rows["answer"].tolist(),
            "accuracy": [None if pd.isna(value) else float(value) for value in rows["accuracy"]],
            "format": rows["format"].tolist(),
            "truncated": (rows["finish_reason"] == "length").tolist(),
            **{name: rows[name].tolist() for name in OF_GRADERS if name in rows},
        }
    ).non_tensor_batch
    batch.meta_info["global_token_num"] = batch.tensor("attention_mask").sum(1).tolist()
    return batch


def gathered(parts: list[DataProto], rows: pd.DataFrame, pad_id: int) -> DataProto:
    """Rows (slot, sample) of batches that together hold them, in the order of `rows`. Raises KeyError on another."""
    whole = parts[0]
    if len(parts) > 1:
        prompt = max(part.tensor("prompts").shape[1] for part in parts)
        response = max(part.tensor("responses").shape[1] for part in parts)
        whole = DataProto.concat([_widened(part, prompt, response, pad_id) for part in parts])
    names = zip(whole.non_tensor_batch["uid"], whole.non_tensor_batch["sample"], strict=True)
    place = {name: row for row, name in enumerate(names)}
    return whole[[place[name] for name in zip(rows["slot"], rows["sample"], strict=True)]]


def _widened(batch: DataProto, prompt: int, response: int, pad_id: int) -> DataProto:
    """The batch with prompts padded to a width on the left, and all that goes with responses on the right."""
    before = batch.tensor("prompts").shape[1]
    left, right = prompt - before, response - batch.tensor("responses").shape[1]
    tensors = {}
    for name in batch.batch.keys():  # noqa: SIM118 - a TensorDict iterates over its rows
        value = batch.tensor(name)
        if name == "prompts":
            value = torch.nn.functional.pad(value, (left, 0), value=pad_id)
        elif name == "attention_mask":
            value = torch.nn.functional.pad(value, (left, right))
        elif name not in OF_WHOLE_ROWS:
            value = torch.nn.functional.pad(value, (0, right), value=pad_id if name == "responses" else 0)
        tensors[name] = value
    return DataProto.from_dict(tensors=tensors, non_tensors=dict(batch.non_tensor_batch))


def _diffusion_tensors(rows: pd.DataFrame, pad_id: int) -> dict[str, Tensor]:
    """What only a masked-diffusion engine says: the whole canvas, and entropies of the passes that uncovered it."""
    if "canvas" not in rows:
        return {}
    return {
        "canvas": _padded(rows["canvas"].tolist(), pad_id, np.int64),
        "entropies": _padded(rows["token_entropies"].tolist(), 0.0, np.float32),
    }


def _padded(sequences: list[Any], fill: float, dtype: Any, left: bool = False) -> Tensor:
    longest = max(len(sequence) for sequence in sequences)
    padded = np.full((len(sequences), longest), fill, dtype=dtype)
    for row, sequence in enumerate(sequences):
        padded[row, longest - len(sequence) if left else 0 : None if left else len(sequence)] = sequence
    return torch.from_numpy(padded)


def entropy_statistics(batch: DataProto, config: Config) -> np.ndarray:
    """Percentile of window entropy per response (nats), from which τ is estimated; also stored with the rows."""
    settings = config.algorithm.entropy
    thresholds = entropy_percentile_thresholds(
        batch.tensor("entropies"), batch.tensor("response_mask"), settings.window, settings.percentile
    )
    lengths = batch.tensor("response_mask").sum(1).clamp(min=1)
    mean = (batch.tensor("entropies") * batch.tensor("response_mask")).sum(1) / lengths
    batch.non_tensor_batch["entropy_percentile_thresholds"] = thresholds.astype(object)
    batch.non_tensor_batch["entropies"] = mean.double().numpy().astype(object)
    return thresholds


def mark_hwe(batch: DataProto, threshold: float, config: Config, is_trigger: Tensor | None) -> None:
    """Write hwe_mask and high_entropy_token_num into the batch."""
    settings = config.algorithm.entropy
    triggers = None if is_trigger is None else trigger_mask(batch.tensor("responses"), is_trigger)
    mask = batch.tensor("response_mask")
    hwe = hwe_mask(batch.tensor("entropies"), mask, threshold, settings.window, triggers)
    batch.batch["hwe_mask"] = hwe
    batch.non_tensor_batch["high_entropy_token_num"] = hwe_count(hwe).astype(object)
    batch.meta_info["high_entropy_threshold"] = threshold


def shape(batch: DataProto, state: RunState, config: Config, is_trigger: Tensor | None = None) -> dict[str, float]:
    """Everything between the experience and the update; moves `state` on and returns the metrics of the step.

    batch: as the learner's `experience` left it. Writes rewards, advantages, returns, kl_coefs and importance weights
    into it, and clears the response_mask of rows that must not be learnt from (unscored, or truncated and masked).
    """
    scored = np.array([value is not None for value in batch.non_tensor_batch["accuracy"]])
    truncated = np.array(batch.non_tensor_batch["truncated"], dtype=bool)
    thresholds = entropy_statistics(batch, config)
    threshold = state.threshold.update(thresholds)
    mark_hwe(batch, threshold, config, is_trigger)
    first_turn = batch.non_tensor_batch["uid"].astype(np.int64) < SECOND_TURN_SLOT
    state.difficulty.update_difficulty_and_skip_gid_set(batch[scored & first_turn])  # a problem is as hard as unaided
    state.difficulty.annotate(batch)
    rewards, parts = _rewards(batch, state, scored, config)
    graded, scored = scored, scored & ~np.isnan(rewards)
    rewards = np.where(scored, rewards, 0.0)
    batch.batch["token_level_scores"] = _at_last_token(rewards, batch.tensor("response_mask"))

    metrics = _kl(batch, state, config)
    overlong = config.algorithm.overlong
    learnt = torch.from_numpy(scored & ~truncated if overlong.mask_truncated else scored)
    counts = torch.from_numpy(scored) if overlong.include_truncated_in_baseline else learnt
    advantages, returns = _advantages(batch, counts, config)
    batch.batch["advantages"], batch.batch["returns"] = advantages, returns
    weights, mismatch = truncated_importance_weights(
        batch.tensor("old_log_probs"),
        batch.tensor("engine_log_probs"),
        batch.tensor("response_mask"),
        config.algorithm.policy.importance_cap,
    )
    batch.batch["importance_weights"] = weights
    if config.algorithm.policy.old_log_probs == "learner":  # else the update measures it
        metrics |= mismatch
    metrics |= state.metrics() | _batch_metrics(batch, rewards, parts, scored, truncated)
    metrics |= {"reward/accuracy": _accuracy(batch, graded), "reward/unscored": float((~graded).sum())}
    batch.batch["response_mask"] = mask_truncated(batch.tensor("response_mask"), ~learnt.numpy())
    return metrics


def readable_rows(batch: DataProto) -> pd.DataFrame:
    """One row a sample: what graders and shaping know of it, without its tensors."""
    columns = {name: list(values) for name, values in batch.non_tensor_batch.items()}
    table = pd.DataFrame(columns).rename(columns={"global_id": "id", "uid": "slot"})
    return table.assign(tokens=batch.tensor("attention_mask")[:, batch.tensor("prompts").shape[1] :].sum(1).numpy())


def _rewards(
    batch: DataProto, state: RunState, scored: np.ndarray, config: Config
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Reward of each row (NaN: none) and its parts, which are stored: every reward can be explained."""
    accuracy = np.where(scored, batch.non_tensor_batch["accuracy"], 0.0).astype(float)
    lengths = batch.tensor("response_mask").sum(1).numpy()
    rows = readable_rows(batch)
    parts = outcome_parts(rows, config, state.tests)
    observe_tests(state.tests, rows)
    if config.algorithm.aepo.enabled:
        counts, targets, alphas, difficulty = batch.require(
            "high_entropy_token_num", "target_high_entropy_token_num", "alpha_entropy", "difficulty"
        )
        parts["entropy_score"] = entropy_score(
            accuracy,
            counts.astype(float),
            targets.astype(float),
            alphas.astype(float),
            difficulty,
            config.algorithm.aepo.zero_baseline,
            config.algorithm.aepo.guard_inversion,
        )
    if config.algorithm.overlong.soft_punish_cache:
        limit = config.rollout.max_response_length
        parts["overlong"] = soft_overlong(lengths, limit, config.algorithm.overlong.soft_punish_cache)
    rewards = np.where(scored, sum(parts.values()), np.nan)
    has_reward = ~np.isnan(rewards)
    for name, values in parts.items():
        if name != "accuracy":
            batch.non_tensor_batch[f"reward_{name}"] = _where_scored(values, has_reward)
    batch.non_tensor_batch["reward"] = _where_scored(rewards, has_reward)
    return rewards, parts


def _accuracy(batch: DataProto, graded: np.ndarray) -> float:
    values = batch.non_tensor_batch["accuracy"][graded].astype(float)
    return float(values.mean()) if len(values) else math.nan


def _where_scored(values: np.ndarray, scored: np.ndarray) -> np.ndarray:
    column = values.astype(object)
    column[~scored] = None
    return column


def _at_last_token(rewards: np.ndarray, mask: Tensor) -> Tensor:
    scores = torch.zeros(mask.shape)
    last = (mask.sum(1) - 1).clamp(min=0)
    scores[torch.arange(len(mask)), last] = torch.from_numpy(rewards).float()
    return scores


def _kl(batch: DataProto, state: RunState, config: Config) -> dict[str, float]:
    """KL in the reward, or its coefficient per token for the loss; the controller sees the batch either way."""
    settings = config.algorithm.kl
    if settings.placement == "none":
        batch.batch["token_level_rewards"] = batch.tensor("token_level_scores")
        return {}
    if settings.placement == "reward":
        (difficulty,) = batch.require("difficulty")
        row_kl = _row_kl(batch, config)
        means = bucket_means(bucket_totals(difficulty, row_kl))
        _, metrics = apply_kl_penalty(batch, state.kl, settings.penalty)
        return metrics | {f"bucket/{bucket}/kl": value for bucket, value in means.items()}
    batch.batch["token_level_rewards"] = batch.tensor("token_level_scores")
    (difficulty, accuracy) = batch.require("difficulty", "accuracy")
    row_kl = _row_kl(batch, config)
    totals = bucket_totals(difficulty, row_kl)
    means = bucket_means(totals)
    if isinstance(state.kl, TokenLevelAdaptiveKLController):
        coefficients = row_coefficients(state.kl.kl_coefs, difficulty)
    else:
        coefficients = np.full(len(batch), state.kl.kl_coef)
    metrics = {"critic/kl": float(row_kl.mean()), "critic/kl_coef": float(coefficients.mean())}
    metrics |= {f"bucket/{bucket}/kl": value for bucket, value in means.items()}
    known = np.array([1.0 if value is None else value for value in accuracy], dtype=float)
    coefficients = second_chance(coefficients, difficulty, known, settings.relax_wrong_easy)
    batch.batch["kl_coefs"] = token_coefficients(
        coefficients,
        batch.tensor("hwe_mask"),
        settings.relax_hwe,
        settings.relax_scope,
        config.algorithm.entropy.window,
    )
    if isinstance(state.kl, TokenLevelAdaptiveKLController):
        state.kl.update(means, {b: int(count) for b, count in zip(BUCKETS, totals[1], strict=True) if count})
    else:
        state.kl.update(current_kl=metrics["critic/kl"], n_steps=len(batch))
    return metrics


def _row_kl(batch: DataProto, config: Config) -> Tensor:
    """Mean KL to the reference of each response (nats)."""
    mask = batch.tensor("response_mask")
    if config.algorithm.kl.penalty == "full":
        kl = batch.tensor("exact_kl")
    else:
        old, reference = batch.tensor("old_log_probs"), batch.tensor("ref_log_probs")
        kl = compute_kl(old, reference, config.algorithm.kl.penalty)
    return (kl * mask).sum(1) / (mask.sum(1) + 1e-8)


def _advantages(batch: DataProto, counts: Tensor, config: Config) -> tuple[Tensor, Tensor]:
    settings = config.algorithm.advantage
    rewards = batch.tensor("token_level_rewards")
    mask = batch.tensor("response_mask") * counts[:, None]
    groups = batch.non_tensor_batch["uid"]
    if settings.estimator == "grpo":
        return compute_grpo_outcome_advantage(rewards, mask, groups, norm_by_std=settings.norm_by_std, row_mask=counts)
    if settings.estimator == "rloo":
        return compute_rloo_outcome_advantage(rewards, mask, groups, row_mask=counts)
    if settings.estimator == "remax":
        baselines = torch.tensor(batch.non_tensor_batch["baseline"].astype(float))
        return compute_remax_outcome_advantage(rewards, baselines, mask)
    if settings.estimator == "gae":
        return compute_gae_advantage_return(rewards, batch.tensor("values"), mask, settings.gamma, settings.lam)
    return compute_reinforce_plus_plus_outcome_advantage(rewards, mask, settings.gamma)


def _batch_metrics(
    batch: DataProto, rewards: np.ndarray, parts: dict[str, np.ndarray], scored: np.ndarray, truncated: np.ndarray
) -> dict[str, float]:
    mask = batch.tensor("response_mask")
    lengths = mask.sum(1).double().numpy()
    prompts = (batch.tensor("attention_mask").sum(1) - mask.sum(1)).double().numpy()
    valid = mask.bool() & torch.from_numpy(scored)[:, None]
    metrics = {f"reward/{name}": float(values[scored].mean()) for name, values in parts.items()}
    metrics |= _spread("critic/score", rewards[scored])
    metrics |= _spread("critic/rewards", batch.tensor("token_level_rewards").sum(1).double().numpy()[scored])
    metrics |= _spread("critic/advantages", batch.tensor("advantages")[valid].double().numpy())
    metrics |= _spread("critic/returns", batch.tensor("returns")[valid].double().numpy())
    metrics |= _spread("response_length", lengths) | {"response_length/clip_ratio": float(truncated.mean())}
    metrics |= _spread("prompt_length", prompts)
    metrics |= {
        "reward/format": float(batch.non_tensor_batch["format"].astype(float).mean()),
        "entropy/mean": float((batch.tensor("entropies") * mask).sum() / mask.sum()),
        "entropy/hwe_fraction": float(batch.tensor("hwe_mask").sum() / mask.sum()),
    }
    if scored.any():
        spreads = pd.Series(rewards[scored]).groupby(batch.non_tensor_batch["uid"][scored]).std(ddof=1).dropna()
        metrics |= {"reward/std": float(spreads.mean()), "reward/zero_std_ratio": float((spreads < 1e-8).mean())}
    difficulty = batch.non_tensor_batch["difficulty"]
    for bucket in BUCKETS:
        inside = difficulty == bucket
        if inside.any():
            metrics[f"bucket/{bucket}/len"] = float(lengths[inside].mean())
            metrics[f"bucket/{bucket}/reward"] = (
                float(rewards[inside & scored].mean()) if (inside & scored).any() else 0.0
            )
            if "kl_coefs" in batch.fields:
                rows = torch.from_numpy(inside)
                used = batch.tensor("kl_coefs")[rows][mask[rows].bool()]
                metrics[f"bucket/{bucket}/kl_coef"] = float(used.mean())
    return metrics


def _spread(name: str, values: np.ndarray) -> dict[str, float]:
    if not len(values):
        return {}
    return {
        f"{name}/mean": float(values.mean()),
        f"{name}/max": float(values.max()),
        f"{name}/min": float(values.min()),
    }
