"""Code rewards: worked examples and properties of the designs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.pass_rates import VerpoSettings, verpo_group_weights
from rewards.shaping import (
    DESIGNS,
    OVERRIDDEN,
    RUNTIME_ERRORS,
    UNSCORED,
    CodeOutcomes,
    late_efficiency,
    shape_code_rewards,
)
from sandbox import ERROR_TYPES
from sandbox import TestOutcome as Outcome
from sandbox.program import classify

quick = settings(max_examples=40, deadline=None)
VERPO = VerpoSettings(alpha=1.0, sigma=0.1, delta=1e-6, gamma=0.9, beta=0.5)
designs = st.sampled_from(DESIGNS)


def outcomes(*rows):
    """From rows (error type or None for what the tests say, tests passed, truncated)."""
    kinds = [kind or ("accepted" if all(passed) else "wrong_answer") for kind, passed, _ in rows]
    return CodeOutcomes(
        error_type=np.array(kinds, dtype=object),
        truncated=np.array([truncated for _, _, truncated in rows]),
        passed=[np.array(passed, dtype=bool) for _, passed, _ in rows],
        errored=np.array([int(kind in RUNTIME_ERRORS) for kind in kinds]),
    )


def reward(design, batch, **options):
    weights = [np.arange(1.0, len(row) + 1) for row in batch.passed]
    if design == "verpo":
        return shape_code_rewards(design, batch, weights=weights, verpo=VERPO, **options)
    return shape_code_rewards(design, batch, weights=weights if design == "dense_weighted" else None, **options)


tests = st.lists(st.booleans(), min_size=1, max_size=12)


@st.composite
def judged(draw):
    """How the sandbox says that a program and its tests ended, and whether the response was truncated."""
    kinds = draw(st.lists(st.sampled_from([k for k in ERROR_TYPES if k != "truncated"]), min_size=1, max_size=8))
    truncated = draw(st.booleans())
    return classify([Outcome(kind) for kind in kinds], truncated)[1], kinds, truncated


def judged_batch(rows):
    return CodeOutcomes.of(*map(list, zip(*rows, strict=True))) if rows else CodeOutcomes.of([], [], [])


def test_every_error_type_has_its_branch():
    branch = dict.fromkeys(UNSCORED, math.nan) | dict.fromkeys(RUNTIME_ERRORS, -0.6)
    branch |= {"syntax_error": -1.0, "wrong_answer": -0.3 + 1.3 * 0.5, "accepted": 1.0}
    assert set(branch) == set(ERROR_TYPES)
    for kind, expected in branch.items():
        passed = [True, True] if kind == "accepted" else [True, False]
        rewards = shape_code_rewards("dense_linear", outcomes((kind, passed, False)))[0]
        assert rewards == pytest.approx(expected, nan_ok=True), kind


@quick
@given(st.lists(judged(), min_size=1, max_size=6), designs)
def test_precedence_one_branch_per_sample_and_bounds(rows, design):
    worth = reward(design, judged_batch(rows))
    assert worth.tolist() == pytest.approx([reward(design, judged_batch([row]))[0] for row in rows], nan_ok=True, abs=0)
    for value, (error_type, _, cut) in zip(worth, rows, strict=True):
        if cut or error_type in UNSCORED:
            assert math.isnan(value)
        elif design not in OVERRIDDEN:
            assert value >= 0
            assert value <= 1 or design == "verpo"
        elif error_type == "syntax_error":
            assert value == -1.0
        elif error_type in RUNTIME_ERRORS:
            assert value == -0.6
        else:
            assert -0.3 <= value <= 1.0


@quick
@given(tests, st.integers(0, 11), designs, st.floats(0, 0.2), st.integers(0, 200))
def test_a_further_test_passed_never_costs_reward_and_all_passed_is_best(passed, index, design, cost, length):
    index %= len(passed)
    more = [value or i == index for i, value in enumerate(passed)]
    batch = outcomes((None, passed, False), (None, more, False), (None, [True] * len(passed), False))
    before, after, best = reward(design, batch)
    assert before <= after <= best
    assert design == "verpo" or best == 1.0
    weights = [np.arange(1.0, len(passed) + 1)] * 3 if design == "dense_weighted" else None
    term = late_efficiency(design, batch, [length] * 3, cost, (50, 150), weights=weights)
    before, after, best = reward(design, batch) + term
    assert before <= after + 1e-12
    assert after <= best + 1e-12


def test_policy_all_wants_every_test_to_end_in_an_error():
    endings = [["accepted", "timeout"], ["runtime_error", "timeout"]]
    batch = CodeOutcomes.of(["timeout", "timeout"], endings, [False, False])
    assert shape_code_rewards("dense_linear", batch).tolist() == [-0.6, -0.6]
    assert shape_code_rewards("dense_linear", batch, error_policy="all") == pytest.approx([0.35, -0.6])


def test_late_efficiency_charges_long_responses_that_are_nearly_right():
    batch = outcomes(
        (None, [1] * 9 + [0], False),
        (None, [1] * 10, False),
        (None, [1] * 10, False),
        (None, [1] * 8 + [0] * 2, False),
        ("timeout", [1] * 9 + [0], False),
        (None, [1] * 10, True),
    )
    term = late_efficiency("dense_linear", batch, [150, 100, 50, 150, 150, 150], 0.26, (50, 150))
    assert term == pytest.approx([-0.13, -0.13, 0, 0, 0, math.nan], abs=1e-12, nan_ok=True)
    for design in ("sparse", "verpo"):  # which charge only what passes everything
        term = late_efficiency(design, batch, [150] * 6, 0.2, (50, 150))
        assert term == pytest.approx([0, -0.2, -0.2, 0, 0, math.nan], nan_ok=True)


def test_verpo_rates_leave_out_rows_without_a_score_and_keep_groups_apart():
    passed = [np.array([True]), np.array([False]), np.array([False])]
    weights = verpo_group_weights(["a", "a", "b"], passed, np.array([True, False, True]), VERPO)
    assert weights[0] is weights[1]
    assert weights[0] == pytest.approx([math.exp(-1)], rel=1e-5)
    assert weights[2] == pytest.approx([1], rel=1e-5)


@pytest.mark.parametrize("name", ["alpha", "sigma", "delta", "gamma", "beta"])
def test_verpo_settings_out_of_bounds_are_refused(name):
    values = {"alpha": 1.0, "sigma": 0.1, "delta": 1e-6, "gamma": 0.9, "beta": 0.5}
    for bad in (-1.0, math.nan):
        with pytest.raises(ValueError, match=name):
            VerpoSettings(**(values | {name: bad}))


@pytest.mark.parametrize(
    ("design", "options", "match"),
    [
        ("sparser", {}, "unknown design 'sparser'"),
        ("dense_weighted", {}, "needs weights"),
        ("dense_linear", {"weights": [np.ones(2)]}, "takes no weights"),
        ("dense_weighted", {"weights": [np.ones(3)]}, "row 0: 3 weights for 2 tests"),
        ("verpo", {"weights": [np.ones(2)]}, "verpo settings"),
        ("sparse", {"verpo": VERPO}, "verpo settings"),
    ],
)
def test_wrong_arguments_are_named(design, options, match):
    with pytest.raises(ValueError, match=match):
        shape_code_rewards(design, outcomes((None, [1, 0], False)), **options)


def test_a_row_without_tests_is_named_and_an_empty_batch_is_no_error():
    with pytest.raises(ValueError, match="row 1 has no tests"):
        outcomes((None, [1], False), (None, [], False))
    assert shape_code_rewards("dense_linear", judged_batch([])).shape == (0,)
    assert shape_code_rewards("dense_weighted", judged_batch([]), weights=[]).shape == (0,)
