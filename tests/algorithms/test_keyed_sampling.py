import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.keyed_sampling import keyed_uniform, sample_tokens
from algorithms.keys import derive_seed

torch.set_num_threads(1)
DRAWS = 40_000
CHI_SQUARE_999 = 27.88  # 0.999 quantile of nine degrees of freedom


def chi_square(observed: np.ndarray, expected: np.ndarray) -> float:
    return float(((observed - expected) ** 2 / expected).sum())


def seeds(count: int) -> torch.Tensor:
    return torch.tensor([derive_seed("sampling", row) for row in range(count)])


def splitmix64(seed: int, position: int) -> float:
    """The published generator in Python's integers (Steele et al. 2014)."""
    word = 2**64 - 1
    z = (seed + (position + 1) * 0x9E3779B97F4A7C15) & word
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & word
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & word
    return ((z ^ (z >> 31)) >> 11) * 2.0**-53


# ---- keyed_uniform -------------------------------------------------------------------------------------------------


@given(seeds=st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=9), position=st.integers(0, 10_000))
@settings(deadline=None)
def test_each_rows_draw_is_splitmix64_of_its_seed_and_the_position(seeds: list[int], position: int) -> None:
    numbers = keyed_uniform(torch.tensor(seeds), position).tolist()
    assert numbers == [splitmix64(seed, position) for seed in seeds]
    assert all(0.0 <= number < 1.0 for number in numbers)


# ---- sample_tokens -------------------------------------------------------------------------------------------------

LOGITS = torch.tensor([2.0, -1.0, 0.5, 0.0, 1.0, -3.0, 0.2, 1.5, -0.5, 0.7])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_follow_the_distribution_at_the_temperature(temperature: float) -> None:
    logits = LOGITS.expand(DRAWS, -1)
    tokens, log_probs = sample_tokens(logits, keyed_uniform(seeds(DRAWS), 0), temperature)
    expected = torch.log_softmax(LOGITS / temperature, -1)
    counts = torch.bincount(tokens, minlength=10).numpy()
    assert chi_square(counts, DRAWS * expected.exp().double().numpy()) < CHI_SQUARE_999
    torch.testing.assert_close(log_probs, expected[tokens])


def test_temperature_zero_is_the_argmax_whatever_the_draw() -> None:
    logits = torch.randn(50, 30, generator=torch.Generator().manual_seed(0))
    tokens, log_probs = sample_tokens(logits, keyed_uniform(seeds(50), 0), 0.0)
    assert torch.equal(tokens, logits.argmax(-1))
    torch.testing.assert_close(log_probs, torch.log_softmax(logits, -1).amax(-1))


@pytest.mark.parametrize("top_p", [0.05, 0.3, 0.6, 0.9])
def test_top_p_keeps_the_smallest_set_that_reaches_it_and_its_proportions(top_p: float) -> None:
    probs = torch.softmax(LOGITS.double(), -1)
    ordered, order = probs.sort(descending=True)
    size = int((ordered.cumsum(-1) < top_p).sum()) + 1
    nucleus = order[:size]
    tokens, log_probs = sample_tokens(LOGITS.expand(DRAWS, -1), keyed_uniform(seeds(DRAWS), 1), 1.0, top_p)
    assert set(tokens.tolist()) == set(nucleus.tolist())
    counts = torch.bincount(tokens, minlength=10)[nucleus].numpy()
    expected = DRAWS * (probs[nucleus] / probs[nucleus].sum()).numpy()
    assert chi_square(counts, expected) < CHI_SQUARE_999
    # The log-prob is that of the policy, not of the nucleus: the learner's is the same.
    torch.testing.assert_close(log_probs, torch.log_softmax(LOGITS, -1)[tokens])


@pytest.mark.parametrize("top_p", [0.5, 1.0])
@pytest.mark.parametrize("uniform", [0.0, 1.0 - 2.0**-53])
def test_the_outermost_draws_give_tokens_that_can_be_drawn(uniform: float, top_p: float) -> None:
    logits = torch.full((1, 7), -torch.inf)
    logits[0, 2], logits[0, 4] = 1.0, 0.5
    token, log_prob = sample_tokens(logits, torch.tensor([uniform], dtype=torch.float64), 1.0, top_p)
    assert int(token) == (2 if uniform == 0.0 or top_p == 0.5 else 4)
    assert torch.isfinite(log_prob).all()


@pytest.mark.parametrize("top_p", [0.5, 1.0])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_where_logits_are_no_numbers_a_token_is_drawn_whose_log_prob_is_none(temperature: float, top_p: float) -> None:
    """On a GPU an index out of range would end the process."""
    logits = LOGITS.repeat(3, 1)
    logits[1, 4] = torch.nan
    tokens, log_probs = sample_tokens(logits, keyed_uniform(seeds(3), 0), temperature, top_p)
    assert ((tokens >= 0) & (tokens < 10)).all()
    assert log_probs.isnan().tolist() == [False, True, False]
