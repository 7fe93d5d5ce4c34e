"""Paired statistics, against values worked out by hand."""

import numpy as np
import pytest

from ares.evaluation.paired import estimate, p_of_draws


def test_the_p_of_a_bootstrap_is_twice_the_smaller_share_of_draws() -> None:
    assert p_of_draws(np.zeros(10)) == 1.0
    assert p_of_draws(np.ones(99)) == pytest.approx(2 / 100)
    assert p_of_draws(np.full(99, 0.1 + 0.2 - 0.3)) == 1.0  # nothing but rounding


def test_the_interval_over_problems_is_students() -> None:
    """Differences 1, 0, 0, 0: mean ¼, s = ½, t(.975, 3) = 3.182446."""
    interval = estimate([1.0, 0.0, 0.0, 0.0])
    assert (interval.mean, interval.count) == (0.25, 4)
    assert interval.high == pytest.approx(0.25 + 3.182446 * 0.25, abs=1e-6)
    assert interval.p == pytest.approx(0.391002, abs=1e-6)  # t = 1 with three degrees of freedom
