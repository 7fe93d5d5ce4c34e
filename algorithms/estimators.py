"""Advantage estimators as a profile names them: one interface over the functions of algorithms/advantages.py.

Covered: an estimator's inputs and outputs. Not covered: the mathematics, the table of names
(ares/config/extensions.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from algorithms.advantages import (
    compute_gae_advantage_return,
    compute_gdpo_outcome_advantage,
    compute_grpo_outcome_advantage,
    compute_maxrl_outcome_advantage,
    compute_pass_at_k_outcome_advantage,
    compute_reinforce_plus_plus_outcome_advantage,
    compute_remax_outcome_advantage,
    compute_rloo_outcome_advantage,
    compute_rloo_turn_advantage,
)
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
    """What the reward of a row consists of, by name: [B] float64, NaN for none."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Factors of those parts that are scores of functions; in the reward, the parts are already multiplied."""


class AdvantageEstimator(Protocol):
    """Turns rewards into advantages; constructed from its settings. docs/extending.md has an example."""

    def estimate(self, seen: RewardedBatch) -> tuple[Tensor, Tensor]:
        """Advantages and returns, both float32 [B, L], zero where `mask` is."""


@dataclass(frozen=True)
class Estimator:
    """One of ours."""

    estimate: Callable[[RewardedBatch], tuple[Tensor, Tensor]]


def grpo(settings: AdvantageSettings) -> Estimator:
    """Compares within a prompt's group; `norm_by_std=False` is Dr.GRPO."""
    how = {"norm_by_std": settings.norm_by_std}
    return Estimator(
        lambda seen: compute_grpo_outcome_advantage(seen.rewards, seen.mask, seen.groups, row_mask=seen.counts, **how)
    )


def gdpo(settings: AdvantageSettings) -> Estimator:
    """Compares each part of the reward within a prompt's group."""

    def estimate(seen: RewardedBatch) -> tuple[Tensor, Tensor]:
        parts = {name: torch.from_numpy(np.nan_to_num(values)) for name, values in seen.parts.items()}
        return compute_gdpo_outcome_advantage(parts, seen.weights, seen.mask, seen.groups, row_mask=seen.counts)

    return Estimator(estimate)


def maxrl(settings: AdvantageSettings) -> Estimator:
    """Compares within a prompt's group, in units of its mean."""
    return Estimator(
        lambda seen: compute_maxrl_outcome_advantage(seen.rewards, seen.mask, seen.groups, row_mask=seen.counts)
    )


def pass_at_k(settings: PassAtKSettings) -> Estimator:
    """What a response adds to the chance that one of k is right."""
    return Estimator(
        lambda seen: compute_pass_at_k_outcome_advantage(
            seen.rewards, seen.mask, seen.groups, settings.k, row_mask=seen.counts
        )
    )


def rloo(settings: AdvantageSettings) -> Estimator:
    """Compares each response with the others of its group."""
    return Estimator(
        lambda seen: compute_rloo_outcome_advantage(seen.rewards, seen.mask, seen.groups, row_mask=seen.counts)
    )


def rloo_by_turn(settings: AdvantageSettings) -> Estimator:
    """Compares each turn of an episode with the same turn of the others of its group, by rewards to go."""
    return Estimator(
        lambda seen: compute_rloo_turn_advantage(seen.rewards, seen.mask, seen.groups, settings.gamma, seen.counts)
    )


def remax(settings: AdvantageSettings) -> Estimator:
    """Compares with the greedy answer to the same prompt, the column `baseline`."""

    def estimate(seen: RewardedBatch) -> tuple[Tensor, Tensor]:
        baselines = torch.tensor(seen.batch.non_tensor_batch["baseline"].astype(float))
        return compute_remax_outcome_advantage(seen.rewards, baselines, seen.mask)

    return Estimator(estimate)


def reinforce_plus_plus(settings: AdvantageSettings) -> Estimator:
    """Discounted returns, whitened over the batch."""
    return Estimator(
        lambda seen: compute_reinforce_plus_plus_outcome_advantage(seen.rewards, seen.mask, settings.gamma)
    )


def none(settings: AdvantageSettings) -> Estimator:
    """Nothing is learnt from the reward: the advantages are 0, and KL alone moves the policy (distillation)."""
    return Estimator(lambda seen: (torch.zeros_like(seen.rewards), torch.zeros_like(seen.rewards)))


def gae(settings: AdvantageSettings) -> Estimator:
    """Generalised advantage estimation with a critic's values, the field `values`."""
    discounts = settings.gamma, settings.lam
    return Estimator(
        lambda seen: compute_gae_advantage_return(seen.rewards, seen.batch.tensor("values"), seen.mask, *discounts)
    )
