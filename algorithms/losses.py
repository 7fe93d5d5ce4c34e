"""Policy, value and KL losses, and importance weights for an engine that samples from a slightly different policy.

A loss is a masked sum divided by a normaliser, by default that of the given rows. A learner that splits a batch passes
`normalizer=loss_normalizer(whole batch)` with every part and adds up the results, so that the update does not depend on
how the batch is split, or over how many ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, Protocol, get_args

import torch
from torch import Tensor

from algorithms.advantages import MASK_EPS, masked_mean, widened
from algorithms.kl import LOG_RATIO_LIMIT, compute_kl
from algorithms.settings import KLKind, LossAvgMode, PolicySettings


def loss_normalizer(mask: Tensor, mode: LossAvgMode = "token", constant_length: int | None = None) -> Tensor:
    """The divisor of a masked sum: tokens, non-empty sequences, or rows × constant_length; additive over parts.

    mask: [B, L]. Returns a float32 scalar.
    """
    if mode == "token":
        return mask.sum().float()
    if mode == "seq":
        return (mask.sum(-1) > 0).sum().float()
    if mode == "constant":
        if constant_length is None or constant_length < 1:
            raise ValueError(f"mode 'constant' needs constant_length ≥ 1, got {constant_length}")
        return torch.tensor(float(len(mask) * constant_length), device=mask.device)
    raise ValueError(f"unknown aggregation {mode!r} (one of {', '.join(get_args(LossAvgMode))})")


def average_loss(
    values: Tensor,
    mask: Tensor,
    mode: LossAvgMode = "token",
    constant_length: int | None = None,
    normalizer: Tensor | float | None = None,
) -> Tensor:
    """Aggregate a per-token loss: "token" over all tokens (DAPO, eq. 12), "seq" the mean of each sequence's mean (GRPO,
    eq. 3), "constant" over rows × constant_length (Dr.GRPO, arXiv 2503.20783).

    values, mask: [B, L]. Returns a scalar; 0, with zero gradient, if all is masked. Masked values may be anything.
    """
    if normalizer is None:
        normalizer = loss_normalizer(mask, mode, constant_length)
    values = widened(values)
    weights = mask.to(values.dtype)
    summed = torch.where(mask > 0, values * weights, 0.0).sum(-1)
    if mode == "seq":
        summed = summed / (weights.sum(-1) + MASK_EPS)
        return summed.sum() / torch.as_tensor(normalizer).clamp(min=1.0)
    return summed.sum() / (normalizer + MASK_EPS)


@dataclass(frozen=True)
class PolicyTokens:
    """A policy loss's input: a micro-batch of B rows of up to L tokens. All tensors [B, L]."""

    old_log_probs: Tensor
    """Under the policy before the step."""
    log_probs: Tensor
    """Under the current policy, with gradient."""
    advantages: Tensor
    mask: Tensor
    """Response tokens to learn from; elsewhere the other tensors may hold anything, even NaN."""
    chosen: Tensor | None = None
    """What a loss that chooses tokens of the global batch has chosen (ChoosingLoss, algorithms/surrogates.py)."""


@dataclass(frozen=True)
class CleanTokens:
    """The tokens as at least float32, with zeros where nothing is learnt: what stood there may be NaN. All [B, L]."""

    log_probs: Tensor
    old_log_probs: Tensor
    advantages: Tensor
    valid: Tensor
    log_ratio: Tensor
    """log π − log π_old, within ±20."""

    @classmethod
    def of(cls, tokens: PolicyTokens) -> CleanTokens:
        """Zeroed before any arithmetic, NaN and −inf reach neither loss nor gradient."""
        valid = tokens.mask > 0
        fields = tokens.log_probs, tokens.old_log_probs, tokens.advantages
        new, old, advantages = (widened(field).masked_fill(~valid, 0.0) for field in fields)
        return cls(new, old, advantages, valid, (new - old).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))

    def measured(self, **of_tokens: Tensor) -> dict[str, Tensor]:
        """Metrics of each token, without gradient; ppo_kl is k1 from the policy before the step."""
        return {name: values.detach().float() for name, values in ({"ppo_kl": -self.log_ratio} | of_tokens).items()}


Terms = tuple[Tensor, dict[str, Tensor]]


class PolicyLoss(Protocol):
    """The surrogate loss; constructed from its settings. docs/extending.md has an example.

    The learner multiplies its tokens with importance weights, aggregates them over the global batch
    (algorithm.policy.aggregation), adds the KL term, and logs the means of its metrics under actor/.
    """

    def terms(self, tokens: PolicyTokens) -> Terms:
        """The loss of each token [B, L], finite everywhere, and metrics without gradient [B, L] by name."""


def policy_loss_of(terms: Callable[[Any, PolicyTokens], Terms]) -> Callable[[Any], PolicyLoss]:
    """What makes a policy loss from its settings, for one that is only the function `terms`."""
    return lambda settings: SimpleNamespace(terms=partial(terms, settings))


@policy_loss_of
def ppo(settings: PolicySettings, tokens: PolicyTokens) -> Terms:
    """PPO (arXiv 1707.06347, eq. 7) with separate clips (DAPO, §3.1) and dual clip (Ye et al., arXiv 1912.09729).

    x = clamp(log π − log π_old, ±20); max(−A·eˣ, −A·exp(clamp(x, ln(1−lo), ln(1+hi)))), for A < 0 at most −A·dual.
    ratio "sequence" is GSPO: x is the mean of a sequence's log-ratios (arXiv 2507.18071, eq. 7).
    Metrics: ppo_kl (k1 from the policy before the step) and the clipped tokens.
    """
    clean = CleanTokens.of(tokens)
    log_ratio, advantages = clean.log_ratio, clean.advantages
    if settings.ratio == "sequence":
        whole = (clean.log_probs - clean.old_log_probs).sum(-1, keepdim=True)
        mean = whole / clean.valid.sum(-1, keepdim=True).clamp(min=1)
        log_ratio = mean.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).expand_as(log_ratio)
    clipped = log_ratio.clamp(math.log(1.0 - settings.clip_low), math.log(1.0 + settings.clip_high))

    plain, bounded = -advantages * log_ratio.exp(), -advantages * clipped.exp()
    higher = torch.maximum(plain, bounded)
    limit = -advantages * settings.clip_dual
    negative = advantages < 0
    per_token = torch.where(negative, torch.minimum(higher, limit), higher)
    return per_token, clean.measured(
        ppo_kl=-log_ratio, pg_clipfrac_higher=plain < bounded, pg_clipfrac_lower=(higher > limit) & negative
    )


def policy_loss(
    surrogate: PolicyLoss,
    tokens: PolicyTokens,
    importance_weights: Tensor | None = None,
    **averaging: Any,
) -> tuple[Tensor, dict[str, float]]:
    """A surrogate's loss, aggregated over tokens, and the means of its metrics and of −log π (`entropy_loss`).

    importance_weights: per-token factors without gradient (truncated importance sampling), [B, L]. averaging: as
    `average_loss` takes it.
    """
    per_token, figures = surrogate.terms(tokens)
    mask = tokens.mask
    if importance_weights is not None:
        per_token = per_token * importance_weights.detach().masked_fill(~(mask > 0), 0.0)
    loss = average_loss(per_token, mask, **averaging)
    with torch.no_grad():
        entropy = average_loss(-tokens.log_probs, mask, **averaging | {"normalizer": None})
        measured = {"entropy_loss": entropy} | {name: masked_mean(figure, mask) for name, figure in figures.items()}
        numbers = torch.stack([value.float() for value in measured.values()]).tolist()
    return loss, dict(zip(measured, numbers, strict=True))


def compute_value_loss(
    vpreds: Tensor,
    returns: Tensor,
    values: Tensor,
    response_mask: Tensor,
    cliprange_value: float,
    loss_avg_mode: LossAvgMode = "token",
    normalizer: Tensor | float | None = None,
) -> tuple[Tensor, float]:
    """Clipped critic loss ½·avg(max((v − R)², (clip(v, V ± c) − R)²)) (Engstrom et al., arXiv 2005.12729).

    vpreds, returns, values (at rollout), response_mask: [B, L]. Returns the loss and the fraction of clipped tokens.
    """
    padding = ~(response_mask > 0)
    vpreds, returns, values = (widened(tensor).masked_fill(padding, 0.0) for tensor in (vpreds, returns, values))
    # `minimum`/`maximum` with tensor bounds split the gradient at a tie; `clamp` keeps it, as the recorded numbers do.
    clipped = torch.clamp(vpreds, values - cliprange_value, values + cliprange_value)
    plain, bounded = (vpreds - returns).square(), (clipped - returns).square()
    loss = 0.5 * average_loss(torch.maximum(plain, bounded), response_mask, loss_avg_mode, normalizer=normalizer)
    clipped_fraction = masked_mean((plain < bounded).float(), response_mask)
    return loss, float(clipped_fraction)


def compute_kl_loss(
    log_probs: Tensor,
    ref_log_probs: Tensor,
    response_mask: Tensor,
    beta: Tensor | float = 1.0,
    kl_penalty: KLKind = "low_var_kl",
    **averaging: Any,
) -> tuple[Tensor, Tensor]:
    """KL to the reference as a loss, avg(β_t·KL_t) (GRPO, arXiv 2402.03300, eq. 4; ARES for β per token).

    log_probs, ref_log_probs, response_mask: [B, L]; beta: a number or [B, L]; kl_penalty: any but "full"; averaging: as
    `average_loss` takes it. Returns the loss and each sequence's mean KL [B] (nats, no gradient), the input of the β
    controller.
    """
    padding = ~(response_mask > 0)
    # Zeroed before any arithmetic: if only the result were masked, a NaN in the padding would reach the gradient.
    kl = compute_kl(log_probs.masked_fill(padding, 0.0), ref_log_probs.masked_fill(padding, 0.0), kl_penalty)
    loss = average_loss(beta * kl, response_mask, **averaging)
    row_kl = kl.detach().sum(-1) / (response_mask.sum(-1) + MASK_EPS)
    return loss, row_kl


def importance_weights(
    old_log_probs: Tensor,
    engine_log_probs: Tensor,
    response_mask: Tensor,
    settings: PolicySettings | None = None,
) -> tuple[Tensor, dict[str, float]]:
    """Weights from ρ = π_learner,old / π_engine, for tokens sampled by an older policy or another implementation.

    kind "truncated": min(ρ, cap) (Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL
    training"); "masked": ρ where floor ≤ ρ ≤ cap, else 0 (IcePop: Ring-1T, arXiv 2510.18855); "rejected": 1 there, else
    0 (Liu et al. 2025, "When speed kills stability"). floor None is 1/cap. ρ is the token's, at level "sequence" the
    product over the response, at "geometric" its mean in logarithms.
    All tensors [B, L]; without settings or a cap all weights are 1 and only the metrics matter. Returns the weights
    [B, L], 1 at masked positions, and metrics over response tokens: mismatch/ratio_{mean,max,min}, mismatch/kl (k1) and
    mismatch/k3 of KL(engine ‖ learner) in nats, mismatch/logprob_diff_{mean,max}, mismatch/capped_fraction (ρ out of
    bounds).
    """
    valid = response_mask > 0
    x = (old_log_probs.float() - engine_log_probs.float()).detach().masked_fill(~valid, 0.0)
    ratio = x.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
    mask = valid.float()
    any_valid = bool(valid.any())
    if settings is None or settings.importance_cap is None:
        weights, capped = torch.ones_like(ratio), torch.zeros_like(valid)
    else:
        cap, kind, level = settings.importance_cap, settings.importance_weights, settings.importance_level
        of_level = ratio
        if level != "token":
            lengths = valid.sum(-1, keepdim=True).clamp(min=1) if level == "geometric" else 1
            log_ratio = (x.sum(-1, keepdim=True) / lengths).expand_as(x)
            of_level = log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
        least = 1.0 / cap if settings.importance_floor is None else settings.importance_floor
        within = ~(of_level > cap) if kind == "truncated" else (of_level >= least) & (of_level <= cap)
        # A NaN is within: the loss is NaN too, and the step is skipped and counted.
        kept = torch.ones_like(ratio) if kind == "rejected" else of_level
        weights, capped = torch.where(within, kept, cap if kind == "truncated" else 0.0), ~within
    measured = {
        "mismatch/ratio_mean": masked_mean(ratio, mask),
        "mismatch/ratio_max": ratio.masked_fill(~valid, -math.inf).max() if any_valid else mask.sum(),
        "mismatch/ratio_min": ratio.masked_fill(~valid, math.inf).min() if any_valid else mask.sum(),
        "mismatch/kl": masked_mean(-x, mask),
        "mismatch/k3": masked_mean(ratio - x - 1.0, mask),
        "mismatch/logprob_diff_mean": masked_mean(x.abs(), mask),
        "mismatch/logprob_diff_max": x.abs().max() if any_valid else mask.sum(),
        "mismatch/capped_fraction": masked_mean(capped.float(), mask),
    }
    metrics = dict(zip(measured, torch.stack(list(measured.values())).tolist(), strict=True))
    return weights.masked_fill(~valid, 1.0), metrics
