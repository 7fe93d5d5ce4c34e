"""Token and window entropy, thresholds and HWE tokens."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms import entropy as ent

quick = settings(max_examples=50, deadline=None)


@st.composite
def ragged(draw, max_rows=5, max_length=20):
    """Entropies [B, L] with a right-padded mask; the padding holds NaN."""
    rows, length = draw(st.integers(1, max_rows)), draw(st.integers(1, max_length))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    lengths = torch.tensor(draw(st.lists(st.integers(0, length), min_size=rows, max_size=rows)))
    mask = (torch.arange(length) < lengths[:, None]).long()
    entropy = 3.0 * torch.rand(rows, length, generator=generator)
    return torch.where(mask > 0, entropy, math.nan), mask


def slow_windows(entropy, mask, window):
    """The definition, one token at a time."""
    result = torch.full_like(entropy, math.nan)
    for b in range(entropy.shape[0]):
        for i in range(entropy.shape[1] - window):
            if mask[b, i : i + window + 1].all():
                result[b, i] = entropy[b, i + 1 : i + 1 + window].mean()
    return result


def slow_threshold(entropy, mask, window, percentile):
    values = [h for h, m in zip(entropy.tolist(), mask.tolist(), strict=True) if m]
    filled: list[float] = []
    for i in range(len(values)):
        following = values[i + 1 : i + 1 + window]
        if len(following) == window:
            filled.append(float(np.mean(following)))
        else:
            filled.append(float(np.mean(filled)) if filled else values[i])
    return float(np.percentile(filled, percentile)) if filled else 0.0


@quick
@given(ragged(), st.integers(1, 6))
def test_window_entropy_is_the_mean_of_the_following_tokens(batch, window):
    entropy, mask = batch
    torch.testing.assert_close(
        ent.window_entropy(entropy, mask, window),
        slow_windows(entropy, mask, window),
        equal_nan=True,
        atol=1e-6,
        rtol=1e-6,
    )


@quick
@given(ragged(), st.integers(1, 6), st.sampled_from([0.0, 50.0, 95.0, 100.0]))
def test_percentile_threshold_fills_the_tail_with_the_running_mean(batch, window, percentile):
    entropy, mask = batch
    expected = [slow_threshold(h, m, window, percentile) for h, m in zip(entropy, mask, strict=True)]
    assert ent.entropy_percentile_thresholds(entropy, mask, window, percentile) == pytest.approx(expected, abs=1e-5)


def test_token_entropy_is_that_of_the_distribution_and_a_banned_token_adds_nothing():
    logits = 5.0 * torch.randn(12, 9, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ent.token_entropy(logits), torch.distributions.Categorical(logits=logits).entropy())
    assert ent.token_entropy(torch.tensor([0.0, -math.inf, 0.0])).item() == pytest.approx(math.log(2))


@quick
@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(2, 12))
def test_entropy_is_never_negative_and_topk_of_everything_is_exact(seed, rows, vocabulary):
    logits = 5.0 * torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed))
    exact = ent.token_entropy(logits)
    logp = torch.log_softmax(logits.double(), -1)
    assert (exact >= -1e-6).all()
    assert (exact <= math.log(vocabulary) + 1e-5).all()
    torch.testing.assert_close(ent.topk_entropy(logp).float(), exact, atol=1e-5, rtol=1e-5)
    partial = ent.topk_entropy(logp.topk(max(1, vocabulary // 2)).values)
    assert (partial >= 0).all()
    assert (partial.float() <= exact + 1e-5).all()


@quick
@given(ragged(), st.floats(-1, 4), st.floats(0, 3))
def test_hwe_count_does_not_increase_with_the_threshold(batch, threshold, more):
    entropy, mask = batch
    low = ent.hwe_mask(entropy, mask, threshold)
    high = ent.hwe_mask(entropy, mask, threshold + more)
    assert (high & ~low).sum() == 0
    assert (ent.hwe_count(high) <= ent.hwe_count(low)).all()
    assert (ent.soft_cost(entropy, mask, threshold + more) <= ent.soft_cost(entropy, mask, threshold) + 1e-6).all()
    assert not (low & (mask == 0)).any()


def test_a_window_does_not_reach_over_foreign_tokens():
    entropy = torch.ones(1, 8)
    mask = torch.tensor([[1, 1, 1, 0, 1, 1, 1, 1]])
    assert (~ent.window_entropy(entropy, mask, 2).isnan()).tolist() == [
        [True, False, False, False, True, True, False, False]
    ]


def test_bfloat16_is_only_how_the_inputs_are_stored():
    h, mask = torch.rand(3, 40, generator=torch.Generator().manual_seed(0)).bfloat16(), torch.ones(3, 40)
    thresholds = ent.entropy_percentile_thresholds(h, mask)
    assert (thresholds == ent.entropy_percentile_thresholds(h.float(), mask)).all()
    assert torch.equal(ent.hwe_mask(h, mask, thresholds[0]), ent.hwe_mask(h.float(), mask, thresholds[0]))
    assert (ent.soft_cost(h, mask, 0.5) == ent.soft_cost(h.float(), mask, 0.5)).all()
    logprobs = torch.log_softmax(torch.randn(5, 99), -1).bfloat16()
    assert torch.equal(ent.topk_entropy(logprobs), ent.topk_entropy(logprobs.float()))


def test_triggers_match_the_sampled_token():
    vocabulary = ["▁Wait", "Ġbut", "So", "x"]
    is_trigger = ent.trigger_vocabulary(vocabulary, ["wait", "But"])
    assert is_trigger.tolist() == [True, True, False, False]
    responses = torch.tensor([[3, 0, 1, 2, 3, 4]])  # a model may have more tokens than its tokenizer names
    hwe = ent.hwe_mask(torch.ones(1, 6), torch.ones(1, 6), 0.5, 1, ent.trigger_mask(responses, is_trigger))
    assert hwe.tolist() == [[False, True, True, False, False, False]]


def test_degenerate_batches():
    empty = torch.zeros(0, 5)
    assert ent.entropy_percentile_thresholds(empty, empty).shape == (0,)
    assert ent.window_entropy(torch.ones(2, 3), torch.ones(2, 3), 4).isnan().all()
    assert ent.entropy_percentile_thresholds(torch.ones(2, 0), torch.ones(2, 0)).tolist() == [0.0, 0.0]


def test_the_first_batch_initialises_the_threshold():
    """The published code starts τ at −1, and so counts every token as an HWE token until it has crept up."""
    tracker = ent.ThresholdTracker()
    with pytest.raises(RuntimeError):
        _ = tracker.threshold
    assert tracker.update([2.0, 1.0, 4.0]) == 2.0
    assert tracker.update([]) == 2.0
    assert tracker.update([3.0, 5.0]) == pytest.approx(0.99 * 2.0 + 0.01 * 4.0)
    with pytest.raises(ValueError, match="row 1"):
        tracker.update([1.0, math.nan])
    with pytest.raises(ValueError, match="threshold state must have the keys"):
        tracker.load_state_dict({"threshold": 1.0, "other": 2.0})
