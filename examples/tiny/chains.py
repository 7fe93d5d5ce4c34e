"""Expressions worked from left to right: graded arithmetic (tiny-math), and chains of small steps (tiny-reason).

tiny-math has four shapes of numbers with at most two digits, so that a model of 120k parameters can learn where to
look; what lifts it is to work in steps instead of answering at once, to check, and always to box the answer.

    a+b      a-b or a*b      a*b+c      a*b-c+d        <think> steps: 3*4=12. 12+5=17. </think> \\boxed{17}

In tiny-reason the length of a response is a choice. A chain has one, two, four or six steps between 0 and 9, each with
a name, by which a tiny model finds its place. A response tries, may check by steps, again and again, and boxes what it
held last. One operation a model sees at a glance, and a check is waste; of six it can only guess the end, and a check
finds and repairs the slip. In the worked examples every level checks as often: what a run learns of it is its own.

    5b+2c-3      <think> try 6 check 5b+2=7;7c-3=4; no 4 </think> \\boxed{4}
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from examples.tiny.problems import Split, answer_row, box, draw_balanced, misread

OPERATIONS: dict[str, Callable[[int, int], int]] = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}
EXPRESSION = re.compile(r"\d+(?:[-+*]\d+)+")


@dataclass(frozen=True)
class Chain:
    """One prompt: `first`, then operators and operands by turns."""

    level: int
    first: int
    operations: tuple[tuple[str, str, int], ...]
    """Name (empty in tiny-math), operator, operand."""
    suffix: str = ""

    @property
    def expression(self) -> str:
        return str(self.first) + "".join(f"{name}{operator}{operand}" for name, operator, operand in self.operations)

    @property
    def prompt(self) -> str:
        return self.expression + self.suffix

    @property
    def values(self) -> list[int]:
        """`first` and the result of every step."""
        values = [self.first]
        for _, operator, operand in self.operations:
            values.append(OPERATIONS[operator](values[-1], operand))
        return values

    @property
    def answer(self) -> int:
        return self.values[-1]

    @property
    def steps(self) -> tuple[str, ...]:
        """The one-operation expressions that lead to the answer."""
        taken = zip(self.values[:-1], self.operations, strict=True)
        return tuple(f"{value}{name}{operator}{operand}" for value, (name, operator, operand) in taken)

    row = answer_row


def expressions_in(text: str) -> set[str]:
    """Every whole expression in a text: `3*4+5` is one, the `4+5` within it is not."""
    return set(EXPRESSION.findall(text))


# tiny-math

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
LARGEST = 20
"""The largest number that begins a sum or a difference; the other operand has one digit."""
HELDOUT_FACTS = 9
"""Sums, and differences, that are held out; under six suffixes each they give 54 prompts a level."""


def draw_graded(rng: random.Random, level: int) -> Chain:
    """A problem of tiny-math of a level (1 to 4)."""
    if level == 1:
        first, operations = rng.randint(2, LARGEST), [("+", rng.randint(2, 9))]
    elif level == 2 and rng.random() < 0.5:
        subtrahend = rng.randint(2, 9)
        first, operations = rng.randint(subtrahend, LARGEST), [("-", subtrahend)]
    else:
        first, factor = rng.randint(2, 5), rng.randint(2, 5)
        operations = [("*", factor)]
        if level == 4:
            operations.append(("-", rng.randint(1, min(9, first * factor))))
        if level > 2:
            operations.append(("+", rng.randint(1, 9)))
    return Chain(level, first, tuple(("", *operation) for operation in operations), rng.choice(SUFFIXES))


def write_graded(problem: Chain, rng: random.Random) -> str:
    """A response to imitate: one of three styles, sometimes wrong or without a box."""
    style = rng.choices(list(STYLES), list(STYLES.values()))[0]
    rate = ERROR_RATE[problem.level]
    if style == "quick":
        value = misread(problem.answer, rate * QUICK_PENALTY, rng)
        return f"<think> quick: {value}. </think> {box(value, rng)}"
    rate /= len(problem.operations) ** 0.5
    thought, value = "steps: ", problem.first
    for _, operator, operand in problem.operations:
        step, right = f"{value}{operator}{operand}", OPERATIONS[operator](value, operand)
        value = misread(right, rate, rng)
        thought += f"{step}={value}. "
        if style == "checked":
            again = misread(right, rate * CHECK_PENALTY, rng)
            thought += f"{'check' if again == value else 'wait,'} {step}={again}. "
            value = again
    return f"<think> {thought}</think> {box(value, rng)}"


def split_graded(rng: random.Random, examples: int, train: int = 1000, heldout: int = 160) -> Split[Chain]:
    """Sets of tiny-math, balanced over the levels; counts are totals.

    No held-out expression occurs in training, neither in a prompt nor as a step of a thought. One-operation expressions
    are few, so each that is held out comes under several suffixes. Longer ones are held out as combinations of steps
    that were taught.
    """
    facts = {fact for level in (1, 2) for fact in _heldout_facts(level, rng)}

    def draw(count: int, allowed: Callable[[Chain], bool]) -> list[Chain]:
        return draw_balanced(partial(draw_graded, rng), LEVELS, count, lambda problem: problem.prompt, allowed)

    measured = draw(heldout, lambda problem: facts.isdisjoint(problem.steps) == (problem.level > 2))
    reserved = facts | {problem.expression for problem in measured}
    reinforced = draw(train, lambda problem: reserved.isdisjoint((problem.expression, *problem.steps)))
    rng.shuffle(reinforced)
    rng.shuffle(measured)
    # Last, so that their number leaves the other two sets as they are.
    taught: list[tuple[Chain, str]] = []
    for level in LEVELS:
        before = len(taught)
        while len(taught) < before + examples // 4:
            problem = draw_graded(rng, level)
            response = write_graded(problem, rng)
            if reserved.isdisjoint(expressions_in(problem.prompt) | expressions_in(response)):
                taught.append((problem, response))
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


# tiny-reason

LENGTHS = {1: 1, 2: 2, 3: 4, 4: 6}
"""Operations of a chain by level."""
NAMES = "abcdefghijklmnop"
"""Of operations: those of a chain follow one another, from any name on."""
DIGITS = 10
OPERANDS = (1, 2, 3)
"""Small, and no result leaves the digits: a tiny model learns such facts at once, and sums modulo 10 not at all."""
CHECKING = 0.5
"""How often a worked example checks, and checks again, at any level."""
MOST_CHECKS = 3
SLIP = {1: 0.03, 2: 0.5, 3: 0.9, 4: 0.9}
"""How often a worked example tries a wrong digit: of the longer chains nothing is known before they are worked."""
STEP_SLIP = 0.02
"""How often a step of a first check errs; of later checks CAREFUL times as often."""
CAREFUL = 0.25


def draw_chain(rng: random.Random, level: int) -> Chain:
    """A problem of tiny-reason of a level (1 to 4)."""
    count = LENGTHS[level]
    start = rng.randrange(len(NAMES) - count + 1)
    value = first = rng.randrange(DIGITS)
    operations: list[tuple[str, str, int]] = []
    for name in NAMES[start : start + count]:
        possible = [(sign, each) for sign in "+-" for each in OPERANDS if 0 <= OPERATIONS[sign](value, each) < DIGITS]
        operator, operand = rng.choice(possible)
        operations.append((name, operator, operand))
        value = OPERATIONS[operator](value, operand)
    return Chain(level, first, tuple(operations))


def write_chain(problem: Chain, rng: random.Random) -> str:
    """A response to imitate: a try, which errs by level, up to MOST_CHECKS checks, sometimes no box."""
    held = _slipped(problem.answer, SLIP[problem.level], rng)
    thought, checks = f"try {held}", 0
    while checks < MOST_CHECKS and rng.random() < CHECKING:
        value, steps = problem.first, ""
        for name, operator, operand in problem.operations:
            right = OPERATIONS[operator](value, operand) % DIGITS
            result = _slipped(right, STEP_SLIP * (CAREFUL if checks else 1), rng)
            steps += f"{value}{name}{operator}{operand}={result};"
            value = result
        thought += f" check {steps} {'same' if value == held else 'no'} {value}"
        held, checks = value, checks + 1
    return f"<think> {thought} </think> {box(held, rng)}"


def split_chains(rng: random.Random, examples: int, train: int = 800, heldout: int = 160) -> Split[Chain]:
    """Sets of tiny-reason, balanced over the levels; no prompt is in two of them. Counts are totals."""
    used: set[str] = set()
    sets: list[list[Chain]] = []
    for count in (heldout, train):
        chosen = draw_balanced(
            partial(draw_chain, rng), LEVELS, count, lambda problem: problem.prompt,
            lambda problem: problem.prompt not in used,
        )  # fmt: skip
        used.update(problem.prompt for problem in chosen)
        rng.shuffle(chosen)
        sets.append(chosen)
    taught: list[tuple[Chain, str]] = []
    while len(taught) < examples:
        problem = draw_chain(rng, LEVELS[len(taught) % len(LEVELS)])
        if problem.prompt not in used:
            taught.append((problem, write_chain(problem, rng)))
    rng.shuffle(taught)
    return Split(taught, sets[1], sets[0])


def _slipped(value: int, rate: float, rng: random.Random) -> int:
    """The digit, or at the given rate another one."""
    return (value + rng.randrange(1, DIGITS)) % DIGITS if rng.random() < rate else value
