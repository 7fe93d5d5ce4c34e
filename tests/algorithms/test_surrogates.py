"""Policy losses besides PPO's, each against its formula in plain float64: losses, gradients, which tokens count."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from algorithms.losses import PolicyLoss, PolicyTokens, policy_loss
from algorithms.settings import PolicySettings
from algorithms.surrogates import ClipCov, KlCov
from ares.config import POLICY_LOSSES

Row = list[tuple[float, float, float]]
"""log π, log π_old and advantage of a response's tokens."""
Formula = Callable[[Row], list[tuple[float, float]]]
"""Loss of each token, and its gradient by its own log π summed over the response's losses."""


def cispo(row: Row) -> list[tuple[float, float]]:
    weights = [min(math.exp(new - old), 5.0) * advantage for new, old, advantage in row]
    return [(-weight * new, -weight) for weight, (new, _, _) in zip(weights, row, strict=True)]


def sapo(row: Row) -> list[tuple[float, float]]:
    terms = []
    for new, old, advantage in row:
        tau, ratio = 1.0 if advantage > 0 else 1.05, math.exp(new - old)
        gate = 1 / (1 + math.exp(-tau * (ratio - 1)))
        terms.append((-4 / tau * gate * advantage, -4 * gate * (1 - gate) * ratio * advantage))
    return terms


def gmpo(row: Row) -> list[tuple[float, float]]:
    bounded = [min(new - old, 0.4) if advantage > 0 else max(new - old, -0.4) for new, old, advantage in row]
    mean = math.exp(sum(bounded) / len(row))
    slope = -sum(advantage for _, _, advantage in row) * mean / len(row)
    return [
        (-advantage * mean, slope if x == new - old else 0.0)
        for x, (new, old, advantage) in zip(bounded, row, strict=True)
    ]


def dppo(divergence: Callable[[float, float], float], threshold: float, two_sided: bool, tau: float) -> Formula:
    def terms(row: Row) -> list[tuple[float, float]]:
        found = []
        for new, old, advantage in row:
            p, q, x = math.exp(new), math.exp(old), new - old
            far = divergence(p, q) > threshold and (two_sided or (p - q) * advantage > 0)
            surrogate = 0.0 if far else -advantage * math.exp(x)
            found.append((surrogate + tau * x * x, surrogate + 2 * tau * x))
        return found

    return terms


def total_variation(p: float, q: float) -> float:
    return abs(p - q)


def binary_kl(p: float, q: float) -> float:
    return q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))


def vespo(row: Row) -> list[tuple[float, float]]:
    whole = math.exp(sum(new - old for new, old, _ in row))
    terms = []
    for new, _, advantage in row:
        power, decay = (2, 3) if advantage >= 0 else (3, 2)
        weight = whole**power * math.exp(decay * (1 - whole)) * advantage
        terms.append((-weight * new, -weight))
    return terms


CASES: list[tuple[str, dict[str, Any], Formula]] = [
    ("cispo", {}, cispo),
    ("sapo", {}, sapo),
    ("gmpo", {}, gmpo),
    ("dppo", {}, dppo(total_variation, 0.2, False, 0.0)),
    ("dppo", {"divergence": "kl", "threshold": 0.05}, dppo(binary_kl, 0.05, False, 0.0)),
    ("dppo", {"two_sided": True, "squared_log_ratio": 0.001}, dppo(total_variation, 0.2, True, 0.001)),
    ("vespo", {}, vespo),
]


def rows(seed: int) -> tuple[PolicyTokens, list[Row]]:
    """Five responses of up to seven tokens in float64, with NaN in the padding."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.tensor([7, 1, 4, 6, 3])
    mask = (torch.arange(7) < lengths[:, None]).long()
    old = -3.0 * torch.rand(5, 7, generator=generator, dtype=torch.float64) - 0.01
    new = (old + 0.9 * torch.randn(5, 7, generator=generator, dtype=torch.float64)).clamp(max=-0.01)
    advantages = torch.randn(5, 1, generator=generator, dtype=torch.float64).expand(5, 7)
    fields = [field.masked_fill(mask == 0, math.nan) for field in (old, new, advantages)]
    tokens = PolicyTokens(fields[0], fields[1].requires_grad_(True), fields[2], mask)
    plain = [
        list(zip(new[i, :n].tolist(), old[i, :n].tolist(), advantages[i, :n].tolist(), strict=True))
        for i, n in enumerate(lengths.tolist())
    ]
    return tokens, plain


def made(name: str, settings: dict[str, Any]) -> Any:
    return POLICY_LOSSES.make(PolicySettings(loss=name, settings=settings))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "settings", "formula"), CASES)
def test_the_loss_and_its_gradient_are_those_of_the_formula(
    name: str, settings: dict[str, Any], formula: Formula, seed: int
) -> None:
    tokens, plain = rows(seed)
    per_token, metrics = made(name, settings).terms(tokens)
    (gradient,) = torch.autograd.grad(per_token.sum(), tokens.log_probs)
    for i, row in enumerate(plain):
        expected = formula(row)
        assert per_token[i, : len(row)].tolist() == pytest.approx([loss for loss, _ in expected])
        assert gradient[i, : len(row)].tolist() == pytest.approx([slope for _, slope in expected])
    assert (gradient[tokens.mask == 0] == 0).all()
    assert per_token.isfinite().all()
    assert all(figure.shape == tokens.mask.shape and not figure.requires_grad for figure in metrics.values())


@pytest.mark.parametrize(("name", "settings"), [(name, settings) for name, settings, _ in CASES])
def test_at_ratio_one_every_loss_has_the_gradient_of_the_policy(name: str, settings: dict[str, Any]) -> None:
    old = torch.log(torch.tensor([[0.5, 0.1, 0.25]]))
    log_probs = old.clone().requires_grad_(True)
    advantages, mask = torch.tensor([[1.5, 1.5, 1.5]]), torch.ones(1, 3)
    policy_loss(made(name, settings), PolicyTokens(old, log_probs, advantages, mask))[0].backward()
    assert log_probs.grad is not None
    assert log_probs.grad.tolist()[0] == pytest.approx([-0.5] * 3, abs=1e-6)


@pytest.mark.parametrize(("name", "settings"), [(name, settings) for name, settings, _ in CASES])
def test_extreme_ratios_stay_finite(name: str, settings: dict[str, Any]) -> None:
    old, log_probs = torch.tensor([[-300.0, 0.0]]), torch.tensor([[0.0, -300.0]], requires_grad=True)
    for advantage in (1.0, -1.0):
        tokens = PolicyTokens(old, log_probs, torch.full((1, 2), advantage), torch.ones(1, 2))
        per_token, _ = made(name, settings).terms(tokens)
        (gradient,) = torch.autograd.grad(per_token.sum(), log_probs)
        assert per_token.isfinite().all()
        assert gradient.isfinite().all()


def test_dppo_measures_how_much_probability_moves_not_the_ratio() -> None:
    """An example published with another implementation: a ratio of 5 is kept where little probability moves."""
    now, before = torch.log(torch.tensor([[0.5, 0.05, 0.1, 0.3], [0.2, 0.01, 0.4, 0.01]]))
    tokens = PolicyTokens(before[None], now[None], torch.tensor([[1.0, 1.0, -1.0, 0.0]]), torch.ones(1, 4))
    _, metrics = made("dppo", {}).terms(tokens)
    assert metrics["pg_clipfrac"].tolist() == [[1.0, 0.0, 1.0, 0.0]]
    loss: PolicyLoss = made("dppo", {"two_sided": True})
    assert loss.terms(tokens)[1]["pg_clipfrac"].tolist() == [[1.0, 0.0, 1.0, 1.0]]


def covariances(log_probs: torch.Tensor, advantages: torch.Tensor, mask: torch.Tensor) -> dict[tuple[int, int], float]:
    places = [(int(i), int(j)) for i, j in mask.nonzero()]
    means = [sum(float(of[place]) for place in places) / len(places) for of in (log_probs, advantages)]
    return {place: (float(log_probs[place]) - means[0]) * (float(advantages[place]) - means[1]) for place in places}


def test_kl_cov_chooses_the_tokens_of_highest_covariance_and_penalises_them() -> None:
    tokens, plain = rows(0)
    loss: KlCov = made("kl_cov", {"share": 0.2, "coef": 0.5})
    chosen = loss.choose(tokens.old_log_probs, tokens.advantages, tokens.mask, torch.Generator())
    known = covariances(tokens.old_log_probs, tokens.advantages, tokens.mask)
    expected = sorted(known, key=lambda place: -known[place])[:4]  # a fifth of 21 tokens
    assert sorted((int(i), int(j)) for i, j in chosen.nonzero()) == sorted(expected)
    tokens = PolicyTokens(tokens.old_log_probs, tokens.log_probs, tokens.advantages, tokens.mask, chosen)
    per_token, metrics = loss.terms(tokens)
    for i, row in enumerate(plain):
        for j, (new, old, advantage) in enumerate(row):
            penalty = 0.5 * abs(new - old) * ((i, j) in expected)
            assert per_token[i, j].item() == pytest.approx(-advantage * math.exp(new - old) + penalty)
    assert metrics["pg_clipfrac"].sum() == 4


def test_clip_cov_draws_tokens_of_high_covariance_by_its_key_and_takes_their_gradient() -> None:
    tokens, _ = rows(0)
    loss: ClipCov = made("clip_cov", {"share": 0.1, "low": 0.1, "high": 2.0})

    def choose(seed: int) -> torch.Tensor:
        fields = tokens.old_log_probs, tokens.advantages, tokens.mask
        return loss.choose(*fields, torch.Generator().manual_seed(seed))

    known = covariances(tokens.old_log_probs, tokens.advantages, tokens.mask)
    eligible = {place for place, value in known.items() if 0.1 < value < 2.0}
    assert len(eligible) > 2
    draws = [{(int(i), int(j)) for i, j in choose(seed).nonzero()} for seed in range(8)]
    assert all(len(drawn) == 2 and drawn <= eligible for drawn in draws)  # a tenth of 21 tokens
    assert len(set(map(frozenset, draws))) > 1
    assert torch.equal(choose(3), choose(3))

    chosen = choose(0)
    per_token, _ = loss.terms(
        PolicyTokens(tokens.old_log_probs, tokens.log_probs, tokens.advantages, tokens.mask, chosen)
    )
    (gradient,) = torch.autograd.grad(per_token.sum(), tokens.log_probs)
    assert (gradient[chosen] == 0).all()
    bounded = (tokens.advantages > 0) & (tokens.log_probs - tokens.old_log_probs > math.log(2))
    assert (gradient[~chosen & (tokens.mask > 0) & ~bounded] != 0).all()


def test_a_loss_that_chooses_says_so_when_nothing_was_chosen() -> None:
    tokens, _ = rows(0)
    with pytest.raises(ValueError, match="`choose`"):
        made("kl_cov", {}).terms(tokens)
