"""Properties of the AEPO reward."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards import aepo

quick = settings(max_examples=40, deadline=None)
bucket = st.sampled_from(["easy", "medium", "hard"])
label = st.sampled_from(["easy", "medium", "hard", "Easy", ""])
count = st.floats(0, 1e6) | st.integers(0, 200).map(float)
alpha = st.floats(0, 2)
FIELDS = ("accuracy", "high_entropy_token_num", "target_high_entropy_token_num", "alpha_entropy", "difficulty")
switches = st.fixed_dictionaries({"zero_baseline": st.booleans(), "guard_inversion": st.booleans()})


def score(accuracy, n, t, a, difficulty, **kwargs):
    return float(aepo.entropy_score([accuracy], [n], [t], [a], [difficulty], **kwargs)[0])


def cap(a, difficulty):
    return a * (1.2 if difficulty == "hard" else 1.0)


@quick
@given(st.sampled_from([0.0, 0.5, 1.0]), count, count, alpha, label, switches)
def test_the_score_stays_within_the_cap(accuracy, n, t, a, difficulty, kwargs):
    value = score(accuracy, n, t, a, difficulty, **kwargs)
    assert math.isfinite(value)
    assert abs(value) <= cap(a, difficulty) + 1e-12
    if difficulty not in ("easy", "medium", "hard"):
        assert value == 0


@quick
@given(count, count, count, alpha, switches)
def test_easy_and_right_does_not_rise_with_the_count(n, more, t, a, kwargs):
    assert score(1.0, n + more, t, a, "easy", **kwargs) <= score(1.0, n, t, a, "easy", **kwargs)
    margin = max(1.0, 0.15 * max(t, 1.0))
    if n <= t + margin:
        assert score(1.0, n, t, a, "easy", **kwargs) == 0


@quick
@given(st.integers(0, 1000), st.integers(0, 1000), alpha, switches)
def test_medium_and_right_is_symmetric_around_the_target(t, delta, a, kwargs):
    delta = min(delta, t)
    assert score(1.0, t + delta, t, a, "medium", **kwargs) == score(1.0, t - delta, t, a, "medium", **kwargs)


@quick
@given(count, count, count, alpha, bucket, switches)
def test_wrong_does_not_fall_with_the_count(n, more, t, a, difficulty, kwargs):
    assert score(0.0, n + more, t, a, difficulty, **kwargs) >= score(0.0, n, t, a, difficulty, **kwargs) >= 0


@quick
@given(st.sampled_from([0.0, 1.0]), count, count, alpha, bucket, st.floats(0, 1), st.booleans())
def test_linear_in_alpha(accuracy, n, t, a, difficulty, factor, zero_baseline):
    whole = score(accuracy, n, t, a, difficulty, zero_baseline=zero_baseline)
    assert score(accuracy, n, t, factor * a, difficulty, zero_baseline=zero_baseline) == pytest.approx(
        factor * whole, abs=1e-9
    )


@quick
@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), count, count, alpha, label), min_size=1, max_size=8), switches)
def test_a_batch_is_its_rows(rows, kwargs):
    inputs = [{"response": "<think>a</think>\\boxed{1}"} | dict(zip(FIELDS, row, strict=True)) for row in rows]
    together = aepo.compute_score(inputs, **kwargs)
    assert together == [aepo.compute_score([row], **kwargs)[0] for row in inputs]
    assert [s["overall"] for s in together] == [s["accuracy"] + s["high_entropy_token_num_score"] for s in together]


@quick
@given(count, count, count, count, alpha, alpha, bucket, st.floats(0, 1, exclude_max=True), st.booleans())
def test_the_guard_keeps_wrong_below_right(n1, t1, n2, t2, a1, a2, difficulty, accuracy, zero_baseline):
    """Published, hard, α = .5: right with N=0 and T=100 gives .515, wrong with N=1000 gives .600."""
    kwargs = {"guard_inversion": True, "zero_baseline": zero_baseline}
    right = 1.0 + score(1.0, n1, t1, a1, difficulty, **kwargs)
    assert score(0.0, n2, t2, a2, difficulty, **kwargs) <= right + 1e-12
    partly = accuracy + score(accuracy, n2, t2, a2, difficulty, **kwargs)
    assert partly <= max(accuracy, right) + 1e-12


def test_a_program_that_fails_a_test_stays_below_the_right_ones_of_its_group():
    """Three right programs and one that fails 1 of 10 tests: 1.185 against 1.0, advantages -.5, -.5, -.5, +1.5."""
    rewards, right = np.array([1.0, 1.0, 1.0, 0.87]), np.array([True, True, True, False])
    assert (rewards + aepo.guard_groups(rewards, np.array([0, 0, 0, 0.315]), right, list("pppp"))).tolist() == [1.0] * 4
    kept = aepo.guard_groups(rewards, np.array([0.0, -0.2, -0.5, 0.3]), right, list("pppp"))
    assert kept == pytest.approx([0.0, -0.13, -0.13, 0.0])


row = st.tuples(st.integers(0, 2), st.booleans(), st.floats(-3, 3) | st.just(math.nan), st.floats(-2, 2))


@quick
@given(st.lists(row, min_size=1, max_size=12))
def test_within_a_group_no_answer_that_is_not_right_outscores_a_right_one_on_any_scale(rows):
    groups, right, rewards, bonus = map(np.array, zip(*rows, strict=True))
    kept = aepo.guard_groups(rewards, bonus, right, groups)
    total = rewards + kept
    for group in set(groups.tolist()):
        good, bad = (total[(groups == group) & (right == side) & ~np.isnan(rewards)] for side in (True, False))
        if len(good) and len(bad):
            assert bad.max() <= good.min() + 1e-12
        elif len(good) + len(bad):
            inside = (groups == group) & ~np.isnan(rewards)
            assert kept[inside].tolist() == bonus[inside].tolist()  # nothing to compare with: it stays


@pytest.mark.parametrize("difficulty", ["easy", "medium", "hard"])
def test_zero_baseline_pays_nothing_for_a_short_wrong_answer(difficulty):
    assert score(0.0, 5, 10, 0.5, difficulty) > 0
    assert score(0.0, 5, 10, 0.5, difficulty, zero_baseline=True) == 0
    assert score(0.0, 500, 10, 0.5, difficulty, zero_baseline=True) > 0.2


def test_no_overflow():
    x = np.array([-1e308, -750.0, 0.0, 750.0, 1e308])
    with np.errstate(all="raise", under="ignore"):
        assert aepo.sigmoid_saturate(x, 1e-9)[[0, 2, 4]].tolist() == [0.0, 0.5, 1.0]
        assert np.isfinite(aepo.huber_penalty(x, 2.0)).all()
        assert np.isfinite(
            aepo.entropy_score([0, 1, 1], [1e300] * 3, [0] * 3, [2] * 3, ["hard", "easy", "medium"])
        ).all()


@pytest.mark.parametrize("value", [math.nan, -1, math.inf])
@pytest.mark.parametrize("field", FIELDS[1:4])
def test_a_bad_number_is_named(field, value):
    row = {"response": "", "accuracy": 1.0}
    with pytest.raises(ValueError, match=field):
        aepo.compute_score([row, row | {field: value}])


def test_bad_inputs():
    assert aepo.compute_score([]) == []
    with pytest.raises(ValueError, match="list"):
        aepo.compute_score({"response": ""})
    with pytest.raises(ValueError, match="row 0: accuracy is nan"):
        aepo.compute_score([{"response": "", "accuracy": math.nan}])


def test_missing_accuracy_is_graded():
    rows = [{"response": f"\\boxed{{{n}}}", "ground_truth": "1/2", "accuracy": None} for n in ("\\frac12", "3")]
    assert [scored["accuracy"] for scored in aepo.compute_score(rows)] == [1.0, 0.0]


PUBLISHED_FORMAT = re.compile(r"<think>.*</think>.*\\boxed\{.*\}.*", re.DOTALL)
piece = st.sampled_from(
    ["<think>", "</think>", "\\boxed{", "}", "x", " ", "\n", "<", ">", "/", " < / think > ", "think"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(piece, max_size=14).map("".join))
def test_format_accepts_the_published_language(response):
    expected = PUBLISHED_FORMAT.fullmatch(re.sub(r"\s*(<|>|/)\s*", r"\1", response)) is not None
    assert aepo.format_reward(response) == float(expected)


@pytest.mark.parametrize("response", ["<think>" + "</think>\\boxed{" * 20000, " " * 200000 + "x"])
def test_a_long_response_does_not_make_the_format_check_backtrack(response):
    """The published expression takes minutes to hours for these; a quadratic search would not end this test either."""
    assert aepo.format_reward(response) == 0.0
