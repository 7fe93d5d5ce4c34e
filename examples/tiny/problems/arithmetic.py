"""Graded arithmetic: the generated task on which a tiny model can be trained within minutes.

Covers: problems of four levels, worked examples of varying quality, and a split whose held-out expressions occur
nowhere in training. Does not cover: rewards for a run (rewards/), prompts of other tasks, reading data files.

    L1  a+b      L2  a-b or a*b      L3  a*b+c      L4  a*b-c+d

The shapes are fixed and numbers have at most two digits: a model of 120k parameters can learn where to look.
What makes the task hard is that the worked examples err. A model trained on them errs as often, and what lifts it is a
choice among habits it already has: work in steps instead of answering at once, check, always box the answer.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from examples.tiny.problems.sets import Split, math_row

LEVELS = (1, 2, 3, 4)
SUFFIXES = ("=?", " equals?", " is what?", " gives?", " makes?", " is?")
"""What follows the expression in a prompt. The wording varies, so a prompt is more than its expression."""

STYLES = {"quick": 0.3, "steps": 0.4, "checked": 0.3}
"""How often a worked example thinks in each style."""
ERROR_RATE = {1: 0.15, 2: 0.3, 3: 0.35, 4: 0.35}
"""Error rate of a worked example by level; each of k steps errs at 1/√k of it."""
QUICK_PENALTY = 1.5
"""Answering without steps errs this much more often than the level's rate."""
CHECK_PENALTY = 0.25
"""A checked step errs at this fraction of an unchecked one: checking repairs most errors."""
UNBOXED_RATE = 0.08
"""Worked examples that forget the box, and are therefore wrong whatever their number is."""

WHOLE_WORDS = ("<think>", "</think>", "\\boxed{")
"""The marks of the format: a tokenizer for this task should not cut them."""

OPERATIONS = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}
LARGEST = 20
"""The largest number that begins a sum or a difference; the other operand has one digit."""
FACTORS = (2, 5)
HELDOUT_FACTS = 9
"""Sums, and differences, that are held out; under six suffixes each they give 54 prompts a level."""

EXPRESSION = re.compile(r"\d+(?:[-+*]\d+)+")
RESPONSE = re.compile(r"<think>.*?</think>\s*\\boxed\{(-?\d+)\}", re.DOTALL)


@dataclass(frozen=True)
class Problem:
    """One prompt: `first`, then operator and operand by turns, worked from left to right."""

    level: int
    first: int
    operations: tuple[tuple[str, int], ...]
    suffix: str

    @property
    def expression(self) -> str:
        return str(self.first) + "".join(f"{operator}{operand}" for operator, operand in self.operations)

    @property
    def prompt(self) -> str:
        return self.expression + self.suffix

    @property
    def answer(self) -> int:
        value = self.first
        for operator, operand in self.operations:
            value = OPERATIONS[operator](value, operand)
        return value

    @property
    def steps(self) -> tuple[str, ...]:
        """The one-operation expressions that lead to the answer."""
        value, steps = self.first, []
        for operator, operand in self.operations:
            steps.append(f"{value}{operator}{operand}")
            value = OPERATIONS[operator](value, operand)
        return tuple(steps)

    row = math_row


def sample_problem(rng: random.Random, level: int) -> Problem:
    """A problem of the given level (1 to 4). Raises KeyError for another level."""
    first, operations = _SHAPES[level](rng)
    return Problem(level, first, operations, rng.choice(SUFFIXES))


def worked_example(problem: Problem, rng: random.Random) -> str:
    """A response `<think> … </think> \\boxed{…}` to imitate: one of three styles, sometimes wrong or without a box."""
    style = rng.choices(list(STYLES), list(STYLES.values()))[0]
    rate = ERROR_RATE[problem.level]
    if style == "quick":
        value = misread(problem.answer, rate * QUICK_PENALTY, rng)
        thought = f"quick: {value}. "
    else:
        thought, value = _in_steps(problem, rate / len(problem.operations) ** 0.5, style == "checked", rng)
    return f"<think> {thought}</think> {stated(value, rng)}"


def extract_answer(response: str) -> int | None:
    """The boxed number of a response in the exact format, else None."""
    match = RESPONSE.fullmatch(response)
    return int(match.group(1)) if match else None


def is_correct(problem: Problem, response: str) -> bool:
    """Whether the response has the exact format and boxes the right number."""
    return extract_answer(response) == problem.answer


def expressions_in(text: str) -> set[str]:
    """Every whole expression in a text: `3*4+5` is one, the `4+5` within it is not."""
    return set(EXPRESSION.findall(text))


def split_problems(rng: random.Random, *, examples: int, train: int, heldout: int) -> Split[Problem]:
    """Level-balanced examples, train set and held-out set; counts are totals over the four levels.

    No held-out expression occurs in training, neither in a prompt nor as a step of a thought. One-operation expressions
    are few, so each that is held out comes under several suffixes. Longer ones are held out as combinations of steps
    that were taught. Prompts do not repeat within train or held-out.
    """
    facts = {fact for level in (1, 2) for fact in _heldout_facts(level, rng)}
    reserved = set(facts)
    measured: list[Problem] = []
    for level in LEVELS:
        if level in (1, 2):
            measured += _distinct(rng, level, heldout // len(LEVELS), lambda problem: problem.expression in facts)
        else:
            measured += _distinct(rng, level, heldout // len(LEVELS), lambda problem: facts.isdisjoint(problem.steps))
    reserved |= {problem.expression for problem in measured}

    reinforced: list[Problem] = []
    for level in LEVELS:
        reinforced += _distinct(
            rng, level, train // len(LEVELS), lambda problem: reserved.isdisjoint((problem.expression, *problem.steps))
        )
    rng.shuffle(reinforced)
    rng.shuffle(measured)
    # Last, so that their number leaves the other two sets as they are.
    taught = [pair for level in LEVELS for pair in _taught(rng, level, examples // len(LEVELS), reserved)]
    rng.shuffle(taught)
    return Split(taught, reinforced, measured)


def _heldout_facts(level: int, rng: random.Random) -> set[str]:
    """One-operation expressions to hold out: sums for level 1, differences for level 2.

    Each lies amid taught ones, so that a model which has understood digits and carries can answer it. No products are
    held out: so small a model cannot derive one from others.
    """
    operator = {1: "+", 2: "-"}[level]
    pairs = [(first, second) for second in range(2, 10) for first in range(2 if level == 1 else second, LARGEST + 1)]
    heldout: list[tuple[int, int]] = []
    for first, second in rng.sample(pairs, len(pairs)):
        around = {(first + i, second + j) for i in (-1, 0, 1) for j in (-1, 0, 1)}
        if len(heldout) < HELDOUT_FACTS and around.issubset(pairs) and around.isdisjoint(heldout):
            heldout.append((first, second))
    return {f"{first}{operator}{second}" for first, second in heldout}


def _distinct(rng: random.Random, level: int, count: int, allowed: Callable[[Problem], bool]) -> list[Problem]:
    """Problems with different prompts. Raises ValueError if the level has not enough of them."""
    chosen: dict[str, Problem] = {}
    for _ in range(1000 * count):
        if len(chosen) == count:
            break
        problem = sample_problem(rng, level)
        if allowed(problem):
            chosen[problem.prompt] = problem
    if len(chosen) < count:
        raise ValueError(
            f"level {level} has only about {len(chosen)} different prompts of this kind, {count} were asked"
        )
    return list(chosen.values())


def _taught(rng: random.Random, level: int, count: int, reserved: set[str]) -> list[tuple[Problem, str]]:
    taught: list[tuple[Problem, str]] = []
    while len(taught) < count:
        problem = sample_problem(rng, level)
        response = worked_example(problem, rng)
        if reserved.isdisjoint(expressions_in(problem.prompt) | expressions_in(response)):
            taught.append((problem, response))
    return taught


_Shape = tuple[int, tuple[tuple[str, int], ...]]


def _addition(rng: random.Random) -> _Shape:
    return rng.randint(2, LARGEST), (("+", rng.randint(2, 9)),)


def _subtraction_or_product(rng: random.Random) -> _Shape:
    if rng.random() < 0.5:
        subtrahend = rng.randint(2, 9)
        return rng.randint(subtrahend, LARGEST), (("-", subtrahend),)
    first, second = _factors(rng)
    return first, (("*", second),)


def _product_plus(rng: random.Random) -> _Shape:
    first, second = _factors(rng)
    return first, (("*", second), ("+", rng.randint(1, 9)))


def _product_minus_plus(rng: random.Random) -> _Shape:
    first, second = _factors(rng)
    return first, (("*", second), ("-", rng.randint(1, min(9, first * second))), ("+", rng.randint(1, 9)))


def _factors(rng: random.Random) -> tuple[int, int]:
    return rng.randint(*FACTORS), rng.randint(*FACTORS)


_SHAPES = {1: _addition, 2: _subtraction_or_product, 3: _product_plus, 4: _product_minus_plus}


def misread(value: int, rate: float, rng: random.Random) -> int:
    """The value, or at the given rate a near miss that is not negative."""
    if rng.random() >= rate:
        return value
    return rng.choice([near for near in (value - 2, value - 1, value + 1, value + 2) if near >= 0])


def _in_steps(problem: Problem, rate: float, checked: bool, rng: random.Random) -> tuple[str, int]:
    thought, value = "steps: ", problem.first
    for operator, operand in problem.operations:
        step, right = f"{value}{operator}{operand}", OPERATIONS[operator](value, operand)
        value = misread(right, rate, rng)
        thought += f"{step}={value}. "
        if checked:
            again = misread(right, rate * CHECK_PENALTY, rng)
            thought += f"{'check' if again == value else 'wait,'} {step}={again}. "
            value = again
    return thought, value


def stated(value: int, rng: random.Random) -> str:
    if rng.random() >= UNBOXED_RATE:
        return f"\\boxed{{{value}}}"
    return rng.choice([f"{value}", f"answer {value}"])
