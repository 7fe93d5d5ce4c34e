"""Advantage estimators as a profile names them: one interface over the functions of algorithms/advantages.py.

Covered: an estimator's inputs and outputs. Not covered: the mathematics, the table of names
(ares/config/extensions.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, Protocol

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
from algorithms.settings import AdvantageSettings


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


def _within_groups(compute: Callable[..., Estimate], *settings: str) -> Callable[[Any], AdvantageEstimator]:
    """An estimator that compares the rewards of a prompt's group; settings: names of those that `compute` takes."""

    def estimate(given: Any, seen: RewardedBatch) -> Estimate:
        chosen = {name: getattr(given, name) for name in settings}
        return compute(seen.rewards, seen.mask, seen.groups, row_mask=seen.counts, **chosen)

    return _estimator(estimate)


grpo = _within_groups(compute_grpo_outcome_advantage, "norm_by_std")
maxrl = _within_groups(compute_maxrl_outcome_advantage)
pass_at_k = _within_groups(compute_pass_at_k_outcome_advantage, "k")
rloo = _within_groups(compute_rloo_outcome_advantage)
rloo_by_turn = _within_groups(compute_rloo_turn_advantage, "gamma")


@_estimator
def gdpo(settings: AdvantageSettings, seen: RewardedBatch) -> Estimate:
    """Compares each part of the reward within a prompt's group."""
    parts = {name: torch.from_numpy(values) for name, values in seen.parts.items()}
    return compute_gdpo_outcome_advantage(parts, seen.weights, seen.mask, seen.groups, row_mask=seen.counts)


@_estimator
def remax(settings: AdvantageSettings, seen: RewardedBatch) -> Estimate:
    """Compares with the greedy answer to the same prompt, the column `baseline`."""
    baselines = torch.tensor(seen.batch.non_tensor_batch["baseline"].astype(float))
    return compute_remax_outcome_advantage(seen.rewards, baselines, seen.mask)


@_estimator
def reinforce_plus_plus(settings: AdvantageSettings, seen: RewardedBatch) -> Estimate:
    """Discounted returns, whitened over the batch."""
    return compute_reinforce_plus_plus_outcome_advantage(seen.rewards, seen.mask, settings.gamma)


@_estimator
def none(settings: AdvantageSettings, seen: RewardedBatch) -> Estimate:
    """Nothing is learnt from the reward: the advantages are 0, and KL alone moves the policy (distillation)."""
    return torch.zeros_like(seen.rewards), torch.zeros_like(seen.rewards)


@_estimator
def gae(settings: AdvantageSettings, seen: RewardedBatch) -> Estimate:
    """Generalised advantage estimation with a critic's values, the field `values`."""
    values = seen.batch.tensor("values")
    return compute_gae_advantage_return(seen.rewards, values, seen.mask, settings.gamma, settings.lam)
