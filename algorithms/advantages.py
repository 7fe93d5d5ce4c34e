"""Advantages under the published names: GRPO, Dr.GRPO, RLOO, REINFORCE++, ReMax and GAE; means and comparisons.

Rewards are per token [B, L]; outcome estimators sum them to one number per response. Groups are the rows that share an
`index` (uid), in any order. Every function returns (advantages, returns), both [B, L] float32, zero where masked.
`row_mask` leaves rows (truncated ones) out of the group's statistics and gives them advantage 0; if fewer than two rows
of a group are left, there is nothing to compare and the whole group gets advantage 0. Not covered: the other
estimators, which have no published name (algorithms/estimators.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from algorithms.groups import group_numbers

MASK_EPS = 1e-8


def widened(values: Tensor) -> Tensor:
    """At least float32: in bfloat16 a ratio near 1 moves in steps of 1/128, and a sum of 3,001 is 3,008."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the masked entries of a whole tensor, Σ(v·m)/(Σm + 1e-8); masked-out entries may hold anything."""
    return masked(widened(values), mask).sum() / (mask.sum() + MASK_EPS)


def masked_var(values: Tensor, mask: Tensor) -> Tensor:
    """Unbiased variance over the masked entries; 0 where fewer than two are left."""
    values = widened(values)
    mask = mask.to(values.dtype)
    centred = values - masked_mean(values, mask)
    count = mask.sum()
    return masked_mean(centred.square(), mask) * count / (count - 1.0).clamp(min=1.0)


def masked_whiten(values: Tensor, mask: Tensor) -> Tensor:
    """(v − mean)·rsqrt(var + 1e-8) with mean and unbiased variance of the masked entries, computed in float64.

    In float32 the mean of equal values can be off by a rounding, which a variance of almost 0 blows up to 0.4.
    """
    wide = values.double()
    white = (wide - masked_mean(wide, mask)) * torch.rsqrt(masked_var(wide, mask) + MASK_EPS)
    return white.to(widened(values).dtype)


def compute_grpo_outcome_advantage(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Any] | np.ndarray,
    eps: float = 1e-6,
    norm_by_std: bool = True,
    row_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """GRPO: (Σr − mean_g)/(std_g + eps), std unbiased (DeepSeekMath, arXiv 2402.03300, §4.1.2).

    `norm_by_std=False` is Dr.GRPO (arXiv 2503.20783). token_level_rewards, response_mask: [B, L]; index: [B];
    row_mask: bool [B]. Raises ValueError on a group of one.
    """
    scores, group, size, counted = compare(token_level_rewards, index, row_mask)
    mean = group_sum(scores, group, size) / size.clamp(min=1.0)
    centred = (scores - mean[group]) * counted
    if norm_by_std:
        variance = group_sum(centred.square(), group, size) / (size - 1.0).clamp(min=1.0)
        centred = centred / (variance.sqrt()[group] + eps)
    return spread(centred, response_mask)


def compute_rloo_outcome_advantage(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Any] | np.ndarray,
    row_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """RLOO: each response against the mean of the others, s − (Σ_g − s)/(n − 1) (Ahmadian et al., arXiv 2402.14740).

    token_level_rewards, response_mask: [B, L]; index: [B]; row_mask: bool [B]. Raises ValueError on a group of one.
    """
    scores, group, size, counted = compare(token_level_rewards, index, row_mask)
    others = (group_sum(scores, group, size)[group] - scores) / (size[group] - 1.0).clamp(min=1.0)
    return spread((scores - others) * counted, response_mask)


def compute_remax_outcome_advantage(
    token_level_rewards: Tensor, reward_baselines: Tensor, response_mask: Tensor
) -> tuple[Tensor, Tensor]:
    """ReMax: Σr minus the reward of the greedy answer to the same prompt (Li et al., arXiv 2310.10505).

    token_level_rewards, response_mask: [B, L]; reward_baselines: [B].
    """
    if reward_baselines.shape != token_level_rewards.shape[:1]:
        raise ValueError(f"reward_baselines must be [{len(token_level_rewards)}], got {tuple(reward_baselines.shape)}")
    return spread(_outcome(token_level_rewards) - reward_baselines.double(), response_mask)


def compute_reinforce_plus_plus_outcome_advantage(
    token_level_rewards: Tensor, response_mask: Tensor, gamma: float
) -> tuple[Tensor, Tensor]:
    """REINFORCE++: discounted return, reset after EOS, whitened over the batch (Hu et al., arXiv 2501.03262).

    token_level_rewards, response_mask: [B, L].
    """
    mask = response_mask.to(torch.float32)
    rewards = masked(token_level_rewards.float(), mask)
    # Nothing beyond a masked position belongs to the same response, so its return must not flow back.
    carry = torch.full_like(rewards, gamma)
    carry[:, :-1] *= mask[:, 1:]
    returns = _backward_recurrence(rewards, carry)
    return masked_whiten(returns, mask) * mask, returns * mask


def compute_gae_advantage_return(
    token_level_rewards: Tensor, values: Tensor, response_mask: Tensor, gamma: float, lam: float
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation (arXiv 1506.02438, eq. 16); returns = A + V, then the advantages are whitened.

    A_t = δ_t + γλ·A_{t+1}, δ_t = r_t + γ·V_{t+1} − V_t, where t + 1 is the next *response* token: masked
    positions in between are skipped and their values never enter (the published code leaks them for λ ≠ 1).
    token_level_rewards, values, response_mask: [B, L].
    """
    mask = response_mask.to(torch.float32)
    rewards, values = masked(token_level_rewards.float(), mask), masked(values.float(), mask)
    # x_t = V_t at a response token, else x_{t+1}; shifted by one, this is the value of the next response token.
    next_values = torch.nn.functional.pad(_backward_recurrence(values, 1.0 - mask), (0, 1))[..., 1:]
    delta = (rewards + gamma * next_values - values) * mask
    advantages = _backward_recurrence(delta, torch.where(mask > 0, gamma * lam, 1.0)) * mask
    returns = (advantages + values) * mask
    return masked_whiten(advantages, mask) * mask, returns


def _backward_recurrence(inputs: Tensor, carry: Tensor) -> Tensor:
    """x_t = inputs_t + carry_t·x_{t+1} along the last axis, x beyond the end 0, in log₂ L vectorised doublings.

    After the doubling with stride s, each position holds the carried sum of the 2s positions that start there, and the
    product of their carries.
    """
    total, product = inputs.clone(), carry.clone()
    stride = 1
    while stride < total.shape[-1]:
        total[..., :-stride] += product[..., :-stride] * total[..., stride:].clone()
        reach = product[..., :-stride] * product[..., stride:]
        product[..., :-stride] = reach
        product[..., -stride:] = 0.0
        stride *= 2
    return total


def masked(values: Tensor, mask: Tensor) -> Tensor:
    """Values where the mask is set, 0 elsewhere whatever was there: NaN times zero would be NaN."""
    return torch.where(mask > 0, values * mask.to(values.dtype), 0.0)


def _outcome(token_level_rewards: Tensor) -> Tensor:
    """One number per response, in float64, so that equal rewards equal their mean exactly and get advantage 0."""
    return token_level_rewards.double().sum(-1)


def compare(
    rewards: Tensor, index: Sequence[Any] | np.ndarray, row_mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Each row's reward, 0 where it does not count, and its group, both [B]; the number of rows that count per group
    [G]; whether a row counts [B], which none does in a group of fewer than two. All but the group in float64."""
    scores = _outcome(rewards)
    numbers, labels = group_numbers(index)
    group = torch.from_numpy(numbers).to(scores.device)
    size = torch.bincount(group, minlength=len(labels)).double()
    if (size < 2).any():
        alone = labels[int((size < 2).int().argmax())]
        raise ValueError(f"group {alone!r} has one response; a group baseline needs at least two")
    counted = torch.ones_like(scores)
    if row_mask is not None:
        counted = row_mask.to(scores)
        size = group_sum(counted, group, size)
        counted = counted * (size[group] >= 2)
    return masked(scores, counted), group, size, counted


def group_sum(values: Tensor, group: Tensor, size: Tensor) -> Tensor:
    """The sum of values [B] over each group [G]."""
    return torch.zeros(len(size), dtype=values.dtype, device=values.device).index_add_(0, group, values)


def spread(row_values: Tensor, response_mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same advantage at every response token; the outcome estimators' return is their advantage."""
    advantages = row_values.float()[:, None] * response_mask.float()
    return advantages, advantages
