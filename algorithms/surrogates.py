"""Policy losses besides PPO's: CISPO, SAPO, GMPO, DPPO, VESPO, Clip-Cov and KL-Cov.

Each is a `PolicyLoss` (algorithms/losses.py). With x = log π − log π_old of a token, r = eˣ, A its advantage and sg(·)
for "without gradient", the loss of a token is, for instance, −sg(min(r, limit))·A·log π. Not covered: GSPO, which is
PPO with algorithm.policy.ratio=sequence; averaging over tokens, which is algorithm.policy.aggregation.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from algorithms.advantages import masked_mean
from algorithms.kl import LOG_RATIO_LIMIT
from algorithms.losses import CleanTokens, PolicyTokens, Terms, policy_loss_of
from algorithms.settings import (
    CispoSettings,
    ClipCovSettings,
    DppoSettings,
    GmpoSettings,
    KlCovSettings,
    SapoSettings,
    VespoSettings,
)

CLIP_COV_RATIO = 2.0
"""Clip-Cov's authors clip PPO's ratio to [0, 2] only."""


class ChoosingLoss(Protocol):
    """A policy loss that treats some tokens of a global batch differently; its table entry has the fact `chooses`."""

    def choose(self, log_probs: Tensor, advantages: Tensor, mask: Tensor, generator: torch.Generator) -> Tensor:
        """Those tokens: bool [B, L], given to `terms` as `PolicyTokens.chosen`. All tensors [B, L], without gradient.

        Called once an optimiser step with the whole global batch, so that the choice does not depend on micro-batches.
        log_probs: under the policy before the step.
        """


@policy_loss_of
def cispo(settings: CispoSettings, tokens: PolicyTokens) -> Terms:
    """CISPO (MiniMax-M1, arXiv 2506.13585): −sg(min(r, limit))·A·log π. No token loses its gradient.

    As published, the ratio has no lower bound. pg_clipfrac: whether it is bounded above.
    """
    clean = CleanTokens.of(tokens)
    ratio = clean.log_ratio.detach().exp()
    loss = -ratio.clamp(max=settings.limit) * clean.advantages * clean.log_probs
    return loss, clean.measured(pg_clipfrac=ratio > settings.limit)


@policy_loss_of
def sapo(settings: SapoSettings, tokens: PolicyTokens) -> Terms:
    """SAPO (arXiv 2511.20347): −(4/τ)·sigmoid(τ·(r − 1))·A, with τ by the sign of A.

    The gradient is that of PPO's ratio at r = 1 and fades on both sides of it. gate: how far it is open (1 at r = 1).
    """
    clean = CleanTokens.of(tokens)
    tau = torch.where(clean.advantages > 0, settings.tau_positive, settings.tau_negative)
    gate = torch.sigmoid(tau * (clean.log_ratio.exp() - 1.0))
    return -4.0 / tau * gate * clean.advantages, clean.measured(gate=4.0 * gate * (1.0 - gate))


@policy_loss_of
def gmpo(settings: GmpoSettings, tokens: PolicyTokens) -> Terms:
    """GMPO (arXiv 2507.20673): −A·exp(mean over the response of x, clipped on the side that PPO clips).

    Its clips are wide, (e^−0.4, e^0.4), since a mean of logarithms is less moved by outliers. A response counts as one,
    so it goes with aggregation=seq; the loss is the same all over one of one advantage. pg_clipfrac: tokens clipped.
    """
    clean, clip = CleanTokens.of(tokens), settings.clip
    x = clean.log_ratio
    bounded = torch.where(clean.advantages > 0, x.clamp(max=clip), x.clamp(min=-clip))
    length = clean.valid.sum(-1, keepdim=True).clamp(min=1)
    ratio = (bounded.sum(-1, keepdim=True) / length).exp()
    return -clean.advantages * ratio, clean.measured(pg_clipfrac=bounded != x)


@policy_loss_of
def dppo(settings: DppoSettings, tokens: PolicyTokens) -> Terms:
    """DPPO (arXiv 2602.04879): −M·r·A, where M leaves out tokens whose probability has moved too far.

    With the probabilities p, q of the sampled token now and before, the divergence is |p − q| (tv) or the KL between
    (q, 1 − q) and (p, 1 − p). A token is left out if it exceeds the threshold and A would drive it further. prime-rl
    adds τ·x² (its documentation, "Default loss"). It is meant for algorithm.policy.old_log_probs=engine.
    pg_clipfrac: tokens left out.
    """
    clean = CleanTokens.of(tokens)
    with torch.no_grad():
        left_out = _left_out(settings, clean)
    loss = -clean.advantages * clean.log_ratio.exp() * ~left_out
    loss = loss + settings.squared_log_ratio * clean.log_ratio.square()
    return loss, clean.measured(pg_clipfrac=left_out)


def _left_out(settings: DppoSettings, clean: CleanTokens) -> Tensor:
    now, before = clean.log_probs.exp(), clean.old_log_probs.exp()
    if settings.divergence == "tv":
        divergence = (now - before).abs()
    else:  # 1 − p in float32 may be 0, and its logarithm infinite
        others, others_before = ((1.0 - p.double()).clamp(min=1e-9) for p in (now, before))
        divergence = -before * clean.log_ratio + others_before * (others_before.log() - others.log())
    away = (now - before) * clean.advantages > 0
    return clean.valid & (divergence > settings.threshold) & (away | settings.two_sided)


@policy_loss_of
def vespo(settings: VespoSettings, tokens: PolicyTokens) -> Terms:
    """VESPO (arXiv 2602.10693): −sg(W^k·exp(λ·(1 − W)))·A·log π, W the ratio of the whole response, not of its mean.

    The weight is 1 at W = 1; k and λ depend on the sign of A. For many updates a batch, not for rollout.max_staleness.
    sequence_weight: that weight.
    """
    clean, own = CleanTokens.of(tokens), settings
    x = clean.log_ratio.detach().sum(-1, keepdim=True).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    positive = clean.advantages >= 0
    power = torch.where(positive, own.power_positive, own.power_negative)
    decay = torch.where(positive, own.decay_positive, own.decay_negative)
    weight = (power * x + decay * (1.0 - x.exp())).exp()
    return -weight * clean.advantages * clean.log_probs, clean.measured(sequence_weight=weight)


class ClipCov:
    """Clip-Cov (arXiv 2505.22617): tokens drawn from those of high covariance lose their gradient.

    A token's covariance is (log π − mean)·(A − mean) over the global batch. Published, π is the current
    policy; here it is that before the step, which is the same in a batch's first optimiser step.
    """

    def __init__(self, settings: ClipCovSettings) -> None:
        self.settings = settings

    def choose(self, log_probs: Tensor, advantages: Tensor, mask: Tensor, generator: torch.Generator) -> Tensor:
        """At least one token, as far as any is eligible."""
        covariance = _covariance(log_probs, advantages, mask)
        eligible = ((covariance > self.settings.low) & (covariance < self.settings.high)).flatten().nonzero()[:, 0]
        count = max(int(self.settings.share * int((mask > 0).sum())), 1)
        drawn = eligible[torch.randperm(len(eligible), generator=generator)[:count]]
        return _marked(drawn, mask)

    def terms(self, tokens: PolicyTokens) -> Terms:
        """The loss of each token, and the share of those chosen."""
        clean, chosen = CleanTokens.of(tokens), _chosen(tokens)
        ratio = clean.log_ratio.exp()
        loss = torch.maximum(-clean.advantages * ratio, -clean.advantages * ratio.clamp(0.0, CLIP_COV_RATIO))
        return loss * ~chosen, clean.measured(pg_clipfrac=chosen)


class KlCov:
    """KL-Cov (arXiv 2505.22617): −A·r, and + coef·|x| for the tokens of highest covariance."""

    def __init__(self, settings: KlCovSettings) -> None:
        self.settings = settings

    def choose(self, log_probs: Tensor, advantages: Tensor, mask: Tensor, generator: torch.Generator) -> Tensor:
        """At least one token, if there is any."""
        covariance = _covariance(log_probs, advantages, mask)
        tokens = int((mask > 0).sum())
        count = min(max(int(self.settings.share * tokens), 1), tokens)
        return _marked(covariance.flatten().topk(count).indices, mask)

    def terms(self, tokens: PolicyTokens) -> Terms:
        """The loss of each token, and the share of those chosen."""
        clean, chosen = CleanTokens.of(tokens), _chosen(tokens)
        penalty = self.settings.coef * clean.log_ratio.abs() * chosen
        return -clean.advantages * clean.log_ratio.exp() + penalty, clean.measured(pg_clipfrac=chosen)


def _covariance(log_probs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    """(log π − mean)·(A − mean) of each token [B, L]; −∞ where the mask is 0."""
    valid = mask > 0
    centred = [values - masked_mean(values, mask) for values in (log_probs.double(), advantages.double())]
    return (centred[0] * centred[1]).masked_fill(~valid, -torch.inf)


def _marked(positions: Tensor, mask: Tensor) -> Tensor:
    chosen = torch.zeros(mask.numel(), dtype=torch.bool)
    chosen[positions] = True
    return chosen.view(mask.shape)


def _chosen(tokens: PolicyTokens) -> Tensor:
    if tokens.chosen is None:
        raise ValueError("this loss needs PolicyTokens.chosen, from its `choose` on the whole global batch")
    return tokens.chosen
