"""Losses of data: the likelihood of demonstrations, and DPO of pairs.

Not covered: which tokens an assistant says (ares/step/demonstrations.py).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from algorithms.losses import CleanTokens, PolicyTokens, Terms, policy_loss_of
from algorithms.settings import PolicySettings


@policy_loss_of
def likelihood(settings: PolicySettings, tokens: PolicyTokens) -> Terms:
    """−A·log π, without a ratio to an older policy: of demonstrations, where A is 1, the cross-entropy; of pairs with
    A from `pair_weights` a loss with DPO's gradient."""
    clean = CleanTokens.of(tokens)
    return -clean.advantages * clean.log_probs, {}


def pair_weights(
    log_probs: Tensor, ref_log_probs: Tensor, mask: Tensor, beta: float
) -> tuple[Tensor, dict[str, float]]:
    """What the tokens of pairs weigh in a likelihood whose gradient is that of DPO (arXiv 2305.18290, eq. 7).

    With r = β·Σ(log π − log π_ref) over a response and the margin m = r_chosen − r_rejected, the loss of a pair is
    −log σ(m), and its gradient by log π is −β·σ(−m) at tokens of the chosen response, β·σ(−m) at those of the other.

    All tensors [2P, L]: rows 2i and 2i + 1 are the chosen and the rejected response of pair i, under the policy that is
    updated, in one optimiser step. Returns weights [2P, L] for a mean over all tokens, and metrics: the mean loss
    (nats), the share of pairs with m > 0, the mean m, and the mean r of both.
    """
    mask = mask.double()
    rewards = beta * ((log_probs.double() - ref_log_probs.double()).masked_fill(mask == 0, 0.0)).sum(-1)
    chosen, rejected = rewards[0::2], rewards[1::2]
    margins = chosen - rejected
    slopes = beta * torch.sigmoid(-margins) * mask.sum() / len(margins)
    weights = torch.stack([slopes, -slopes], 1).flatten()[:, None] * mask
    figures = {
        "loss": -logsigmoid(margins), "accuracy": (margins > 0).double(), "margin": margins,
        "chosen_reward": chosen, "rejected_reward": rejected,
    }  # fmt: skip
    return weights.float(), {f"dpo/{name}": float(values.mean()) for name, values in figures.items()}
