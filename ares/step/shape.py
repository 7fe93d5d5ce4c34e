"""From a graded batch to the inputs of the update.

Covered: τ and HWE tokens, difficulty, targets and alpha, the AEPO reward, KL in the reward or its coefficients in the
loss, advantages, importance weights. Pure but for the state, which it updates. Not covered: making the batch
(ares/step/collate.py), storing it (tasks/).
"""

import numpy as np
import torch
from torch import Tensor

from algorithms.buckets import BUCKETS
from algorithms.entropy import (
    entropy_percentile_thresholds,
    hwe_count,
    hwe_mask,
    trigger_mask,
)
from algorithms.estimators import AdvantageEstimator, RewardedBatch
from algorithms.filtering import mask_truncated
from algorithms.kl import BatchKL, compute_kl, masked_kl, penalized_rewards, second_chance, token_coefficients
from algorithms.losses import importance_weights
from algorithms.protocol import DataProto
from ares.config import ESTIMATORS, Config
from ares.step.collate import readable_rows
from ares.step.metrics import batch_metrics, mean_accuracy
from ares.step.rewards import PART, observe_tests, reward_parts
from ares.step.slots import SECOND_TURN_SLOT
from ares.step.state import RunState
from rewards.aepo import entropy_score
from rewards.overlong import soft_overlong


def entropy_statistics(batch: DataProto, config: Config) -> np.ndarray:
    """Percentile of window entropy per response (nats), from which τ is estimated; also stored in the batch."""
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
    """Everything between experience and update; advances `state` and returns the metrics of the step.

    batch: rewarded rows (ares/step/rewards.py) as the learner's `experience` left them. Writes rewards, advantages,
    returns, kl_coefs and importance weights into it, and clears the response_mask of rows that must not be learnt from
    (unscored, or truncated and masked).
    """
    scored = np.array([value is not None for value in batch.non_tensor_batch["accuracy"]])
    truncated = np.array(batch.non_tensor_batch["truncated"], dtype=bool)
    thresholds = entropy_statistics(batch, config)
    threshold = state.threshold.update(thresholds)
    mark_hwe(batch, threshold, config, is_trigger)
    first_turn = batch.non_tensor_batch["uid"].astype(np.int64) < SECOND_TURN_SLOT
    state.difficulty.update_difficulty_and_skip_gid_set(batch[scored & first_turn])  # difficulty is that of first turns
    state.difficulty.annotate(batch)
    rewards, parts = _rewards(batch, state, scored, config)
    graded, scored = scored, scored & ~np.isnan(rewards)
    rewards = np.where(scored, rewards, 0.0)
    batch.batch["token_level_scores"] = _at_last_token(rewards, batch.tensor("response_mask"))

    metrics = _kl(batch, state, config)
    overlong = config.algorithm.overlong
    learnt = torch.from_numpy(scored & ~truncated if overlong.mask_truncated else scored)
    counts = learnt if overlong.leaves_out_truncated else torch.from_numpy(scored)
    advantages, returns = _advantages(batch, counts, config)
    batch.batch["advantages"], batch.batch["returns"] = advantages, returns
    weights, mismatch = importance_weights(
        batch.tensor("old_log_probs"),
        batch.tensor("engine_log_probs"),
        batch.tensor("response_mask"),
        config.algorithm.policy.importance_cap,
        config.algorithm.policy.importance_weights,
    )
    batch.batch["importance_weights"] = weights
    if config.algorithm.policy.old_log_probs == "learner":  # else the update measures the mismatch
        metrics |= mismatch
    metrics = state.metrics() | metrics | batch_metrics(batch, rewards, parts, scored, truncated)
    if state.beta is not None:  # what the loss applies
        for bucket, beta in zip(BUCKETS, state.beta.coefficients(BUCKETS), strict=True):
            if (name := f"bucket/{bucket}/kl_coef") in metrics:
                metrics[name] *= float(beta)
    metrics |= {"reward/accuracy": mean_accuracy(batch, graded), "reward/unscored": float((~graded).sum())}
    batch.batch["response_mask"] = mask_truncated(batch.tensor("response_mask"), ~learnt.numpy())
    return metrics


def _rewards(
    batch: DataProto, state: RunState, scored: np.ndarray, config: Config
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Reward of each row (NaN: none) and its parts, which are stored so that every reward can be explained."""
    accuracy = np.where(scored, batch.non_tensor_batch["accuracy"], 0.0).astype(float)
    lengths = batch.tensor("response_mask").sum(1).numpy()
    observe_tests(state.tests, readable_rows(batch))
    columns = [name for name in batch.non_tensor_batch if name.startswith(PART)]
    parts = reward_parts({name: batch.non_tensor_batch.pop(name) for name in columns})
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
    if cache := config.algorithm.overlong.soft_punish_cache:
        punishment = soft_overlong(lengths, config.rollout.max_response_length, cache)
        parts["overlong"] = config.algorithm.overlong.soft_punish_weight * punishment
    rewards = np.where(scored, sum(parts.values()), np.nan)
    has_reward = ~np.isnan(rewards)
    for name, values in parts.items():
        if name != "accuracy":
            batch.non_tensor_batch[PART + name] = _where_scored(values, has_reward)
    batch.non_tensor_batch["reward"] = _where_scored(rewards, has_reward)
    return rewards, parts


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
    """KL in the reward, or its coefficients per token for the loss; the controller sees the batch either way."""
    settings = config.algorithm.kl
    scores = batch.batch["token_level_rewards"] = batch.tensor("token_level_scores")
    if settings.placement == "none":
        return {}
    difficulty, accuracy = batch.require("difficulty", "accuracy")
    kl, row_kl = masked_kl(_token_kl(batch, config), batch.tensor("response_mask"))
    seen = BatchKL.of(row_kl, difficulty)
    coefficients = state.kl.coefficients(difficulty)
    if settings.placement == "reward":
        batch.batch["token_level_rewards"] = penalized_rewards(scores, coefficients, kl)
    else:
        known = np.array([1.0 if value is None else value for value in accuracy], dtype=float)
        batch.batch["kl_coefs"] = token_coefficients(
            second_chance(coefficients, difficulty, known, settings.relax_wrong_easy),
            batch.tensor("hwe_mask"),
            settings.relax_hwe,
            settings.relax_scope,
            config.algorithm.entropy.window,
        )
    if state.beta is not None:  # in the loss β multiplies it
        metrics = seen.metrics(coefficients * state.beta.coefficients(difficulty))
    else:
        metrics, own = seen.metrics(coefficients), state.kl.metrics()
        # A controller with one coefficient reports it exactly; a mean of equal numbers may round.
        metrics |= {name: own[name] for name in metrics.keys() & own.keys()}
    state.kl.update(seen)
    return metrics


def _token_kl(batch: DataProto, config: Config) -> Tensor:
    """KL to the reference of each response token [B, L] (nats)."""
    penalty = config.algorithm.kl.penalty
    if penalty == "full":
        return batch.tensor("exact_kl")
    return compute_kl(batch.tensor("old_log_probs"), batch.tensor("ref_log_probs"), penalty)


def _advantages(batch: DataProto, counts: Tensor, config: Config) -> tuple[Tensor, Tensor]:
    estimator: AdvantageEstimator = ESTIMATORS.make(config.algorithm.advantage)
    return estimator.estimate(
        RewardedBatch(
            rewards=batch.tensor("token_level_rewards"),
            mask=batch.tensor("response_mask") * counts[:, None],
            groups=batch.non_tensor_batch["uid"],
            counts=counts,
            batch=batch,
        )
    )
