"""The arithmetic toys: what their problems, worked examples and sets promise."""

import itertools
import random
import re
from collections import defaultdict

import pytest

from examples.tiny.chains import (
    LENGTHS,
    LEVELS,
    MOST_CHECKS,
    Chain,
    draw_chain,
    draw_graded,
    expressions_in,
    split_chains,
    split_graded,
    write_chain,
    write_graded,
)
from examples.tiny.problems import UNBOXED_RATE

BOXED = re.compile(r"<think>.*?</think>\s*\\boxed\{(-?\d+)\}", re.DOTALL)


def is_right(problem: Chain, response: str) -> bool | None:
    """Whether the boxed number is right; None without a box in the exact format."""
    found = BOXED.fullmatch(response)
    return int(found[1]) == problem.answer if found else None


@pytest.mark.parametrize("level", LEVELS)
def test_answer_and_steps_agree_with_the_usual_precedence(level: int) -> None:
    rng = random.Random(level)
    for problem in (draw_graded(rng, level) for _ in range(500)):
        assert problem.answer == eval(problem.expression) >= 0
        assert eval(problem.steps[-1]) == problem.answer
        assert len(problem.steps) == max(1, level - 1)
        assert problem.prompt.startswith(problem.expression)
        shape = "".join(operator for _, operator, _ in problem.operations)
        assert shape in {1: {"+"}, 2: {"-", "*"}, 3: {"*+"}, 4: {"*-+"}}[level]


@pytest.mark.slow
def test_heldout_expressions_occur_nowhere_in_training_and_need_only_taught_steps() -> None:
    graded = split_graded(random.Random(3), 8000)
    heldout = {problem.expression for problem in graded.heldout}
    for problem in graded.train:
        assert heldout.isdisjoint((problem.expression, *problem.steps))
    for problem, response in graded.examples:
        assert heldout.isdisjoint(expressions_in(problem.prompt) | expressions_in(response))
    more = split_graded(random.Random(3), 32_000)
    assert (more.train, more.heldout) == (graded.train, graded.heldout)  # whatever the number of examples
    taught = {step for _, response in more.examples for step in expressions_in(response)}
    for problem in graded.heldout:
        assert problem.level <= 2 or taught.issuperset(problem.steps)


@pytest.mark.parametrize(("level", "right"), [(1, 0.79), (2, 0.66), (3, 0.60), (4, 0.58)])
def test_worked_examples_err_more_often_at_higher_levels_and_some_lack_the_box(level: int, right: float) -> None:
    rng = random.Random(level)
    problems = [draw_graded(rng, level) for _ in range(3000)]
    outcomes = [is_right(problem, write_graded(problem, rng)) for problem in problems]
    assert outcomes.count(True) / 3000 == pytest.approx(right, abs=0.03)
    assert outcomes.count(None) / 3000 == pytest.approx(UNBOXED_RATE, abs=0.02)


def test_whole_expressions_only() -> None:
    assert expressions_in("12*3-4+5 is? 2+3=5. 12-4=8. ") == {"12*3-4+5", "2+3", "12-4"}


@pytest.mark.parametrize("level", LEVELS)
def test_a_chain_has_its_length_names_in_a_row_and_never_leaves_the_digits(level: int) -> None:
    rng = random.Random(level)
    for problem in (draw_chain(rng, level) for _ in range(200)):
        names = [name for name, _, _ in problem.operations]
        assert len(names) == LENGTHS[level]
        assert [ord(name) - ord(names[0]) for name in names] == list(range(len(names)))
        moves = (operand if sign == "+" else -operand for _, sign, operand in problem.operations)
        values = list(itertools.accumulate(moves, initial=problem.first))
        assert all(0 <= value <= 9 for value in values)
        assert problem.answer == values[-1]


def test_checks_are_as_frequent_at_every_level_and_repair_the_long_chains() -> None:
    checks, right = defaultdict(list), defaultdict(list)
    for problem, response in split_chains(random.Random(3), 8000).examples:
        count = response.count(" check ")
        checks[problem.level].append(count)
        outcome = is_right(problem, response)
        if outcome is not None:  # a response without a box is wrong whatever it holds
            right[problem.level, min(count, 1)].append(outcome)
    share = {key: sum(of) / len(of) for key, of in right.items()}
    for level in LEVELS:
        assert sum(checks[level]) / len(checks[level]) == pytest.approx(0.5 + 0.25 + 0.125, abs=0.08)
        assert max(checks[level]) == MOST_CHECKS
        assert share[level, 1] > 0.8
    assert share[1, 0] > 0.94
    assert share[4, 0] < share[2, 0] - 0.2 < share[1, 0] - 0.4


def test_a_check_works_the_chain_step_by_step() -> None:
    problem = Chain(2, 5, (("b", "+", 2), ("c", "-", 3)))
    assert (problem.prompt, problem.answer) == ("5b+2c-3", 4)
    written = (write_chain(problem, random.Random(seed)) for seed in range(99))
    checked = next(text for text in written if " no 4 </think> \\boxed{4}" in text)
    assert " check 5b+2=7;7c-3=4; no 4 </think>" in checked
    assert is_right(problem, checked)
