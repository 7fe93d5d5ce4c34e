"""The order in which problems are drawn: permutations, mixtures, easy or medium ones first, resumed where it was."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ares.data import DataError
from ares.step.cursor import Cursor, Mixture, rank


@given(seed=st.integers(0, 2**31), size=st.integers(1, 30), counts=st.lists(st.integers(1, 7), max_size=20))
@settings(max_examples=50, deadline=None)
def test_every_epoch_is_a_permutation_however_it_is_taken(seed: int, size: int, counts: list[int]) -> None:
    cursor = Cursor(seed, size)
    taken = [row for count in counts for row in cursor.take(count)]
    assert len(taken) == sum(counts)
    for start in range(0, len(taken), size):
        epoch = taken[start : start + size]
        assert len(set(epoch)) == len(epoch)
        assert set(epoch) <= set(range(size))
    assert taken == Cursor(seed, size).take(max(len(taken), 1))[: len(taken)]


@given(data=st.data(), size=st.integers(1, 20), counts=st.lists(st.integers(1, 9), min_size=2, max_size=8))
@settings(max_examples=50, deadline=None)
def test_a_cursor_resumes_from_its_state(data: st.DataObject, size: int, counts: list[int]) -> None:
    skip = data.draw(st.sets(st.integers(0, size - 1), max_size=size - 1))
    straight, resumed = Cursor(3, size), Cursor(3, size)
    for count in counts:
        state = json.loads(json.dumps(resumed.state_dict()))
        resumed = Cursor(3, size)
        resumed.load_state_dict(state)
        expected = straight.take(count, skip.__contains__)
        assert resumed.take(count, skip.__contains__) == expected
        assert not skip & set(expected)


def test_epochs_and_seeds_differ_in_order() -> None:
    cursor = Cursor(0, 50)
    first, second = cursor.take(50), cursor.take(50)
    assert first != second
    assert Cursor(1, 50).take(50) != first


@given(
    seed=st.integers(0, 2**31),
    mixture=st.lists(st.tuples(st.integers(1, 9), st.floats(0.1, 9)), min_size=2, max_size=4).map(tuple),
    counts=st.lists(st.integers(1, 9), max_size=12),
)
@settings(max_examples=50, deadline=None)
def test_a_mixture_draws_by_weights_and_all_before_any_again(seed: int, mixture: Mixture, counts: list[int]) -> None:
    size, whole = sum(rows for rows, _ in mixture), sum(weight for _, weight in mixture)
    cursor = Cursor(seed, size)
    taken = np.array([row for count in (*counts, 5 * size) for row in cursor.take(count, mixture=mixture)])
    assert taken.tolist() == Cursor(seed, size).take(len(taken), mixture=mixture)
    first = 0
    for rows, weight in mixture:
        own = taken[(first <= taken) & (taken < first + rows)] - first
        assert abs(len(own) - len(taken) * weight / whole) <= len(mixture) - 1
        assert np.ptp(np.bincount(own, minlength=rows)) <= 1  # a walk through the set, again and again
        first += rows


def test_a_mixture_follows_weights_that_change_from_one_draw_to_the_next_and_resumes_from_its_state() -> None:
    cursor, shares = Cursor(0, 30), []
    for weights in ((1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (1.0, 3.0)):
        resumed = Cursor(0, 30)
        resumed.load_state_dict(json.loads(json.dumps(cursor.state_dict())))
        mixture = tuple(zip((10, 20), weights, strict=True))
        drawn = cursor.take(8, mixture=mixture)
        assert resumed.take(8, mixture=mixture) == drawn
        shares.append(sum(row < 10 for row in drawn))
    assert shares == [8, 4, 0, 2]


def test_what_a_skipped_source_leaves_goes_to_the_others_unless_these_have_no_weight() -> None:
    heavy = Cursor(0, 200)
    assert heavy.take(3, lambda row: row < 100, ((100, 1000.0), (100, 1.0)))[0] >= 100
    with pytest.raises(DataError, match="nothing is left to train on"):
        heavy.take(1, lambda row: row < 100, ((100, 1.0), (100, 0.0)))


@given(data=st.data(), seed=st.integers(0, 2**31))
@settings(max_examples=25, deadline=None)
def test_a_set_that_grows_draws_new_rows_in_their_epoch_and_resumes(data: st.DataObject, seed: int) -> None:
    size = data.draw(st.integers(1, 9))
    straight, epochs = Cursor(seed, size), dict[int, list[int]]()
    resumed = straight
    for _ in range(data.draw(st.integers(1, 9))):
        for _ in range(data.draw(st.integers(0, 9))):
            (row,) = straight.take(1)
            assert resumed is straight or resumed.take(1) == [row]
            epochs.setdefault(straight.epoch, []).append(row)
        if more := data.draw(st.integers(0, 5)):
            straight.grow(size := size + more)
        resumed = Cursor(seed, size)
        resumed.load_state_dict(json.loads(json.dumps(straight.state_dict())))
    *whole, last = list(epochs.values()) or [[]]
    for rows in whole:
        assert sorted(rows) == list(range(len(rows)))  # each row once, and those that came too
    assert len(set(last)) == len(last)


def test_a_skip_set_that_leaves_nothing_is_an_error() -> None:
    with pytest.raises(DataError, match="nothing is left to train on"):
        Cursor(0, 3).take(1, {0, 1, 2}.__contains__)


RATES = [0.0, 1.0, None, 0.5, 0.75, 1.0, 0.25, None, 0.5]


@pytest.mark.parametrize(
    ("order", "expected"),
    [("easy_first", [1, 1, 0.75, 0.5, 0.5, 0.25, 0, None, None]), ("medium_first", [0, 0, 0.25, 0.25, 0.5, 0.5, 0.5])],
)
def test_an_epoch_draws_easy_or_medium_problems_first_and_unmeasured_ones_last(order, expected) -> None:
    cursor = Cursor(0, 9, ranks=rank(np.array(RATES, dtype=float), order))
    epochs = [cursor.take(9) for _ in range(6)]
    assert all(sorted(epoch) == list(range(9)) for epoch in epochs)
    drawn = [[RATES[row] for row in epoch] for epoch in epochs]
    if order == "medium_first":
        assert all(rates[7:] == [None, None] for rates in drawn)
        drawn = [[abs(rate - 0.5) for rate in rates[:7]] for rates in drawn]
    assert all(rates == expected for rates in drawn)
    assert len(set(map(tuple, epochs))) > 1, "equal ones are shuffled"
    assert rank(np.array(RATES, dtype=float), "shuffled") is None


def test_ranks_are_written_by_one_commit_and_followed_by_the_next() -> None:
    begun = Cursor(3, 9, ranks=rank(np.array(RATES, dtype=float), "easy_first"))
    expected = Cursor(3, 9, ranks=begun.ranks).take(30)
    commits, taken = [json.dumps(begun.state_dict())], []
    for _ in range(10):
        before = Cursor(3, 9)
        for commit in commits:  # a resume reads them all
            after = Cursor(3, 9)
            after.follow(before)
            after.load_state_dict(json.loads(commit))
            after.is_settled, before = True, after
        taken += before.take(3)
        commits.append(json.dumps(before.state_dict()))
    assert ["ranks" in commit for commit in commits] == [True] + [False] * 10
    assert taken == expected
