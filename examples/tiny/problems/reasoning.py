"""Chains of small steps between 0 and 9: a generated task in which the length of a response is a choice.

Covers: problems of four levels, worked examples whose checks are independent of the level, and a split whose held-out
chains occur nowhere in training. Does not cover: rewards for a run (rewards/), other tasks.

    5b+2c-3    is 5 + 2 − 3, with a name for every operation: names are what a tiny model finds its place by

    <think> try 6 check 5b+2=7;7c-3=4; no 4 </think> \\boxed{4}

A response tries, may check by steps, again and again, and boxes what it held last. One operation a model sees at a
glance, and a check is waste; of five it can only guess the end, and a check finds and repairs the slip. In the worked
examples every level checks as often: what a run learns of it is its own.
"""

import random
import re
from dataclasses import dataclass

from examples.tiny.problems.arithmetic import stated
from examples.tiny.problems.sets import Split, math_row

OPERATIONS = {1: 1, 2: 2, 3: 4, 4: 6}
"""How many a chain of each level has."""
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
WHOLE_WORDS = ("<think>", "</think>", "\\boxed{")
RESPONSE = re.compile(r"<think>.*?</think>\s*\\boxed\{(\d)\}", re.DOTALL)


@dataclass(frozen=True)
class Problem:
    """One prompt: the first digit, then operator and operand by turns."""

    level: int
    first: int
    operations: tuple[tuple[str, str, int], ...]
    """Name, operator, operand."""

    @property
    def prompt(self) -> str:
        return str(self.first) + "".join(f"{name}{operator}{operand}" for name, operator, operand in self.operations)

    @property
    def answer(self) -> int:
        return self.first + sum(operand if operator == "+" else -operand for _, operator, operand in self.operations)

    row = math_row


def sample_problem(rng: random.Random, level: int) -> Problem:
    """A problem of the given level (1 to 4). Raises KeyError for another level."""
    count = OPERATIONS[level]
    start = rng.randrange(len(NAMES) - count + 1)
    value = first = rng.randrange(DIGITS)
    operations: list[tuple[str, str, int]] = []
    for name in NAMES[start : start + count]:
        operator, operand = rng.choice(
            [(sign, each) for sign in "+-" for each in OPERANDS if 0 <= stepped(value, sign, each) < DIGITS]
        )
        operations.append((name, operator, operand))
        value = stepped(value, operator, operand)
    return Problem(level, first, tuple(operations))


def stepped(value: int, operator: str, operand: int) -> int:
    """The result of one operation."""
    return value + operand if operator == "+" else value - operand


def worked_example(problem: Problem, rng: random.Random) -> str:
    """A response to imitate: a try, which errs by level, up to MOST_CHECKS checks, sometimes no box."""
    held = _slipped(problem.answer, SLIP[problem.level], rng)
    thought, checks = f"try {held}", 0
    while checks < MOST_CHECKS and rng.random() < CHECKING:
        steps, value = _steps(problem, STEP_SLIP * (CAREFUL if checks else 1), rng)
        thought += f" check {steps} {'same' if value == held else 'no'} {value}"
        held, checks = value, checks + 1
    return f"<think> {thought} </think> {stated(held, rng)}"


def extract_answer(response: str) -> int | None:
    """The boxed digit of a response in the exact format, else None."""
    match = RESPONSE.fullmatch(response)
    return int(match.group(1)) if match else None


def is_correct(problem: Problem, response: str) -> bool:
    """Whether the response has the exact format and boxes the right digit."""
    return extract_answer(response) == problem.answer


def checks_in(response: str) -> int:
    """How many checks a response begins."""
    return response.count(" check ")


def split_problems(rng: random.Random, *, examples: int, train: int, heldout: int) -> Split[Problem]:
    """Level-balanced examples, train set and held-out set; counts are totals over the levels.

    No prompt is in two of them. Raises ValueError if a level has not enough prompts.
    """
    used: set[str] = set()
    sets: list[list[Problem]] = []
    for count in (heldout, train):
        chosen = [problem for level in OPERATIONS for problem in _distinct(rng, level, count // len(OPERATIONS), used)]
        rng.shuffle(chosen)
        sets.append(chosen)
    taught: list[tuple[Problem, str]] = []
    while len(taught) < examples:
        problem = sample_problem(rng, 1 + len(taught) % len(OPERATIONS))
        if problem.prompt not in used:
            taught.append((problem, worked_example(problem, rng)))
    rng.shuffle(taught)
    return Split(taught, sets[1], sets[0])


def _distinct(rng: random.Random, level: int, count: int, used: set[str]) -> list[Problem]:
    """Problems whose prompts are none of those used before, to which they are added."""
    chosen: list[Problem] = []
    for _ in range(50 * count):
        if len(chosen) == count:
            return chosen
        problem = sample_problem(rng, level)
        if problem.prompt not in used:
            used.add(problem.prompt)
            chosen.append(problem)
    raise ValueError(f"level {level} has fewer than {count} different prompts")


def _slipped(value: int, rate: float, rng: random.Random) -> int:
    """The digit, or at the given rate another one."""
    return (value + rng.randrange(1, DIGITS)) % DIGITS if rng.random() < rate else value


def _steps(problem: Problem, rate: float, rng: random.Random) -> tuple[str, int]:
    """One check: its text, and the digit that it ends in."""
    value, text = problem.first, ""
    for name, operator, operand in problem.operations:
        following = _slipped(stepped(value, operator, operand) % DIGITS, rate, rng)
        text += f"{value}{name}{operator}{operand}={following};"
        value = following
    return text, value
