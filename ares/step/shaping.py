"""From a graded batch to the inputs of the update; from the bootstrap's to the state before the first step.

Covered: τ and HWE tokens, difficulty, targets and alpha, the AEPO reward, KL in the reward or its coefficients in the
loss, advantages, importance weights. Pure but for the state, which it updates. Not covered: making the batch
(ares/step/collate.py), storing it (tasks/).
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from algorithms.buckets import BUCKETS
from algorithms.entropy import entropy_percentile_thresholds, hwe_count, hwe_mask, trigger_mask
from algorithms.estimators import AdvantageEstimator, RewardedBatch
from algorithms.groups import SECOND_TURN_SLOT
from algorithms.kl import BatchKL, compute_kl, masked_kl, penalized_rewards, second_chance, token_coefficients
from algorithms.losses import importance_weights
from algorithms.protocol import DataProto
from ares.config import ESTIMATORS, Config
from ares.grading import SCORE, RewardError
from ares.step.collate import readable_rows
from ares.step.cursor import rank
from ares.step.metrics import OF_A_FUNCTION, batch_metrics, function_metrics
from ares.step.rewards import PART, observe_tests, reward_parts
from ares.step.rows import scored_rows
from ares.step.state import Counters, RunState
from rewards.aepo import entropy_score, guard_groups
from rewards.shaping import soft_overlong


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
    (unscored, or truncated and masked). Raises RewardError for rewards that the estimator does not take.
    """
    graded = ~np.isnan(batch.non_tensor_batch["accuracy"].astype(float))
    truncated = np.array(batch.non_tensor_batch["truncated"], dtype=bool)
    thresholds = entropy_statistics(batch, config)
    threshold = state.threshold.update(thresholds)
    mark_hwe(batch, threshold, config, is_trigger)
    first_turn = batch.non_tensor_batch["uid"].astype(np.int64) < SECOND_TURN_SLOT
    # Difficulty and accuracy are those of first turns.
    state.difficulty.update_difficulty_and_skip_gid_set(batch[graded & first_turn])
    state.difficulty.annotate(batch)
    rewards, parts = _rewards(batch, state, config)
    scored, estimator = ~np.isnan(rewards), config.algorithm.advantage.estimator
    if ESTIMATORS.fact(estimator, "zero_or_one") and len(other := np.setdiff1d(rewards[scored], (0.0, 1.0))):
        raise RewardError(
            f"algorithm.advantage.estimator={estimator} is for rewards 0 and 1, but reward.kind="
            f"{', '.join(config.reward.kinds)} gave {other[0]:g}: have it give these, or take the estimator grpo"
        )
    scores = _at_last_token(np.nan_to_num(rewards), batch.tensor("response_mask"))
    if ESTIMATORS.fact(estimator, "by_turn"):
        weight = config.reward.weight_of["environment"]
        given = [weight * np.array(rewards, dtype=float) for rewards in batch.non_tensor_batch["turn_rewards"]]
        scores = at_turns(scores, given, batch.tensor("response_mask"))
    batch.batch["token_level_scores"] = scores

    metrics = _kl(batch, state, config)
    overlong, policy = config.algorithm.overlong, config.algorithm.policy
    learnt = torch.from_numpy(scored & ~truncated if overlong.mask_truncated else scored)
    counts = learnt if overlong.leaves_out_truncated else torch.from_numpy(scored)
    advantages, returns = _advantages(batch, counts, parts, config)
    batch.batch["advantages"], batch.batch["returns"] = advantages, returns
    weights, mismatch = importance_weights(
        batch.tensor("old_log_probs"), batch.tensor("engine_log_probs"), batch.tensor("response_mask"), policy
    )
    batch.batch["importance_weights"] = weights
    if policy.old_log_probs == "learner":  # else the update measures the mismatch
        metrics |= mismatch
    if state.bonus is not None:
        batch.batch["entropy_coefs"] = state.bonus.coefficients(
            batch.tensor("entropies"), batch.tensor("response_mask") * learnt[:, None]
        )
    metrics = state.metrics() | metrics | batch_metrics(batch, rewards, parts, counts.numpy())
    if state.beta is not None:  # what the loss applies
        for bucket, beta in zip(BUCKETS, state.beta.coefficients(BUCKETS), strict=True):
            if (name := f"bucket/{bucket}/kl_coef") in metrics:
                metrics[name] *= float(beta)
    accuracy = batch.non_tensor_batch["accuracy"][graded & first_turn].astype(float)
    metrics["reward/accuracy"] = float(accuracy.mean()) if len(accuracy) else np.nan
    metrics["reward/unscored"] = float((~graded).sum())
    batch.batch["response_mask"] = batch.tensor("response_mask") * learnt[:, None]  # DAPO, §3.4
    return metrics


def _rewards(batch: DataProto, state: RunState, config: Config) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Reward of each row (NaN: none) and its parts, which are stored so that every reward can be explained."""
    accuracy, aepo = batch.non_tensor_batch["accuracy"].astype(float), config.algorithm.aepo
    lengths = batch.tensor("response_mask").sum(1).numpy()
    observe_tests(state.tests, readable_rows(batch))
    columns = [name for name in batch.non_tensor_batch if name.startswith(PART)]
    parts = reward_parts({name: batch.non_tensor_batch.pop(name) for name in columns})
    if aepo.enabled:
        counts, targets, alphas, difficulty = batch.require(
            "high_entropy_token_num", "target_high_entropy_token_num", "alpha_entropy", "difficulty"
        )
        parts["entropy_score"] = entropy_score(
            np.nan_to_num(accuracy), counts, targets, alphas, difficulty, aepo.zero_baseline, aepo.guard_inversion
        )
    if cache := config.algorithm.overlong.soft_punish_cache:
        punishment = soft_overlong(lengths, config.rollout.max_response_length, cache)
        parts["overlong"] = config.algorithm.overlong.soft_punish_weight * punishment
    if aepo.enabled and aepo.guard_inversion:
        others = sum(values for name, values in parts.items() if name != "entropy_score")
        without = np.where(np.isnan(accuracy), np.nan, others)
        groups = batch.non_tensor_batch["uid"]
        parts["entropy_score"] = guard_groups(without, parts["entropy_score"], accuracy == 1.0, groups)
    rewards = np.where(np.isnan(accuracy), np.nan, sum(parts.values()))
    for name, values in parts.items():
        if name != "accuracy":
            batch.non_tensor_batch[PART + name] = np.where(np.isnan(rewards), np.nan, values).astype(object)
    batch.non_tensor_batch["reward"] = rewards.astype(object)
    return rewards, parts


def _at_last_token(rewards: np.ndarray, mask: Tensor) -> Tensor:
    scores = torch.zeros(mask.shape)
    last = (mask * torch.arange(1, mask.shape[1] + 1)).argmax(1)  # of an episode not at mask.sum(1) - 1
    scores[torch.arange(len(mask)), last] = torch.from_numpy(rewards).float()
    return scores


def at_turns(scores: Tensor, turn_rewards: list[np.ndarray], mask: Tensor) -> Tensor:
    """Scores [B, L] at the last tokens of episodes, spread: each turn's reward (NaN: none) at the turn's last token,
    and what is left at the episode's. turn_rewards: an array for each row; mask: [B, L], with gaps between turns."""
    ends = mask.bool() & ~torch.nn.functional.pad(mask.bool(), (0, 1))[:, 1:]
    spread = scores.clone()
    for row, given in enumerate(turn_rewards):
        places = ends[row].nonzero()[:, 0]
        rewards = torch.from_numpy(np.nan_to_num(given))[: len(places)].float()
        spread[row, places[-1:]] -= rewards.sum()
        spread[row, places[: len(rewards)]] += rewards
    return spread


def _kl(batch: DataProto, state: RunState, config: Config) -> dict[str, float]:
    """KL in the reward, or its coefficients per token for the loss; the controller sees the batch either way."""
    settings = config.algorithm.kl
    scores = batch.batch["token_level_rewards"] = batch.tensor("token_level_scores")
    if settings.placement == "none":
        return {}
    difficulty, accuracy = batch.require("difficulty", "accuracy")
    if settings.penalty == "full":
        token_kl = batch.tensor("exact_kl")
    else:
        token_kl = compute_kl(batch.tensor("old_log_probs"), batch.tensor("ref_log_probs"), settings.penalty)
    kl, row_kl = masked_kl(token_kl, batch.tensor("response_mask"))
    seen = BatchKL.of(row_kl, difficulty)
    coefficients = state.kl.coefficients(difficulty)
    if settings.placement == "reward":
        batch.batch["token_level_rewards"] = penalized_rewards(scores, coefficients, kl)
    else:
        known = np.nan_to_num(accuracy.astype(float), nan=1.0)
        of_rows = second_chance(coefficients, difficulty, known, settings.relax_wrong_easy)
        window = config.algorithm.entropy.window
        batch.batch["kl_coefs"] = token_coefficients(of_rows, batch.tensor("hwe_mask"), settings, window)
    if state.beta is not None:  # in the loss β multiplies it
        coefficients = coefficients * state.beta.coefficients(difficulty)
    state.kl.update(seen)
    return seen.metrics(coefficients)


def _advantages(
    batch: DataProto, counts: Tensor, parts: dict[str, np.ndarray], config: Config
) -> tuple[Tensor, Tensor]:
    estimator: AdvantageEstimator = ESTIMATORS.make(config.algorithm.advantage)
    scores = {
        name.removeprefix(OF_A_FUNCTION): values.astype(float)
        for name, values in batch.non_tensor_batch.items()
        if name.startswith(OF_A_FUNCTION)
    }
    code = config.reward.code
    weights = {
        "code": code.weight,
        "efficiency": code.efficiency,
        "format_score": code.format_weight,
        "overlong": config.algorithm.overlong.soft_punish_weight,
    }
    parts = {name: values / weights.get(name, 1.0) for name, values in parts.items()}
    if scores:  # of functions, of which the part `score` is the weighted sum
        parts = {name: values for name, values in parts.items() if name != SCORE} | scores
        weights |= config.reward.weight_of
    return estimator.estimate(
        RewardedBatch(
            rewards=batch.tensor("token_level_rewards"),
            mask=batch.tensor("response_mask") * counts[:, None],
            groups=batch.non_tensor_batch["uid"],
            counts=counts,
            batch=batch,
            parts=parts,
            weights=weights,
        )
    )


def bootstrapped(
    state: RunState,
    config: Config,
    sampled: Iterable[DataProto],
    graded: Iterable[DataProto],
    is_trigger: Tensor | None,
    names: pd.Series,
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Advance the initial state to step 0, from one pass over the train set: buckets, targets, τ, alpha, order.

    Returns the table of samples and the metrics.

    sampled: the shards as the learner left them; graded: the same with grades. Each is iterated once, one after the
    other, so that only one shard is in memory at a time: τ needs every response before HWE tokens can be counted.
    names: the ids of the train set, in its order.
    Raises RewardError if nothing was graded.
    """
    threshold = state.threshold.update(np.concatenate([entropy_statistics(batch, config) for batch in sampled]))
    tables = []
    for batch in graded:
        entropy_statistics(batch, config)
        mark_hwe(batch, threshold, config, is_trigger)
        tables.append(readable_rows(batch))
    table = pd.concat(tables, ignore_index=True)
    scored = scored_rows(table)
    columns = ("accuracy", "entropies", "high_entropy_token_num")
    measured = {column: scored[column].to_numpy(dtype=float) for column in columns}
    rows = DataProto.from_dict(non_tensors={"global_id": scored["id"].to_numpy()} | measured)
    state.difficulty.update_difficulty_and_skip_gid_set(rows)
    rates = scored["accuracy"].astype(float).groupby(scored["id"]).mean()
    state.cursor.ranks = rank(rates.reindex(names).to_numpy(), config.data.order)
    observe_tests(state.tests, table)
    state.step = 0
    tokens, unscored = int(table["tokens"].sum()), len(table) - len(scored)
    state.counters = Counters(table["id"].nunique(), len(table), tokens, unscored_samples=unscored)
    return table, state.metrics() | {
        "bootstrap/accuracy": float(scored["accuracy"].astype(float).mean()),
        "bootstrap/unscored": float(unscored),
        "bootstrap/response_length": tokens / len(table),
    } | function_metrics(table)
