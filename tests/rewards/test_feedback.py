"""Execution feedback for a second turn, and the credit of second turns to the first."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.feedback import execution_feedback, first_turn_credit


def test_the_first_failing_test_is_told_with_how_it_ended() -> None:
    told = execution_feedback(["assert f(1) == 1", "assert f(2) == 4"], ["accepted", "wrong_answer"])
    assert told == "1 of 2 tests passed. wrong answer: assert f(2) == 4"
    assert len(execution_feedback(["assert f() == " + "9" * 1000], ["timeout"])) < 260
    with pytest.raises(ValueError, match="passed"):
        execution_feedback(["assert True"], ["accepted"])


@pytest.mark.parametrize(("credit", "gained"), [("max", [1.3, 0.0, 0.0]), ("mean", [0.65, 0.0, 0.0])])
def test_a_first_turn_gains_what_its_second_turns_have_more(credit: str, gained: list[float]) -> None:
    own, parent = np.array([-0.3, 0.48, 1.0]), np.array([0, 0, 1])
    credited = first_turn_credit(own, parent, np.array([1.0, -0.3, -1.0]), credit)  # type: ignore[arg-type]
    assert credited.round(9).tolist() == gained


def test_a_repaired_failure_can_be_kept_below_a_program_that_was_right_at_once() -> None:
    credit = first_turn_credit(np.array([-0.3]), np.array([0]), np.array([1.0]), "max", share=0.5)
    assert credit.tolist() == [0.65]


def test_tries_without_a_reward_neither_gain_nor_give() -> None:
    own = np.array([math.nan, -0.3])
    assert first_turn_credit(own, np.array([0, 1]), np.array([1.0, math.nan]), "max").tolist() == [0.0, 0.0]
    assert first_turn_credit(own, np.array([], dtype=int), np.array([]), "mean").tolist() == [0.0, 0.0]


rewards = st.floats(-1, 1)


@given(st.lists(rewards, min_size=1, max_size=5), st.data())
def test_credit_is_never_negative_and_the_maximum_is_never_less_than_the_mean(
    own: list[float], data: st.DataObject
) -> None:
    children = data.draw(st.lists(st.tuples(st.integers(0, len(own) - 1), rewards), max_size=8))
    parent = np.array([place for place, _ in children], dtype=np.int64)
    second = np.array([reward for _, reward in children])
    best, mean = (first_turn_credit(np.array(own), parent, second, credit) for credit in ("max", "mean"))
    assert (mean >= 0).all()
    assert (best >= mean - 1e-12).all()
    assert (best + own <= 1 + 1e-12).all()
