"""Advantage estimators as a profile names them: one interface over the functions of algorithms/advantages.py.

Covered: an estimator's inputs and outputs. Not covered: the mathematics, the table of names
(ares/config/extensions.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from algorithms.advantages import (
    compute_gae_advantage_return,
    compute_grpo_outcome_advantage,
    compute_reinforce_plus_plus_outcome_advantage,
    compute_remax_outcome_advantage,
    compute_rloo_outcome_advantage,
)
from algorithms.protocol import DataProto
from algorithms.settings import AdvantageSettings


@dataclass(frozen=True)
class RewardedBatch:
    """An estimator's input: B responses of up to L tokens."""

    rewards: Tensor
    """float32 [B, L]: reward per token; an outcome reward is at the last token."""
    mask: Tensor
    """[B, L]: response tokens; zero in rows that do not count."""
    groups: np.ndarray
    """[B]: rows of one prompt have the same number."""
    counts: Tensor
    """bool [B]: rows that enter their group's statistics; the others get advantage 0."""
    batch: DataProto
    """All fields: `difficulty`, `entropies`, `values` of a critic, `baseline` of the greedy answer, …"""


class AdvantageEstimator(Protocol):
    """Turns rewards into advantages; constructed from its settings. docs/extending.md has an example."""

    def estimate(self, seen: RewardedBatch) -> tuple[Tensor, Tensor]:
        """Advantages and returns, both float32 [B, L], zero where `mask` is."""


class Grpo:
    """Compares within a prompt's group; `norm_by_std=False` is Dr.GRPO."""

    def __init__(self, settings: AdvantageSettings) -> None:
        self.norm_by_std = settings.norm_by_std

    def estimate(self, seen: RewardedBatch) -> tuple[Tensor, Tensor]:
        """`compute_grpo_outcome_advantage`."""
        return compute_grpo_outcome_advantage(
            seen.rewards, seen.mask, seen.groups, norm_by_std=self.norm_by_std, row_mask=seen.counts
        )


class Rloo:
    """Compares each response with the others of its group."""

    def __init__(self, settings: AdvantageSettings) -> None:
        """Takes no settings."""

    def estimate(self, seen: RewardedBatch) -> tuple[Tensor, Tensor]:
        """`compute_rloo_outcome_advantage`."""
        return compute_rloo_outcome_advantage(seen.rewards, seen.mask, seen.groups, row_mask=seen.counts)


class ReMax:
    """Compares with the greedy answer to the same prompt."""

    def __init__(self, settings: AdvantageSettings) -> None:
        """Takes no settings."""

    def estimate(self, seen: RewardedBatch) -> tuple[Tensor, Tensor]:
        """`compute_remax_outcome_advantage`; reads the column `baseline`."""
        baselines = torch.tensor(seen.batch.non_tensor_batch["baseline"].astype(float))
        return compute_remax_outcome_advantage(seen.rewards, baselines, seen.mask)


class ReinforcePlusPlus:
    """Discounted returns, whitened over the batch."""

    def __init__(self, settings: AdvantageSettings) -> None:
        self.gamma = settings.gamma

    def estimate(self, seen: RewardedBatch) -> tuple[Tensor, Tensor]:
        """`compute_reinforce_plus_plus_outcome_advantage`."""
        return compute_reinforce_plus_plus_outcome_advantage(seen.rewards, seen.mask, self.gamma)


class Gae:
    """Generalised advantage estimation with a critic's values."""

    def __init__(self, settings: AdvantageSettings) -> None:
        self.gamma, self.lam = settings.gamma, settings.lam

    def estimate(self, seen: RewardedBatch) -> tuple[Tensor, Tensor]:
        """`compute_gae_advantage_return`; reads the field `values`."""
        return compute_gae_advantage_return(seen.rewards, seen.batch.tensor("values"), seen.mask, self.gamma, self.lam)
