"""Advantage estimators: GRPO, Dr.GRPO, RLOO, RLOO by turn, REINFORCE++, ReMax and GAE.

Rewards are per token [B, L]; outcome estimators sum them to one number per response. Groups are the rows that share an
`index` (uid), in any order. Every function returns (advantages, returns), both [B, L] float32, zero where masked.
`row_mask` leaves rows (truncated ones) out of the group's statistics and gives them advantage 0; if fewer than two rows
of a group are left, there is nothing to compare and the whole group gets advantage 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from algorithms.groups import group_numbers

MASK_EPS = 1e-8


def widened(values: Tensor) -> Tensor:
    """At least float32: in bfloat16 a ratio near 1 moves in steps of 1/128, and a sum of 3,001 is 3,008."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def masked_mean(values: Tensor, mask: Tensor, eps: float = MASK_EPS) -> Tensor:
    """Mean over the masked entries of a whole tensor, Σ(v·m)/(Σm + eps); masked-out entries may hold anything."""
    return _masked(widened(values), mask).sum() / (mask.sum() + eps)


def masked_var(values: Tensor, mask: Tensor) -> Tensor:
    """Unbiased variance over the masked entries; 0 where fewer than two are left."""
    values = widened(values)
    mask = mask.to(values.dtype)
    centred = values - masked_mean(values, mask)
    count = mask.sum()
    return masked_mean(centred.square(), mask) * count / (count - 1.0).clamp(min=1.0)


def masked_whiten(values: Tensor, mask: Tensor, eps: float = MASK_EPS) -> Tensor:
    """(v − mean)·rsqrt(var + eps) with mean and unbiased variance of the masked entries, computed in float64.

    In float32 the mean of equal values can be off by a rounding, which a variance of almost 0 blows up to 0.4.
    """
    wide = values.double()
    white = (wide - masked_mean(wide, mask)) * torch.rsqrt(masked_var(wide, mask) + eps)
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
    scores, group, size, counted = _compare(token_level_rewards, index, row_mask)
    mean = _group_sum(scores, group, size) / size.clamp(min=1.0)
    centred = (scores - mean[group]) * counted
    if norm_by_std:
        variance = _group_sum(centred.square(), group, size) / (size - 1.0).clamp(min=1.0)
        centred = centred / (variance.sqrt()[group] + eps)
    return _spread(centred, response_mask)


def compute_gdpo_outcome_advantage(
    parts: Mapping[str, Tensor],
    weights: Mapping[str, float],
    response_mask: Tensor,
    index: Sequence[Any] | np.ndarray,
    eps: float = 1e-6,
    row_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """GDPO (arXiv 2601.05242): GRPO's advantage of each part of the reward, weighted, summed, whitened over the batch.

    Rewards that sum to the same number but differ in their parts keep different advantages.
    parts: by name, [B], NaN where one does not apply: compared among the others of its group alone; weights: by name (1
    if absent); the rest as in GRPO. Whitened over the rows that count.
    """
    summed = torch.zeros(response_mask.shape[:1], dtype=torch.float64)
    counted = torch.ones_like(summed) if row_mask is None else row_mask.to(summed)
    for name, values in parts.items():
        applies = (counted > 0) & ~values.isnan()
        own, _ = compute_grpo_outcome_advantage(values[:, None], torch.ones(len(values), 1), index, eps, True, applies)
        summed += weights.get(name, 1.0) * own[:, 0].double()
    return _spread(masked_whiten(summed, counted) * counted, response_mask)


def compute_maxrl_outcome_advantage(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Any] | np.ndarray,
    row_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """MaxRL (arXiv 2602.02710): (Σr − mean_g)/mean_g, an estimate of the gradient of ln P(right) for rewards 0 and 1.

    0 where the mean is not above 0. The rest as in GRPO.
    """
    scores, group, size, counted = _compare(token_level_rewards, index, row_mask)
    mean = (_group_sum(scores, group, size) / size.clamp(min=1.0))[group]
    scaled = torch.where(mean > 0, (scores - mean) * counted / mean.clamp(min=MASK_EPS), 0.0)
    return _spread(scaled, response_mask)


def compute_pass_at_k_outcome_advantage(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Any] | np.ndarray,
    k: int,
    row_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """pass@k training (arXiv 2508.10751), with the advantage of k drawn responses in closed form.

    Of N responses, W are wrong (Σr below ½): P = C(W, k)/C(N, k) is the probability that k of them are all wrong,
    σ = √(P(1 − P)). A right one has P/σ, a wrong one (P − C(W − 1, k − 1)/C(N − 1, k − 1))/σ; 0 if σ is. In a group of
    fewer than k responses, k is their number. The rest as in GRPO. Raises ValueError if k < 1.
    """
    if k < 1:
        raise ValueError(f"pass@k needs k of at least 1 (got {k})")
    scores, group, size, counted = _compare(token_level_rewards, index, row_mask)
    wrong = (scores < 0.5) * counted
    advantages = torch.zeros_like(scores)
    for one, (total, failed) in enumerate(zip(size.tolist(), _group_sum(wrong, group, size).tolist(), strict=True)):
        rows, bad, drawn = int(total), int(failed), min(k, int(total))
        none_right = math.comb(bad, drawn) / math.comb(rows, drawn)
        sigma = math.sqrt(none_right * (1.0 - none_right))
        if sigma == 0:
            continue
        others_wrong = math.comb(bad - 1, drawn - 1) / math.comb(rows - 1, drawn - 1)
        own = torch.where(wrong > 0, (none_right - others_wrong) / sigma, none_right / sigma)
        advantages = torch.where(group == one, own * counted, advantages)
    return _spread(advantages, response_mask)


def compute_rloo_outcome_advantage(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Any] | np.ndarray,
    row_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """RLOO: each response against the mean of the others, s − (Σ_g − s)/(n − 1) (Ahmadian et al., arXiv 2402.14740).

    token_level_rewards, response_mask: [B, L]; index: [B]; row_mask: bool [B]. Raises ValueError on a group of one.
    """
    scores, group, size, counted = _compare(token_level_rewards, index, row_mask)
    others = (_group_sum(scores, group, size)[group] - scores) / (size[group] - 1.0).clamp(min=1.0)
    return _spread((scores - others) * counted, response_mask)


def compute_rloo_turn_advantage(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Any] | np.ndarray,
    gamma: float = 1.0,
    row_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """RLOO of each turn's rewards to go: A_t = G_t − mean of the G_t of the group's other episodes that reached turn t.

        mask       1 1 0 0 1 1 1 0 1      turns are what gaps in the mask divide
        rewards    0 1 . . 0 0 2 . 4      γ = 1:  G = 7 7 · · 6 6 6 · 4

    G_t = Σ_{u≥t} γ^{u−t} r_u over turns. No episode is in its own baseline, so the gradient is unbiased whatever the
    others' histories; a mean that includes it, divided by the spread at turn t, would not be. Where nobody else reached
    turn t the baseline is 0. token_level_rewards, response_mask: [B, L]; index: [B]; row_mask: bool [B].
    Raises ValueError on a group of one.
    """
    mask = response_mask > 0
    begins = mask & ~torch.nn.functional.pad(mask, (1, 0))[:, :-1]
    turn = begins.long().cumsum(1).sub(1).clamp(min=0)
    shape = (len(mask), int(begins.sum(1).max()) if mask.any() else 1)
    rewards = _masked(token_level_rewards.double(), mask.double())
    to_go = torch.zeros(shape, dtype=torch.float64, device=mask.device).scatter_add_(1, turn, rewards)
    for place in range(shape[1] - 2, -1, -1):
        to_go[:, place] += gamma * to_go[:, place + 1]
    _, group, size, counted = _compare(to_go[:, :1], index, row_mask)
    reached = torch.arange(shape[1], device=mask.device) < begins.sum(1, keepdim=True)
    enters = reached * counted[:, None]
    totals = torch.zeros(len(size), shape[1], dtype=torch.float64, device=mask.device)
    number = totals.clone().index_add_(0, group, enters)[group] - enters
    others = totals.index_add_(0, group, to_go * enters)[group] - to_go * enters
    advantages = (to_go - others / number.clamp(min=1.0)) * enters
    spread = advantages.gather(1, turn).float() * response_mask.float()
    return spread, spread


def compute_remax_outcome_advantage(
    token_level_rewards: Tensor, reward_baselines: Tensor, response_mask: Tensor
) -> tuple[Tensor, Tensor]:
    """ReMax: Σr minus the reward of the greedy answer to the same prompt (Li et al., arXiv 2310.10505).

    token_level_rewards, response_mask: [B, L]; reward_baselines: [B].
    """
    if reward_baselines.shape != token_level_rewards.shape[:1]:
        raise ValueError(f"reward_baselines must be [{len(token_level_rewards)}], got {tuple(reward_baselines.shape)}")
    return _spread(_outcome(token_level_rewards) - reward_baselines.double(), response_mask)


def compute_reinforce_plus_plus_outcome_advantage(
    token_level_rewards: Tensor, response_mask: Tensor, gamma: float
) -> tuple[Tensor, Tensor]:
    """REINFORCE++: discounted return, reset after EOS, whitened over the batch (Hu et al., arXiv 2501.03262).

    token_level_rewards, response_mask: [B, L].
    """
    mask = response_mask.to(torch.float32)
    rewards = _masked(token_level_rewards.float(), mask)
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
    rewards, values = _masked(token_level_rewards.float(), mask), _masked(values.float(), mask)
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


def _masked(values: Tensor, mask: Tensor) -> Tensor:
    """Values where the mask is set, 0 elsewhere whatever was there: NaN times zero would be NaN."""
    return torch.where(mask > 0, values * mask.to(values.dtype), 0.0)


def _outcome(token_level_rewards: Tensor) -> Tensor:
    """One number per response, in float64, so that equal rewards equal their mean exactly and get advantage 0."""
    return token_level_rewards.double().sum(-1)


def _compare(
    rewards: Tensor, index: Sequence[Any] | np.ndarray, row_mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Each row's reward, 0 where it does not count, and its group, both [B]; the number of rows that count per group
    [G]; whether a row counts [B], which none does in a group of fewer than two. All but the group in float64."""
    scores = _outcome(rewards)
    rows = len(scores)
    if len(index) != rows:
        raise ValueError(f"index has {len(index)} entries for {rows} rows")
    numbers, labels = group_numbers(index)
    group = torch.from_numpy(numbers).to(scores.device)
    size = torch.bincount(group, minlength=len(labels)).double()
    if (size < 2).any():
        alone = labels[int((size < 2).int().argmax())]
        raise ValueError(f"group {alone!r} has one response; a group baseline needs at least two")
    counted = torch.ones_like(scores)
    if row_mask is not None:
        if row_mask.shape != (rows,):
            raise ValueError(f"row_mask must be [{rows}], got {tuple(row_mask.shape)}")
        counted = row_mask.to(scores)
        size = _group_sum(counted, group, size)
        counted = counted * (size[group] >= 2)
    return _masked(scores, counted), group, size, counted


def _group_sum(values: Tensor, group: Tensor, size: Tensor) -> Tensor:
    return torch.zeros(len(size), dtype=values.dtype, device=values.device).index_add_(0, group, values)


def _spread(row_values: Tensor, response_mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same advantage at every response token; the outcome estimators' return is their advantage."""
    advantages = row_values.float()[:, None] * response_mask.float()
    return advantages, advantages
