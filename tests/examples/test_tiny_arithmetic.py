"""The generated task: what its problems, examples and split promise."""

import random
from collections import Counter

import pytest

from examples.tiny.problems import arithmetic
from examples.tiny.problems.arithmetic import (
    LEVELS,
    Problem,
    expressions_in,
    extract_answer,
    is_correct,
    sample_problem,
    split_problems,
    worked_example,
)
from examples.tiny.problems.sets import Split


@pytest.fixture(scope="module")
def split() -> Split[Problem]:
    return split_problems(random.Random(3), examples=8000, train=1000, heldout=160)


def operators(problem: Problem) -> str:
    return "".join(operator for operator, _ in problem.operations)


@pytest.mark.parametrize("level", LEVELS)
def test_answer_and_steps_agree_with_the_usual_precedence(level: int) -> None:
    rng = random.Random(level)
    for _ in range(500):
        problem = sample_problem(rng, level)
        assert problem.answer == eval(problem.expression) >= 0
        assert eval(problem.steps[-1]) == problem.answer
        assert len(problem.steps) == max(1, level - 1)
        assert problem.prompt.startswith(problem.expression)


def test_levels_have_their_shapes() -> None:
    rng = random.Random(0)
    shapes = {
        level: {"".join(op for op, _ in sample_problem(rng, level).operations) for _ in range(200)} for level in LEVELS
    }
    assert shapes == {1: {"+"}, 2: {"-", "*"}, 3: {"*+"}, 4: {"*-+"}}


def test_unknown_level() -> None:
    with pytest.raises(KeyError):
        sample_problem(random.Random(0), 5)


def test_heldout_expressions_occur_nowhere_in_training(split: Split[Problem]) -> None:
    heldout = {problem.expression for problem in split.heldout}
    for problem in split.train:
        assert heldout.isdisjoint((problem.expression, *problem.steps))
    for problem, response in split.examples:
        assert heldout.isdisjoint(expressions_in(problem.prompt) | expressions_in(response))


def test_longer_heldout_problems_need_only_taught_steps(split: Split[Problem]) -> None:
    more = split_problems(random.Random(3), examples=32_000, train=1000, heldout=160)
    assert (more.train, more.heldout) == (split.train, split.heldout)  # whatever the number of examples
    taught = {step for _, response in more.examples for step in expressions_in(response)}
    for problem in split.heldout:
        if problem.level > 2:
            assert taught.issuperset(problem.steps)


def test_sets_are_level_balanced_and_prompts_differ(split: Split[Problem]) -> None:
    assert Counter(problem.level for problem in split.train) == dict.fromkeys(LEVELS, 250)
    assert Counter(problem.level for problem in split.heldout) == dict.fromkeys(LEVELS, 40)
    assert Counter(problem.level for problem, _ in split.examples) == dict.fromkeys(LEVELS, 2000)
    assert len({problem.prompt for problem in split.train}) == len(split.train)
    assert len({problem.prompt for problem in split.heldout}) == len(split.heldout)


def test_the_same_seed_gives_the_same_split(split: Split[Problem]) -> None:
    assert split_problems(random.Random(3), examples=8000, train=1000, heldout=160) == split
    assert split_problems(random.Random(4), examples=8000, train=1000, heldout=160) != split


def test_more_distinct_prompts_than_there_are_is_an_error() -> None:
    with pytest.raises(ValueError, match="level 1 has only about 54 different prompts"):
        split_problems(random.Random(0), examples=4, train=4, heldout=400)


def test_examples_err_at_the_nominal_rates() -> None:
    """Every response either has the format or lacks the box; each style is wrong about as often as it says."""
    rng = random.Random(1)
    expected = {  # of a correct number, by style
        level: {
            "quick": 1 - 1.5 * rate,
            "steps": (1 - rate / steps**0.5) ** steps,
            "check": (1 - rate / steps**0.5 / 4) ** steps,
        }
        for level, rate, steps in ((1, 0.15, 1), (2, 0.3, 1), (3, 0.35, 2), (4, 0.35, 3))
    }
    unboxed = total = 0
    for level in LEVELS:
        right: dict[str, list[bool]] = {"quick": [], "steps": [], "check": []}
        for _ in range(6000):
            problem = sample_problem(rng, level)
            response = worked_example(problem, rng)
            total += 1
            if extract_answer(response) is None:
                unboxed += 1
                continue
            style = (
                "quick" if "quick" in response else "check" if "check" in response or "wait" in response else "steps"
            )
            right[style].append(is_correct(problem, response))
        for style, outcomes in right.items():
            # A wrong step can be undone by a later wrong one, so several steps do slightly better than the product.
            assert sum(outcomes) / len(outcomes) == pytest.approx(expected[level][style], abs=0.06)
    assert unboxed / total == pytest.approx(arithmetic.UNBOXED_RATE, abs=0.01)


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("<think> quick: 7. </think> \\boxed{7}", 7),
        ("<think> quick: 7. </think>\\boxed{-7}", -7),
        ("<think> quick: 7. </think> 7", None),
        ("<think> quick: 7. </think> answer 7", None),
        ("quick: 7. \\boxed{7}", None),
        ("<think> quick: 7. </think> \\boxed{7} and more", None),
        ("<think> quick: 7. </think> \\boxed{}", None),
        ("", None),
    ],
)
def test_only_the_exact_format_counts(response: str, answer: int | None) -> None:
    assert extract_answer(response) == answer
    assert is_correct(Problem(1, 3, (("+", 4),), "=?"), response) == (answer == 7)


def test_whole_expressions_only() -> None:
    assert expressions_in("12*3-4+5 is? 2+3=5. 12-4=8. ") == {"12*3-4+5", "2+3", "12-4"}
