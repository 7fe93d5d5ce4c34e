"""Advantage estimators."""

import math
from functools import partial
from itertools import combinations
from statistics import mean, stdev

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms import advantages as adv
from algorithms import estimators
from algorithms.estimators import RewardedBatch
from algorithms.settings import AdvantageSettings, PassAtKSettings

quick = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**31)


def estimated(estimator, rewards, mask, uid, row_mask=None, settings=AdvantageSettings(), **parts):  # noqa: B008
    """What an estimator makes of rewards; the rows that do not count may still have a mask."""
    counts = torch.ones(len(mask), dtype=torch.bool) if row_mask is None else row_mask
    seen = RewardedBatch(rewards, mask, np.array(uid), counts, None, **parts)
    return estimator(settings).estimate(seen)


def gdpo(parts, weights, mask, uid, row_mask=None):
    parts = {name: np.array(values, dtype=np.float64) for name, values in parts.items()}
    return estimated(estimators.gdpo, None, mask, uid, row_mask, parts=parts, weights=weights)


def pass_at_k(k, *batch, **options):
    return estimated(estimators.pass_at_k, *batch, settings=PassAtKSettings(k=k), **options)


def rloo_by_turn(rewards, mask, uid, gamma=1.0, **options):
    return estimated(estimators.rloo_by_turn, rewards, mask, uid, settings=AdvantageSettings(gamma=gamma), **options)


GROUPED = {
    "grpo": adv.compute_grpo_outcome_advantage,
    "dr_grpo": partial(adv.compute_grpo_outcome_advantage, norm_by_std=False),
    "rloo": adv.compute_rloo_outcome_advantage,
}
OF_OUTCOMES = GROUPED | {
    "pass_at_k": partial(pass_at_k, 2),
    "maxrl": partial(estimated, estimators.maxrl),
    "gdpo": lambda rewards, *batch, **options: gdpo({"a": rewards[:, 0]}, {}, *batch, **options),
}
grouped = pytest.mark.parametrize("estimator", GROUPED.values(), ids=GROUPED)


@st.composite
def rollout(draw, max_groups=4, max_n=5, max_length=6):
    """Rewards at the last token of ragged responses, groups shuffled."""
    groups, n, length = draw(st.integers(1, max_groups)), draw(st.integers(2, max_n)), draw(st.integers(1, max_length))
    generator = torch.Generator().manual_seed(draw(seeds))
    rows = groups * n
    order = torch.randperm(rows, generator=generator)
    uid = [f"p{i}" for i in (torch.arange(rows)[order] // n).tolist()]
    lengths = torch.randint(1, length + 1, (rows,), generator=generator)
    mask = (torch.arange(length) < lengths[:, None]).float()
    rewards = torch.zeros(rows, length)
    rewards[torch.arange(rows), lengths - 1] = torch.randn(rows, generator=generator)
    return rewards, mask, uid


@grouped
@quick
@given(batch=rollout())
def test_group_advantages(estimator, batch):
    rewards, mask, uid = batch
    advantages, returns = estimator(rewards, mask, uid)
    assert torch.equal(advantages, returns)
    assert (advantages[mask == 0] == 0).all()
    for group in set(uid):
        rows = torch.tensor([u == group for u in uid])
        assert advantages[rows, 0].sum().abs() < 1e-4
    shifted = torch.zeros_like(rewards)
    shifted[:, 0] = 3.0
    torch.testing.assert_close(estimator(rewards + shifted, mask, uid)[0], advantages, atol=1e-4, rtol=1e-4)

    order = torch.randperm(len(uid), generator=torch.Generator().manual_seed(0))
    permuted, _ = estimator(rewards[order], mask[order], [uid[i] for i in order.tolist()])
    torch.testing.assert_close(permuted, advantages[order], atol=1e-5, rtol=1e-5)


@grouped
@pytest.mark.parametrize("reward", [0.0, 0.1, 1 / 3, 123.456, 1e6])
@pytest.mark.parametrize("n", [2, 3, 5, 7])
def test_equal_rewards_give_exactly_zero(estimator, reward, n):
    """In float32 the mean of five 123.456 is not 123.456, and 1/(std + 1e-6) blows the residue up to 0.8."""
    rewards = torch.full((n, 1), reward)
    assert estimator(rewards, torch.ones(n, 1), ["a"] * n)[0].abs().max() == 0


@grouped
def test_a_group_of_one_is_an_error(estimator):
    with pytest.raises(ValueError, match="'b' has one response"):
        estimator(torch.ones(3, 2), torch.ones(3, 2), ["a", "b", "a"])


def test_remax_takes_the_greedy_reward_off():
    mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    advantages, _ = adv.compute_remax_outcome_advantage(
        torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([0.25, 1.0]), mask
    )
    assert advantages.tolist() == [[0.75, 0.75], [0.0, 0.0]]
    with pytest.raises(ValueError, match="reward_baselines"):
        adv.compute_remax_outcome_advantage(torch.ones(2, 2), torch.ones(3), mask)


def slow_gae(rewards, values, mask, gamma, lam):
    """The recursion over the response tokens alone."""
    advantages, returns = torch.zeros_like(rewards), torch.zeros_like(rewards)
    for b in range(len(rewards)):
        positions = mask[b].nonzero().flatten().tolist()
        last, next_value = 0.0, 0.0
        for t in reversed(positions):
            delta = rewards[b, t] + gamma * next_value - values[b, t]
            last = delta + gamma * lam * last
            advantages[b, t], returns[b, t] = last, last + values[b, t]
            next_value = values[b, t]
    return adv.masked_whiten(advantages, mask) * mask, returns


@quick
@given(seeds, st.integers(1, 5), st.integers(1, 17), st.floats(0.5, 1), st.floats(0, 1))
def test_gae_skips_padded_and_foreign_positions(seed, rows, length, gamma, lam):
    """The published code lets padded values in for λ ≠ 1; here the padding is NaN."""
    generator = torch.Generator().manual_seed(seed)
    rewards, values = (torch.randn(rows, length, generator=generator) for _ in range(2))
    mask = (torch.rand(rows, length, generator=generator) < 0.7).float()
    expected = slow_gae(rewards, values, mask, gamma, lam)
    poisoned = values.masked_fill(mask == 0, math.nan)
    result = adv.compute_gae_advantage_return(rewards.masked_fill(mask == 0, math.nan), poisoned, mask, gamma, lam)
    for got, want in zip(result, expected, strict=True):
        torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)


@quick
@given(seeds, st.integers(1, 5), st.integers(1, 17), st.floats(0, 1))
def test_reinforce_plus_plus_starts_anew_after_the_end(seed, rows, length, gamma):
    generator = torch.Generator().manual_seed(seed)
    rewards = torch.randn(rows, length, generator=generator)
    mask = (torch.rand(rows, length, generator=generator) < 0.7).float()
    returns, running = torch.zeros_like(rewards), torch.zeros(rows)
    for t in reversed(range(length)):
        running = rewards[:, t] + gamma * running
        returns[:, t] = running
        running = running * mask[:, t]
    poisoned = rewards.masked_fill(mask == 0, math.nan)
    advantages, got = adv.compute_reinforce_plus_plus_outcome_advantage(poisoned, mask, gamma)
    torch.testing.assert_close(got, returns * mask, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(advantages, adv.masked_whiten(returns, mask) * mask, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("reward", [0.1, -0.3, 123.456])
def test_equal_returns_are_whitened_to_nothing(reward):
    mask = torch.ones(64, 512)
    rewards = torch.zeros(64, 512)
    rewards[:, -1] = reward
    advantages, _ = adv.compute_reinforce_plus_plus_outcome_advantage(rewards, mask, 1.0)
    assert advantages.abs().max() < 1e-5
    advantages, _ = adv.compute_gae_advantage_return(rewards, torch.zeros(64, 512), mask, 1.0, 1.0)
    assert advantages.abs().max() < 1e-5


RIGHT = [1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1]
UID = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]


def outcome(rewards):
    return torch.tensor(rewards, dtype=torch.float32)[:, None], torch.ones(len(rewards), 1), UID


@pytest.mark.parametrize("k", [1, 2, 3, 4, 9])
def test_pass_at_k_is_what_all_draws_of_k_responses_give(k):
    """Each draw has advantage (any right − R̄)/σ over all draws; a response has the mean of the draws that hold it."""
    advantages, _ = pass_at_k(k, *outcome(RIGHT))
    for group in range(3):
        rows = [row for row in range(12) if UID[row] == group]
        draws = list(combinations(rows, min(k, 4)))
        passed = [float(any(RIGHT[row] for row in draw)) for draw in draws]
        average = mean(passed)
        sigma = math.sqrt(average * (1 - average))
        for row in rows:
            own = (
                [(value - average) / sigma for draw, value in zip(draws, passed, strict=True) if row in draw]
                if sigma
                else [0]
            )
            assert advantages[row, 0].item() == pytest.approx(mean(own), abs=1e-6)


def test_maxrl_divides_by_the_mean_of_the_group():
    advantages, _ = estimated(estimators.maxrl, *outcome(RIGHT))
    expected = [1, -1, -1, 1, 0, 0, 0, 0, -1, 1 / 3, 1 / 3, 1 / 3]
    assert advantages[:, 0].tolist() == pytest.approx(expected)


def test_gdpo_tells_apart_what_grpo_takes_for_the_same():
    """(right, brief) of 0 + 1 and 1 + 0 have one sum; normalised apart, the rarer of both is worth more."""
    right, brief = RIGHT, [0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 1, 0]
    advantages, _ = gdpo({"right": right, "brief": brief}, {"brief": 0.5}, torch.ones(12, 2), UID)
    summed = []
    for row in range(12):
        rows = [other for other in range(12) if UID[other] == UID[row]]
        total = 0.0
        for values, weight in ((right, 1.0), (brief, 0.5)):
            own = [values[other] for other in rows]
            total += weight * (values[row] - mean(own)) / (stdev(own) + 1e-6)
        summed.append(total)
    white = [(value - mean(summed)) / stdev(summed) for value in summed]
    assert advantages[:, 1].tolist() == pytest.approx(white, abs=1e-5)
    assert advantages[8, 0] != pytest.approx(advantages[11, 0].item())  # 0 + 1 and 1 + 0


def test_a_part_that_does_not_apply_neither_counts_nor_is_worth_0():
    """As 0, the best of what `brief` gives, it made the wrong answers better than the longer right one."""
    parts = {"right": [1.0, 1, 0, 0], "brief": [-0.9, -0.5, math.nan, math.nan]}
    advantages, _ = gdpo(parts, {}, torch.ones(4, 1), [0] * 4)
    alone = [0.75**0.5 - 0.5**0.5, 0.75**0.5 + 0.5**0.5, -(0.75**0.5), -(0.75**0.5)]
    assert advantages[:, 0].tolist() == pytest.approx([value / stdev(alone) for value in alone], abs=1e-4)


@pytest.mark.parametrize("estimate", OF_OUTCOMES.values(), ids=OF_OUTCOMES)
def test_rows_left_out_have_no_advantage_and_change_nothing_for_the_others_whatever_their_rewards(estimate):
    alone, _ = estimate(*outcome(RIGHT))
    rewards, counts = torch.tensor([*RIGHT, math.nan, 1.0])[:, None], torch.tensor([True] * 12 + [False] * 2)
    advantages, _ = estimate(rewards, torch.ones(14, 1), [*UID, 0, 1], row_mask=counts)
    torch.testing.assert_close(advantages, torch.cat([alone, torch.zeros(2, 1)]))


@grouped
def test_the_only_row_of_a_group_that_is_not_left_out_compares_with_nothing(estimator):
    advantages, _ = estimator(torch.ones(2, 1), torch.ones(2, 1), ["a", "a"], row_mask=torch.tensor([True, False]))
    assert advantages.tolist() == [[0.0], [0.0]]


def test_degenerate_batches():
    empty = torch.zeros(0, 3)
    for estimator in GROUPED.values():
        assert estimator(empty, empty, [])[0].shape == (0, 3)
    nothing = torch.zeros(2, 3)
    for result in (
        adv.compute_gae_advantage_return(torch.ones(2, 3), torch.ones(2, 3), nothing, 1.0, 0.95),
        adv.compute_reinforce_plus_plus_outcome_advantage(torch.ones(2, 3), nothing, 1.0),
        adv.compute_grpo_outcome_advantage(torch.ones(2, 3), nothing, ["a", "a"]),
    ):
        assert all((value == 0).all() for value in result)
    one = torch.tensor([[1.0, 0.0]])
    assert adv.compute_gae_advantage_return(one, one, one, 1.0, 0.95)[0].isfinite().all()


@st.composite
def episodes(draw, n=4, most_turns=4):
    """Two groups of episodes: turns of sampled tokens, gaps between them, a reward at the end of each turn."""
    generator = torch.Generator().manual_seed(draw(seeds))
    rows, turns = [], []
    for _ in range(2 * n):
        given = torch.randn(int(torch.randint(1, most_turns + 1, (1,), generator=generator)), generator=generator)
        tokens: list[tuple[float, float]] = []
        for reward in given.tolist():
            tokens += [(1.0, 0.0)] * int(torch.randint(0, 3, (1,), generator=generator)) + [(1.0, reward), (0.0, 9.0)]
        rows.append(tokens[:-1])
        turns.append(given.tolist())
    length = max(map(len, rows))
    padded = torch.tensor([row + [(0.0, 7.0)] * (length - len(row)) for row in rows])
    counts = torch.rand(2 * n, generator=generator) > draw(st.sampled_from([0.0, 0.3]))
    return padded[..., 1], padded[..., 0], [row // n for row in range(2 * n)], counts, turns


@quick
@given(batch=episodes(), gamma=st.sampled_from([1.0, 0.5]))
def test_rloo_by_turn_compares_rewards_to_go_with_the_others_that_reached_the_turn(batch, gamma):
    rewards, mask, groups, counts, turns = batch
    advantages, _ = rloo_by_turn(rewards, mask, groups, gamma, row_mask=counts)
    to_go = [[sum(gamma ** (u - t) * each[u] for u in range(t, len(each))) for t in range(len(each))] for each in turns]
    for row, own in enumerate(to_go):
        others = [to_go[other] for other in range(len(turns)) if other != row and groups[other] == groups[row]
                  and counts[other]]  # fmt: skip
        expected = []
        for turn, value in enumerate(own):
            there = [each[turn] for each in others if len(each) > turn]
            compared = value - (sum(there) / len(there) if there else 0.0)
            expected.append(compared if counts[row] and others else 0.0)  # alone it has nothing to compare with
        ends = (mask[row] > 0) & ~(torch.nn.functional.pad(mask[row], (0, 1))[1:] > 0)
        torch.testing.assert_close(advantages[row][ends], torch.tensor(expected), atol=1e-5, rtol=1e-5)
        assert (advantages[row][mask[row] == 0] == 0).all()
