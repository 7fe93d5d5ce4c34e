import math

import pytest

from ares.ablations.statistics import MOST_SEEDS, estimate, leader, seeds_needed, verdict


def test_the_interval_is_students() -> None:
    """Worked by hand: mean 2, s = 1, t(.975, 2) = 4.3027, so 2 ± 4.3027/√3."""
    interval = estimate([1.0, 2.0, 3.0])
    assert (interval.mean, interval.count) == (2.0, 3)
    assert interval.low == pytest.approx(2 - 4.302653 / math.sqrt(3), abs=1e-5)
    assert interval.high == pytest.approx(2 + 4.302653 / math.sqrt(3), abs=1e-5)


def test_one_seed_has_no_interval_and_none_is_an_error() -> None:
    interval = estimate([0.5])
    assert (interval.mean, interval.low, interval.high) == (0.5, None, None)
    with pytest.raises(ValueError, match="no value"):
        estimate([])


CLEAR = {"a": [0.80, 0.81, 0.82], "b": [0.60, 0.61, 0.62], "c": [0.70, 0.71, 0.69]}


def test_a_winner_is_named_where_its_interval_lies_clear_of_all_others() -> None:
    assert leader(CLEAR).wins
    told = verdict(CLEAR, "val/accuracy")
    assert told.startswith("a wins on val/accuracy: its interval, 0.810 [0.785, 0.835], lies above every other one")
    assert verdict(CLEAR, "cost", maximise=False).startswith("b wins on cost")


def test_one_overlap_is_enough_for_no_winner() -> None:
    close = CLEAR | {"c": [0.74, 0.80, 0.82]}
    best = leader(close)
    assert (best.name, best.separates_from, best.overlaps, best.wins) == ("a", ["b"], ["c"], False)
    told = verdict(close, "val/accuracy")
    assert told.startswith("No winner can be named. Highest mean of val/accuracy: a")
    assert "that interval overlaps c, 0.787 [" in told
    assert "It separates from b." in told
    assert "to tell a from c (about " in told


def test_the_seeds_needed_are_the_first_count_that_separates_the_intervals() -> None:
    one, other = [0.80, 0.84, 0.88], [0.74, 0.78, 0.82]
    count = seeds_needed(one, other)
    assert count is not None
    # Twelve pairs with exactly these means and spreads, one fewer and as many as reported.
    for seeds, separate in ((count, True), (count - 1, False)):
        stretch = math.sqrt((seeds - 1) / seeds)  # the same standard deviation (n−1) from an even split
        low = [0.84 + sign * 0.04 * stretch for sign in _even(seeds)]
        high = [0.78 + sign * 0.04 * stretch for sign in _even(seeds)]
        assert leader({"one": low, "other": high}).wins == separate


def _even(count: int) -> list[float]:
    """Values with mean 0 and variance 1 (over n)."""
    raw = [-1.0] * (count // 2) + [0.0] * (count % 2) + [1.0] * (count // 2)
    scale = math.sqrt(sum(value * value for value in raw) / count)
    return [value / scale for value in raw]


def test_level_variants_are_called_level() -> None:
    level = {"a": [0.5, 0.7], "b": [0.7, 0.5]}
    assert seeds_needed(level["a"], level["b"]) is None
    assert f"it would take more than {MOST_SEEDS} seeds of each: on this metric they are level" in verdict(
        level, "val/accuracy"
    )


def test_no_claim_from_one_seed_from_equal_seeds_or_from_one_variant() -> None:
    told = verdict({"a": [0.9], "b": [0.1, 0.2]}, "val/accuracy")
    assert told.startswith("No winner can be named: an interval needs two seeds, and there is only one of a.")
    told = verdict({"a": [1.0, 1.0], "b": [0.1, 0.2]}, "val/accuracy")
    assert "all seeds of a gave the same value" in told
    assert "all seeds of a gave the same value" in verdict({"a": [0.1] * 3, "b": [0.05, 0.06, 0.07]}, "val/accuracy")
    assert verdict({"a": [0.9, 0.8]}, "val/accuracy").startswith("Nothing can be compared yet")
    for values in ({"a": [0.9], "b": [0.1, 0.2]}, {"a": [1.0, 1.0], "b": [0.1, 0.2]}, {"a": [0.9, 0.8]}):
        assert not leader(values).wins
