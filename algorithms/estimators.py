"""Advantage estimators as a profile names them: one interface, and those that have no published name.

Covered: an estimator's inputs and outputs; GDPO, MaxRL, pass@k, RLOO by turn. Not covered: the mathematics of the
others (algorithms/advantages.py), the table of names (ares/config/extensions.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from algorithms import advantages as published
from algorithms.advantages import MASK_EPS, compare, group_sum, masked, masked_whiten, spread
from algorithms.protocol import DataProto
from algorithms.settings import AdvantageSettings, PassAtKSettings


@dataclass(frozen=True)
class RewardedBatch:
    """An estimator's input: B responses of up to L tokens."""

    rewards: Tensor
    """float32 [B, L]: reward per token; an outcome reward is at the last token, for estimators `by_turn` a turn's at
    its last token."""
    mask: Tensor
    """[B, L]: response tokens; zero in rows that do not count."""
    groups: np.ndarray
    """[B]: rows of one prompt have the same number."""
    counts: Tensor
    """bool [B]: rows that enter their group's statistics; the others get advantage 0."""
    batch: DataProto
    """All fields: `difficulty`, `entropies`, `values` of a critic, `baseline` of the greedy answer, …"""
    parts: Mapping[str, np.ndarray] = field(default_factory=dict)
    """What the reward of a row consists of, by name, not multiplied by its weight: [B] float64, NaN for none."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Factors of parts in the reward; of a part that is not named, 1."""


class AdvantageEstimator(Protocol):
    """Turns rewards into advantages; constructed from its settings. docs/extending.md has an example."""

    def estimate(self, seen: RewardedBatch) -> tuple[Tensor, Tensor]:
        """Advantages and returns, both float32 [B, L], zero where `mask` is."""


Estimate = tuple[Tensor, Tensor]


def _estimator(estimate: Callable[[Any, RewardedBatch], Estimate]) -> Callable[[Any], AdvantageEstimator]:
    """What makes one of ours from its settings."""
    return lambda settings: SimpleNamespace(estimate=partial(estimate, settings))


@_estimator
def grpo(settings: AdvantageSettings, seen: RewardedBatch) -> Estimate:
    """Compares the rewards of a prompt's group."""
    return published.compute_grpo_outcome_advantage(
        seen.rewards, seen.mask, seen.groups, norm_by_std=settings.norm_by_std, row_mask=seen.counts
    )


@_estimator
def gdpo(settings: AdvantageSettings, seen: RewardedBatch) -> Estimate:
    """GDPO (arXiv 2601.05242): GRPO's advantage of each part of the reward, weighted, summed, whitened over the batch.

    Rewards that sum to the same number but differ in their parts keep different advantages. A part that is NaN does not
    apply: it is compared among the others of its group alone. Whitened over the rows that count.
    """
    summed = torch.zeros(len(seen.mask), dtype=torch.float64)
    counted = seen.counts.to(summed)
    for name, part in seen.parts.items():
        values = torch.from_numpy(part)
        applies = (counted > 0) & ~values.isnan()
        own, _ = published.compute_grpo_outcome_advantage(
            values[:, None], torch.ones(len(values), 1), seen.groups, row_mask=applies
        )
        summed += seen.weights.get(name, 1.0) * own[:, 0].double()
    return spread(masked_whiten(summed, counted) * counted, seen.mask)


@_estimator
def maxrl(settings: AdvantageSettings, seen: RewardedBatch) -> Estimate:
    """MaxRL (arXiv 2602.02710): (Σr − mean_g)/mean_g, an estimate of the gradient of ln P(right) for rewards 0 and 1.

    0 where the mean is not above 0. The rest as in GRPO.
    """
    scores, group, size, counted = compare(seen.rewards, seen.groups, seen.counts)
    mean = (group_sum(scores, group, size) / size.clamp(min=1.0))[group]
    scaled = torch.where(mean > 0, (scores - mean) * counted / mean.clamp(min=MASK_EPS), 0.0)
    return spread(scaled, seen.mask)


@_estimator
def pass_at_k(settings: PassAtKSettings, seen: RewardedBatch) -> Estimate:
    """pass@k training (arXiv 2508.10751), with the advantage of k drawn responses in closed form.

    Of N responses, W are wrong (Σr below ½): P = C(W, k)/C(N, k) is the probability that k of them are all wrong,
    σ = √(P(1 − P)). A right one has P/σ, a wrong one (P − C(W − 1, k − 1)/C(N − 1, k − 1))/σ; 0 if σ is. In a group of
    fewer than k responses, k is their number. The rest as in GRPO.
    """
    scores, group, size, counted = compare(seen.rewards, seen.groups, seen.counts)
    wrong = (scores < 0.5) * counted
    advantages = torch.zeros_like(scores)
    for one, (total, failed) in enumerate(zip(size.tolist(), group_sum(wrong, group, size).tolist(), strict=True)):
        rows, bad, drawn = int(total), int(failed), min(settings.k, int(total))
        none_right = math.comb(bad, drawn) / math.comb(rows, drawn)
        sigma = math.sqrt(none_right * (1.0 - none_right))
        if sigma == 0:
            continue
        others_wrong = math.comb(bad - 1, drawn - 1) / math.comb(rows - 1, drawn - 1)
        own = torch.where(wrong > 0, (none_right - others_wrong) / sigma, none_right / sigma)
        advantages = torch.where(group == one, own * counted, advantages)
    return spread(advantages, seen.mask)


@_estimator
def rloo(settings: AdvantageSettings, seen: RewardedBatch) -> Estimate:
    """Compares a reward with the mean of the others of its prompt's group."""
    return published.compute_rloo_outcome_advantage(seen.rewards, seen.mask, seen.groups, row_mask=seen.counts)


@_estimator
def rloo_by_turn(settings: AdvantageSettings, seen: RewardedBatch) -> Estimate:
    """RLOO of each turn's rewards to go: A_t = G_t − mean of the G_t of the group's other episodes that reached turn t.

        mask       1 1 0 0 1 1 1 0 1      turns are what gaps in the mask divide
        rewards    0 1 . . 0 0 2 . 4      γ = 1:  G = 7 7 · · 6 6 6 · 4

    G_t = Σ_{u≥t} γ^{u−t} r_u over turns. No episode is in its own baseline, so the gradient is unbiased whatever the
    others' histories; a mean that includes it, divided by the spread at turn t, would not be. Where nobody else reached
    turn t the baseline is 0.
    """
    mask = seen.mask > 0
    begins = mask & ~torch.nn.functional.pad(mask, (1, 0))[:, :-1]
    turn = begins.long().cumsum(1).sub(1).clamp(min=0)
    shape = (len(mask), int(begins.sum(1).max()) if mask.any() else 1)
    rewards = masked(seen.rewards.double(), mask.double())
    to_go = torch.zeros(shape, dtype=torch.float64, device=mask.device).scatter_add_(1, turn, rewards)
    for place in range(shape[1] - 2, -1, -1):
        to_go[:, place] += settings.gamma * to_go[:, place + 1]
    _, group, size, counted = compare(to_go[:, :1], seen.groups, seen.counts)
    reached = torch.arange(shape[1], device=mask.device) < begins.sum(1, keepdim=True)
    enters = reached * counted[:, None]
    totals = torch.zeros(len(size), shape[1], dtype=torch.float64, device=mask.device)
    number = totals.clone().index_add_(0, group, enters)[group] - enters
    others = totals.index_add_(0, group, to_go * enters)[group] - to_go * enters
    advantages = (to_go - others / number.clamp(min=1.0)) * enters
    of_tokens = advantages.gather(1, turn).float() * seen.mask.float()
    return of_tokens, of_tokens


@_estimator
def remax(settings: AdvantageSettings, seen: RewardedBatch) -> Estimate:
    """Compares with the greedy answer to the same prompt, the column `baseline`."""
    baselines = torch.tensor(seen.batch.non_tensor_batch["baseline"].astype(float))
    return published.compute_remax_outcome_advantage(seen.rewards, baselines, seen.mask)


@_estimator
def reinforce_plus_plus(settings: AdvantageSettings, seen: RewardedBatch) -> Estimate:
    """Discounted returns, whitened over the batch."""
    return published.compute_reinforce_plus_plus_outcome_advantage(seen.rewards, seen.mask, settings.gamma)


@_estimator
def none(settings: AdvantageSettings, seen: RewardedBatch) -> Estimate:
    """Nothing is learnt from the reward: the advantages are 0, and KL alone moves the policy (distillation)."""
    return torch.zeros_like(seen.rewards), torch.zeros_like(seen.rewards)


@_estimator
def gae(settings: AdvantageSettings, seen: RewardedBatch) -> Estimate:
    """Generalised advantage estimation with a critic's values, the field `values`."""
    values = seen.batch.tensor("values")
    return published.compute_gae_advantage_return(seen.rewards, values, seen.mask, settings.gamma, settings.lam)
