"""pass@k equals the exact combinatorial value, and its interval has the stated coverage."""

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.pass_at_k import mean_interval, pass_at_k


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_it_is_one_minus_the_share_of_choices_without_a_correct_sample(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))))
    k = data.draw(st.integers(1, min([n for n, _ in counts], default=5)))
    n, c = np.array([n for n, _ in counts], dtype=int), np.array([c for _, c in counts], dtype=int)
    expected = [1 - comb(n - c, k) / comb(n, k) for n, c in counts]
    np.testing.assert_allclose(pass_at_k(n, c, k), expected, rtol=0, atol=1e-12)


def test_it_stays_exact_where_the_binomials_overflow() -> None:
    estimates = pass_at_k(np.array([100_000]), np.array([3]), 1000)
    assert estimates[0] == pytest.approx(1 - (0.99) * (1 - 1000 / 99_999) * (1 - 1000 / 99_998), rel=1e-12)


@pytest.mark.parametrize(("n", "c", "k"), [(3, 1, 4), (3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_impossible_counts_are_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="sample"):
        pass_at_k(np.array([n]), np.array([c]), k)


def test_the_interval_covers_the_mean_about_as_often_as_it_says() -> None:
    draws = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        values = pass_at_k(np.full(60, 8), draws.binomial(8, draws.beta(1, 2, 60)), 1)
        low, high = mean_interval(values, seed=trial, resamples=500)
        covered += low <= 1 / 3 <= high
    assert 0.88 <= covered / 200 <= 0.99


def test_the_same_seed_gives_the_same_interval_and_touches_no_global_draw() -> None:
    values = np.linspace(0, 1, 50)
    np.random.seed(3)
    before = np.random.get_state()[1].tolist()  # type: ignore[union-attr, index]
    assert mean_interval(values, 1) == mean_interval(values, 1)
    assert mean_interval(values, 1) != mean_interval(values, 2)
    assert np.random.get_state()[1].tolist() == before  # type: ignore[union-attr, index]


def test_where_no_problem_differs_the_interval_is_the_binomials() -> None:
    """20 of 20: the lower bound solves p²⁰ = 2.5 %."""
    low, high = mean_interval(np.ones(20), 0)
    assert (low**20, high) == (pytest.approx(0.025), 1)
    assert mean_interval(np.zeros(20), 0) == (0, pytest.approx(1 - low))
    with pytest.raises(ValueError, match="at least one value"):
        mean_interval(np.zeros(0), 0)
