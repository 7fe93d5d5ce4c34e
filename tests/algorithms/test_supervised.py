"""Losses of data against plain float64: the cross-entropy of demonstrations, DPO of pairs, and their gradients."""

import math

import pytest
import torch

from algorithms.losses import PolicyTokens, loss_normalizer, policy_loss
from algorithms.settings import PolicySettings
from algorithms.supervised import pair_weights
from ares.config import POLICY_LOSSES

SAID = [[(0.25, True), (0.5, False), (0.125, True)], [(0.75, True), (0.1, True), (1.0, False)]]
"""Probability of each token of two rows, and whether the assistant says it."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_the_cross_entropy_of_the_tokens_that_count_however_rows_are_divided(dtype: torch.dtype) -> None:
    mask = torch.tensor([[float(counts) for _, counts in row] for row in SAID])
    probabilities = torch.tensor([[p for p, _ in row] for row in SAID], dtype=torch.float64)
    log_probs = probabilities.log().where(mask > 0, torch.nan).to(dtype).requires_grad_()
    none = torch.full_like(mask, torch.nan)  # what is not read may be anything
    loss = POLICY_LOSSES.make(PolicySettings(loss="sft"))

    def of(rows: slice) -> torch.Tensor:
        tokens = PolicyTokens(none[rows], log_probs[rows], torch.ones_like(mask[rows]), mask[rows])
        return policy_loss(loss, tokens, normalizer=loss_normalizer(mask))[0]

    counted = [p for row in SAID for p, counts in row if counts]
    naive = -sum(map(math.log, counted)) / len(counted)
    whole = of(slice(None))
    assert float(whole.detach()) == pytest.approx(naive, rel=1e-6)
    assert float((of(slice(0, 1)) + of(slice(1, 2))).detach()) == pytest.approx(naive, rel=1e-6)
    (gradient,) = torch.autograd.grad(whole, log_probs)
    torch.testing.assert_close(gradient.double(), -mask.double() / len(counted))


def test_pairs_weigh_what_gives_the_gradient_of_dpo() -> None:
    """Two pairs of unequal lengths; the loss is written out as in the paper."""
    beta, mask = 0.3, torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 1, 1]])
    generator = torch.Generator().manual_seed(0)
    log_probs, reference = (-torch.rand(mask.shape, generator=generator, dtype=torch.float64) for _ in range(2))
    log_probs = log_probs.where(mask > 0, torch.nan).requires_grad_()
    losses = []
    for chosen, rejected in ((0, 1), (2, 3)):
        ratios = [
            sum(log_probs[row, t] - reference[row, t] for t in range(3) if mask[row, t]) for row in (chosen, rejected)
        ]
        losses.append(-torch.log(1 / (1 + torch.exp(-beta * (ratios[0] - ratios[1])))))
    naive = sum(losses) / 2
    (expected,) = torch.autograd.grad(naive, log_probs)

    weights, metrics = pair_weights(log_probs.detach(), reference, mask, beta)
    tokens = PolicyTokens(reference, log_probs, weights.double(), mask)
    loss, _ = policy_loss(POLICY_LOSSES.make(PolicySettings(loss="dpo")), tokens)
    (gradient,) = torch.autograd.grad(loss, log_probs)
    torch.testing.assert_close(gradient, expected.nan_to_num(0.0), rtol=1e-6, atol=1e-9)
    assert metrics["dpo/loss"] == pytest.approx(float(naive.detach()))
    assert metrics["dpo/margin"] == pytest.approx(metrics["dpo/chosen_reward"] - metrics["dpo/rejected_reward"])
    assert metrics["dpo/accuracy"] in (0.0, 0.5, 1.0)
