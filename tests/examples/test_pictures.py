"""The questions about pictures: answers follow from what is shown, examples err, no picture is on both sides."""

import random

import pytest

from examples.tiny.pictures import LEVELS, OTHER, draw_examples, draw_picture, draw_problem, split_pictures
from rewards.aepo import format_reward


def test_answers_follow_from_what_is_shown() -> None:
    rng = random.Random(1)
    for level in LEVELS:
        problem = draw_problem(rng, level, heldout=False)
        if level == 4:
            assert problem.answer == int(problem.shown[int(problem.asked) - 1])
        elif level == 3:
            other = OTHER[problem.asked]
            assert problem.answer == problem.shown.count(problem.asked) - problem.shown.count(other) >= 0
        else:
            counted = problem.asked or "rb"
            assert problem.answer == sum(mark in counted for mark in problem.shown) > 0


@pytest.mark.parametrize(("errs", "least", "most"), [(True, 0.45, 0.65), (False, 1, 1)])
def test_worked_examples_err_but_are_mostly_right_and_those_of_the_first_lesson_always(
    errs: bool, least: float, most: float
) -> None:
    pairs = draw_examples(random.Random(0), 2000, errs)
    right = [response.endswith(f"</think>\\boxed{{{problem.answer}}}") for problem, response in pairs]
    assert least <= sum(right) / len(right) <= most
    assert 0.85 < sum(format_reward(response) for _, response in pairs) / len(pairs) <= 1


def test_a_picture_is_all_that_it_shows_and_its_seed() -> None:
    dots = draw_picture("rr.b...b.", 1)
    assert dots.tobytes() == draw_picture("rr.b...b.", 1).tobytes() != draw_picture("rr.b...b.", 2).tobytes()
    assert dots.size == draw_picture("351", 2).size == (24, 24)


def test_no_picture_is_on_both_sides() -> None:
    split = split_pictures(random.Random(1), 400, 40)
    assert {problem.shown for problem in split.train}.isdisjoint(problem.shown for problem in split.heldout)
