import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ares.grading.grader import RewardError
from ares.grading.unscored import check_scored


def rows(*accuracies: list[float | None]) -> pd.DataFrame:
    """One problem per list."""
    names = [str(place) for place, each in enumerate(accuracies) for _ in each]
    return pd.DataFrame(
        {"id": names, "accuracy": pd.array([value for each in accuracies for value in each], dtype="Float64")}
    )


def stops(scores: pd.DataFrame, limit: float = 0.2) -> bool:
    try:
        check_scored(scores, limit, "step 3")
    except RewardError:
        return True
    return False


def test_one_problem_that_cannot_be_graded_never_stops_a_run_and_a_grader_that_is_down_does() -> None:
    assert not stops(rows([None] * 4, [1, 0, 1, 0]))
    assert not stops(rows([None] * 4, [None, 0, 0, 0], *[[1, 0, 1, 0]] * 20))
    assert stops(rows([None] * 4))
    assert stops(rows([None] * 4, [None] * 4))
    assert stops(rows([None] * 4, [None, 0, 0, 0]))
    assert not stops(rows([None] * 4, [None, 0, 0, 0]), limit=0.7)
    assert not stops(rows())


def test_the_message_says_how_many_and_what_may_be_done() -> None:
    with pytest.raises(RewardError, match=r"step 3: 5 of 8 responses, of 2 problems, .*reward\.max_unscored=0\.2"):
        check_scored(rows([None] * 4, [None, 0, 0, 0]), 0.2, "step 3")


@given(st.lists(st.lists(st.sampled_from([None, 0.0, 0.5, 1.0]), min_size=1, max_size=6), max_size=8), st.floats(0, 1))
def test_no_pattern_of_absent_scores_stops_a_run_unless_too_many_or_all_are(
    groups: list[list[float | None]], limit: float
) -> None:
    flat = [value for group in groups for value in group]
    absent = flat.count(None)
    affected = sum(None in group for group in groups)
    expected = bool(flat) and (absent == len(flat) or (absent / len(flat) > limit and affected > 1))
    assert stops(rows(*groups), limit) == expected
