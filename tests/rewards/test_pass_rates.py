"""Running pass rates of tests: their state and the weights from them."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.pass_rates import RunningPassRates, difficulty_weights

quick = settings(max_examples=50, deadline=None)
SIZES = {"a": 3, 7: 1, "b": 5}


@st.composite
def batches(draw):
    ids = draw(st.lists(st.sampled_from(list(SIZES)), max_size=8))
    return ids, [np.array(draw(st.lists(st.booleans(), min_size=SIZES[i], max_size=SIZES[i]))) for i in ids]


def test_the_first_batch_sets_the_rates_and_later_ones_move_them():
    rates = RunningPassRates(alpha=1.0, ema=0.1)
    rates.update(["p", "p"], [np.array([True, False]), np.array([True, True])])
    assert rates.state_dict()["rates"] == [[10_000, 5_000]]
    rates.update(["p"], [np.array([False, True])])
    assert rates.state_dict()["rates"] == [[9_000, 5_500]]


def test_hard_tests_weigh_more_and_unseen_problems_weigh_theirs_alike():
    rates = RunningPassRates(alpha=2.0, ema=0.1)
    rates.update(["p"], [np.array([True, False])])
    seen, unseen = rates.weights(["p", "q"], [2, 4])
    assert seen == pytest.approx([np.exp(-2) / (1 + np.exp(-2)), 1 / (1 + np.exp(-2))])
    assert unseen == pytest.approx([0.25] * 4)


@quick
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0, 10))
def test_weights_sum_to_one_and_fall_with_the_rate(rates, alpha):
    weights = difficulty_weights(rates, alpha)
    assert weights.sum() == pytest.approx(1)
    order = np.argsort(rates)
    assert (np.diff(weights[order]) <= 1e-15).all()


@quick
@given(st.lists(batches(), max_size=6), st.integers(0, 6), st.randoms(use_true_random=False))
def test_a_cut_anywhere_and_the_order_of_rows_change_nothing(steps, cut, random):
    """Nor does what is settled, which is not written again."""
    whole, shuffled, resumed, settled = (RunningPassRates(1.0, 0.3) for _ in range(4))
    for step, (ids, passed) in enumerate(steps):
        if step == cut:
            state = json.loads(json.dumps(resumed.state_dict()))
            resumed, before, settled = RunningPassRates(1.0, 0.3), settled, RunningPassRates(1.0, 0.3)
            resumed.load_state_dict(state)
            before.settle()
            assert before.state_dict() == {"problems": [], "rates": []}
            settled.follow(before)
        for each in (whole, resumed, settled):
            each.update(ids, passed)
        order = random.sample(range(len(ids)), len(ids))
        shuffled.update([ids[i] for i in order], [passed[i] for i in order])
    since = steps[cut:] if cut < len(steps) else steps
    assert set(settled.state_dict()["problems"]) == {problem for ids, _ in since for problem in ids}
    assert resumed.state_dict() == whole.state_dict()
    for problem, size in SIZES.items():
        weights = [each.weights([problem], [size])[0].tolist() for each in (whole, shuffled, settled)]
        assert weights[0] == weights[1] == weights[2]
