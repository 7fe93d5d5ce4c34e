"""The loss of demonstrations against plain float64: cross-entropy of the tokens that count, and its gradient."""

import math

import pytest
import torch

from algorithms.losses import PolicyTokens, loss_normalizer, policy_loss
from algorithms.settings import PolicySettings
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
