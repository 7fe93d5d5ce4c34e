"""Policy, value and KL losses; aggregation; truncated importance sampling; filtering."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms import losses
from algorithms.filtering import informative_rows
from algorithms.published.verl import compute_policy_loss
from algorithms.settings import PolicySettings

quick = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**31)
MODES = [("token", None), ("seq", None), ("constant", 7)]


def batch(seed, rows=4, length=6, spread=0.5):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, length + 1, (rows,), generator=generator)
    mask = (torch.arange(length) < lengths[:, None]).float()
    old = -2.0 * torch.rand(rows, length, generator=generator)
    new = old + spread * torch.randn(rows, length, generator=generator)
    advantages = torch.randn(rows, length, generator=generator) * mask
    return old, new, advantages, mask


@quick
@given(seeds, st.sampled_from(MODES), st.sampled_from(["token", "sequence"]))
def test_at_ratio_one_the_loss_is_minus_the_mean_advantage(seed, mode, level):
    old, _, advantages, mask = batch(seed)
    loss, metrics = compute_policy_loss(
        old, old, advantages, mask, loss_avg_mode=mode[0], constant_length=mode[1], ratio_level=level
    )
    expected = losses.average_loss(-advantages, mask, mode[0], constant_length=mode[1])
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
    assert metrics["ppo_kl"] == 0
    assert metrics["pg_clipfrac_higher"] == metrics["pg_clipfrac_lower"] == 0


@quick
@given(seeds)
def test_no_gradient_where_clipped_and_none_from_padding(seed):
    old, new, advantages, mask = batch(seed, spread=1.0)
    new = new.masked_fill(mask == 0, math.nan).requires_grad_(True)
    loss, _ = compute_policy_loss(old.masked_fill(mask == 0, -math.inf), new, advantages, mask, 0.2, 0.3, 3.0)
    (gradient,) = torch.autograd.grad(loss, new)
    ratio = (new - old).exp()
    clipped = ((advantages > 0) & (ratio > 1.3)) | ((advantages < 0) & ((ratio < 0.8) | (ratio > 3.0)))
    assert loss.isfinite()
    assert (gradient[clipped | (mask == 0)] == 0).all()
    assert (gradient[~clipped & (mask > 0) & (advantages != 0)] != 0).all()


@quick
@given(seeds, st.sampled_from(MODES))
def test_parts_of_a_batch_add_up_to_the_whole(seed, mode):
    old, new, advantages, mask = batch(seed, rows=6)
    arguments = {"loss_avg_mode": mode[0], "constant_length": mode[1]}
    whole, _ = compute_policy_loss(old, new, advantages, mask, **arguments)
    normalizer = losses.loss_normalizer(mask, *mode)
    parts = [
        compute_policy_loss(*(x[rows] for x in (old, new, advantages, mask)), normalizer=normalizer, **arguments)[0]
        for rows in (slice(0, 1), slice(1, 4), slice(4, 6))
    ]
    assert sum(parts).item() == pytest.approx(whole.item(), abs=1e-5)


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("mode", ["token", "seq"])
def test_bfloat16_is_only_how_the_inputs_are_stored(level, mode):
    old, new, advantages, mask = (x.bfloat16() for x in batch(0, rows=2, length=3001, spread=0.05))
    wide = [x.float() for x in (old, new, advantages)]
    expected = compute_policy_loss(*wide, response_mask=mask.float(), loss_avg_mode=mode, ratio_level=level)
    loss, metrics = compute_policy_loss(old, new, advantages, mask.float(), loss_avg_mode=mode, ratio_level=level)
    assert torch.equal(loss, expected[0])
    assert metrics == expected[1]
    value, _ = losses.compute_value_loss(new, old, advantages, mask.float(), 0.2, mode)
    assert torch.equal(value, losses.compute_value_loss(wide[1], wide[0], wide[2], mask.float(), 0.2, mode)[0])


def test_gspo_uses_one_ratio_per_sequence():
    old = torch.zeros(1, 3)
    new = torch.tensor([[0.3, -0.1, 9.0]], requires_grad=True)
    mask = torch.tensor([[1.0, 1.0, 0.0]])
    loss, _ = compute_policy_loss(old, new, torch.ones(1, 3), mask, ratio_level="sequence")
    assert loss.item() == pytest.approx(-math.exp(0.1), abs=1e-6)
    (gradient,) = torch.autograd.grad(loss, new)
    assert gradient[0].tolist() == pytest.approx([-math.exp(0.1) / 2] * 2 + [0.0])


def test_extreme_ratios_stay_finite():
    old, new = torch.tensor([[-300.0, 0.0]]), torch.tensor([[0.0, -300.0]], requires_grad=True)
    loss, metrics = compute_policy_loss(old, new, torch.tensor([[-1.0, -1.0]]), torch.ones(1, 2))
    loss.backward()
    assert loss.item() == pytest.approx((3.0 + 0.8) / 2)
    assert new.grad.isfinite().all()
    assert all(map(math.isfinite, metrics.values()))


@pytest.mark.parametrize("mode", MODES)
def test_nothing_left_is_zero_loss_and_zero_gradient(mode):
    new = torch.zeros(2, 3, requires_grad=True)
    nothing = torch.zeros(2, 3)
    loss, metrics = compute_policy_loss(nothing, new, nothing, nothing, loss_avg_mode=mode[0], constant_length=mode[1])
    loss.backward()
    assert loss.item() == 0
    assert (new.grad == 0).all()
    assert set(metrics.values()) == {0.0}


def test_a_masked_row_does_not_dilute_the_sequence_mean():
    values, mask = torch.tensor([[2.0, 2.0], [5.0, 5.0]]), torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    assert losses.average_loss(values, mask, "seq").item() == pytest.approx(2.0)
    assert losses.average_loss(values, mask, "constant", constant_length=4).item() == pytest.approx(0.5)
    with pytest.raises(ValueError, match="constant_length"):
        losses.average_loss(values, mask, "constant")
    with pytest.raises(ValueError, match="'tokens'"):
        losses.average_loss(values, mask, "tokens")


@pytest.mark.parametrize("kind", ["kl", "abs", "mse", "low_var_kl"])
@pytest.mark.parametrize("anything", [math.nan, -math.inf])
def test_padding_reaches_neither_kl_nor_value_loss(kind, anything):
    mask = torch.tensor([[1.0, 0.0]])
    padding = mask == 0
    own, value = (torch.full((1, 2), -1.5, requires_grad=True) for _ in range(2))
    other = torch.full((1, 2), -1.0).masked_fill(padding, anything)
    loss, _ = losses.compute_kl_loss(own.masked_fill(padding, anything), other, mask, kl_penalty=kind)
    returns = torch.ones(1, 2).masked_fill(padding, anything)
    (loss + losses.compute_value_loss(value, returns, returns, mask, 0.2)[0]).backward()
    assert loss.isfinite()
    for gradient in (own.grad, value.grad):
        assert gradient[0, 0].abs().sum() > 0
        assert (gradient[0, 1] == 0).all()


def test_kl_loss_takes_a_coefficient_per_token():
    log_probs, ref = torch.tensor([[-1.0, -2.0, math.nan]], requires_grad=True), torch.tensor([[-2.0, -2.5, 0.0]])
    mask = torch.tensor([[1.0, 1.0, 0.0]])
    loss, row_kl = losses.compute_kl_loss(log_probs, ref, mask, torch.tensor([[1.0, 0.5, 1.0]]), "kl")
    loss.backward()
    assert loss.item() == pytest.approx((1.0 + 0.25) / 2)
    assert row_kl.tolist() == pytest.approx([0.75])
    assert log_probs.grad[0].tolist() == pytest.approx([0.5, 0.25, 0.0])


@quick
@given(seeds)
def test_what_importance_weights_correct_is_measured_also_where_they_are_not_used(seed):
    old, engine, _, mask = batch(seed)
    ones, metrics = losses.importance_weights(old, engine.masked_fill(mask == 0, math.nan), mask)
    assert (ones == 1).all()
    assert metrics["mismatch/capped_fraction"] == 0
    assert metrics["mismatch/k3"] >= 0
    assert metrics["mismatch/ratio_min"] <= metrics["mismatch/ratio_mean"] * (1 + 1e-5)
    assert metrics["mismatch/ratio_mean"] <= metrics["mismatch/ratio_max"] * (1 + 1e-5)
    same, none = losses.importance_weights(old, old, mask, PolicySettings(importance_cap=2.0))
    assert (same == 1).all()
    assert none["mismatch/kl"] == none["mismatch/logprob_diff_max"] == 0


def naive_weights(log_ratios, cap, kind, level, floor):
    """The weights of one response's tokens, from their ln ρ."""
    if level == "sequence":
        log_ratios = [sum(log_ratios)] * len(log_ratios)
    if level == "geometric":
        log_ratios = [sum(log_ratios) / len(log_ratios)] * len(log_ratios)
    ratios = [math.exp(x) for x in log_ratios]
    if kind == "truncated":
        return [min(ratio, cap) for ratio in ratios]
    return [(1.0 if kind == "rejected" else ratio) if floor <= ratio <= cap else 0.0 for ratio in ratios]


@pytest.mark.parametrize("level", ["token", "sequence", "geometric"])
@pytest.mark.parametrize("kind", ["truncated", "masked", "rejected"])
@quick
@given(seeds, st.floats(1.05, 5), st.one_of(st.none(), st.floats(0.1, 1.0)))
def test_importance_weights_of_every_kind_and_level(level, kind, seed, cap, floor):
    old, engine, _, mask = batch(seed)
    engine = engine.masked_fill(mask == 0, math.nan)
    chosen = PolicySettings(importance_cap=cap, importance_weights=kind, importance_level=level, importance_floor=floor)
    weights, metrics = losses.importance_weights(old, engine, mask, chosen)
    least, expected = 1 / cap if floor is None else floor, []
    for row in range(len(mask)):
        log_ratios = (old - engine)[row][mask[row] > 0].tolist()
        expected += naive_weights(log_ratios, cap, kind, level, least)
    assert weights[mask > 0].tolist() == pytest.approx(expected, rel=1e-5)
    assert (weights[mask == 0] == 1).all()
    beyond = [weight == (cap if kind == "truncated" else 0.0) for weight in expected]
    assert metrics["mismatch/capped_fraction"] == pytest.approx(sum(beyond) / len(beyond), abs=1e-6)


def test_importance_weights_scale_the_loss_without_gradient():
    old, new, advantages, mask = batch(3)
    new.requires_grad_(True)
    plain, _ = compute_policy_loss(old, new, advantages, mask)
    halved, _ = compute_policy_loss(old, new, advantages, mask, importance_weights=torch.full_like(old, 0.5))
    assert halved.item() == pytest.approx(plain.item() / 2)


def test_value_loss_is_clipped_around_the_rollout_value():
    loss, fraction = losses.compute_value_loss(
        torch.tensor([[2.0, 0.1]]), torch.tensor([[3.0, 0.0]]), torch.zeros(1, 2), torch.ones(1, 2), cliprange_value=0.5
    )
    assert loss.item() == pytest.approx(0.5 * (2.5**2 + 0.1**2) / 2)
    assert fraction == pytest.approx(0.5)


@quick
@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=3, max_size=3), max_size=6), st.randoms())
def test_informative_groups_in_any_row_order(groups, random):
    rows = [(g, value) for g, values in enumerate(groups) for value in values]
    random.shuffle(rows)
    kept = informative_rows([g for g, _ in rows], np.array([value for _, value in rows]))
    assert kept.tolist() == [0 < sum(groups[g]) < 3 for g, _ in rows]


def test_a_log_prob_of_the_engine_that_is_nan_is_no_weight_but_stays_nan():
    """It became the cap: the token was trained on, twice as much as any other."""
    weights, _ = losses.importance_weights(
        torch.zeros(1, 2), torch.tensor([[0.0, math.nan]]), torch.ones(1, 2), PolicySettings(importance_cap=2.0)
    )
    assert weights[0, 0] == 1.0
    assert weights[0, 1].isnan()
