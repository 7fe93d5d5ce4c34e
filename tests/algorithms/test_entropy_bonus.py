"""The entropy bonus: its gradient against the exact one, its coefficient, the tokens it acts on."""

import math

import pytest
import torch

from algorithms.entropy_bonus import EntropyBonus, entropy_bonus_loss
from algorithms.settings import EntropyBonusSettings


@pytest.mark.parametrize(("spread", "staleness"), [(0.0, 0.0), (0.4, 0.0), (0.4, 0.7)])
def test_its_gradient_is_on_average_that_of_the_entropy(spread: float, staleness: float) -> None:
    """Every token of a vocabulary of six once, counted by its probability under the policy that sampled it."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, generator=generator, dtype=torch.float64, requires_grad=True)
    old = torch.log_softmax(logits.detach() + spread * torch.randn(6, generator=generator, dtype=torch.float64), -1)
    sampled = torch.log_softmax(old + staleness * torch.randn(6, generator=generator, dtype=torch.float64), -1)
    log_probs = torch.log_softmax(logits, -1)
    entropy = -(log_probs.exp() * log_probs).sum()
    (exact,) = torch.autograd.grad(-0.3 * entropy, logits, retain_graph=True)

    losses = []
    for token in range(6):
        tokens = log_probs[token].view(1, 1), old[token].view(1, 1), entropy.detach().view(1, 1)
        weight = (old - sampled).exp()[token].view(1, 1)
        losses.append(entropy_bonus_loss(*tokens, torch.full((1, 1), 0.3), torch.ones(1, 1), weight))
        assert losses[-1].item() == pytest.approx(-0.3 * entropy.item())
    (estimate,) = torch.autograd.grad((sampled.exp() * torch.stack(losses)).sum(), logits)
    torch.testing.assert_close(estimate, exact)


def test_padding_may_hold_anything() -> None:
    fields = [torch.tensor([[value, math.nan]]) for value in (-1.0, -1.5, 2.0)]
    log_probs = fields[0].requires_grad_(True)
    loss = entropy_bonus_loss(log_probs, fields[1], fields[2], torch.tensor([[0.5, math.nan]]), torch.tensor([[1, 0]]))
    (gradient,) = torch.autograd.grad(loss, log_probs)
    assert loss.item() == pytest.approx(-1.0)
    assert gradient.tolist() == [[pytest.approx(0.5 * math.exp(0.5) * 1.0), 0.0]]


def test_a_target_moves_the_coefficient_and_a_resumed_one_continues() -> None:
    bonus = EntropyBonus(EntropyBonusSettings(coef=0.006, target=1.0, step=0.005))
    mask, low, high = torch.ones(1, 2), torch.full((1, 2), 0.5), torch.full((1, 2), 1.5)
    assert bonus.coefficients(low, mask).tolist() == [[pytest.approx(0.006)] * 2]
    assert bonus.coefficients(low, mask).tolist() == [[pytest.approx(0.011)] * 2]
    assert bonus.coefficients(high, mask).tolist() == [[0.0, 0.0]]  # it does not act above the target
    assert bonus.metrics() == {"actor/entropy_coef": pytest.approx(0.011)}
    resumed = EntropyBonus(EntropyBonusSettings(coef=0.006, target=1.0))
    resumed.load_state_dict(bonus.state_dict())
    assert resumed.coefficients(low, mask).tolist() == [[pytest.approx(0.011)] * 2]
    for _ in range(9):
        bonus.coefficients(high, mask)
    assert bonus.coef == 0.0


def test_without_a_target_the_coefficient_is_that_of_the_settings_in_a_fork_too() -> None:
    bonus = EntropyBonus(EntropyBonusSettings(coef=0.02))
    bonus.load_state_dict({"coef": 0.001})
    assert bonus.coef == 0.02


def test_only_the_tokens_of_highest_entropy_get_it() -> None:
    bonus = EntropyBonus(EntropyBonusSettings(coef=0.1, share=0.4))
    entropies = torch.tensor([[0.1, 2.0, 9.0], [1.0, 0.2, 0.3]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    tenth = pytest.approx(0.1)
    assert bonus.coefficients(entropies, mask).tolist() == [[0.0, tenth, 0.0], [tenth, 0.0, 0.0]]
    assert bonus.coefficients(entropies, torch.zeros(2, 3)).tolist() == [[0.0] * 3] * 2
