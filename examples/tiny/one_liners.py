"""Functions of one line: the coding tasks of the tiny masked-diffusion models.

    Write calc(n) that takes 5 from n.
    Write calc(n) that limits n to at most 5 and adds 6 to that.

A problem is a family, a constant, a name and an argument; many worked examples err. A canvas is uncovered in any order,
so what a place needs must be near: the answer has a dozen tokens, each name and each constant is one token in prompt
and answer alike (`WHOLE_WORDS`). With constants cut into a space and a digit, a model of the same size had not learnt
to copy them after six times the training. Nothing here executes text: expected values come from the families' own
callables. Not covered: judging (sandbox/).
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from algorithms.keys import derive_seed
from examples.tiny.problems import Split, draw_asserts, program_row

CONSTANTS = range(2, 10)
NAMES = ("calc", "solve", "work", "step", "make", "find", "run", "get", "do", "fix", "go", "use")
NUMBERS, LISTS = ("x", "n", "v", "a"), ("s", "r", "q", "b")
"""Arguments of functions of a number and of a list."""
OPEN, CLOSE = "```python\n", "\n```\n"
WHOLE_WORDS = (
    OPEN, "):\n    return", ")\n    return", CLOSE, "user\n", "assistant\n", *(f" {constant}" for constant in CONSTANTS)
)  # fmt: skip

ERRORS = ("constant", "operation", "operation", "argument", "name", "syntax")
"""What goes wrong in a worked example that errs, each as often as it stands here."""
ERRORS_OF_PAIRS = (*ERRORS, *("operation",) * 6)
"""A pair's operation is wrong more often than right: the surest tokens do not solve it."""
RIGHT = {1: 0.5, 2: 0.4, 3: 0.3, 4: 0.12}
"""Share of right worked examples by level."""
SUM = 11
"""Of the two constants of a pair of operations."""


@dataclass(frozen=True)
class Family:
    """One operation: `{k}` stands for the constant, `{x}` for the argument, in description and expression.

    Of two operations `{j}` is the other constant.
    """

    name: str
    level: int
    arguments: tuple[str, ...]
    description: str
    expression: str
    function: Callable[[Any, int], Any]
    """(argument, constant) → value."""


FAMILIES = (
    Family("add", 1, NUMBERS, "adds {k} to {x}", "{x} + {k}", lambda x, k: x + k),
    Family("subtract", 1, NUMBERS, "takes {k} from {x}", "{x} - {k}", lambda x, k: x - k),
    Family("multiply", 1, NUMBERS, "multiplies {x} by {k}", "{x} * {k}", lambda x, k: x * k),
    Family("rest", 2, NUMBERS, "gives the rest of {x} by {k}", "{x} % {k}", lambda x, k: x % k),
    Family("divide", 2, NUMBERS, "divides {x} by {k}", "{x} // {k}", lambda x, k: x // k),
    Family("above", 2, NUMBERS, "tells whether {x} is above {k}", "{x} > {k}", lambda x, k: x > k),
    Family("below", 2, NUMBERS, "tells whether {x} is below {k}", "{x} < {k}", lambda x, k: x < k),
    Family("cap", 3, NUMBERS, "limits {x} to at most {k}", "min({x}, {k})", min),
    Family("floor", 3, NUMBERS, "raises {x} to at least {k}", "max({x}, {k})", max),
    Family("total", 3, LISTS, "adds {k} to the sum of {x}", "sum({x}) + {k}", lambda s, k: sum(s) + k),
    Family("length", 3, LISTS, "adds {k} to the length of {x}", "len({x}) + {k}", lambda s, k: len(s) + k),
    Family("largest", 3, LISTS, "multiplies the largest of {x} by {k}", "max({x}) * {k}", lambda s, k: max(s) * k),
    Family("smallest", 3, LISTS, "takes {k} from the smallest of {x}", "min({x}) - {k}", lambda s, k: min(s) - k),
)
PAIRS = (
    Family("add_cap", 4, NUMBERS, "adds {k} to {x} and limits that to at most {j}", "min({x} + {k}, {j})",
           lambda x, k: min(x + k, SUM - k)),
    Family("cap_add", 4, NUMBERS, "limits {x} to at most {k} and adds {j} to that", "min({x}, {k}) + {j}",
           lambda x, k: min(x, k) + SUM - k),
    Family("add_floor", 4, NUMBERS, "adds {k} to {x} and raises that to at least {j}", "max({x} + {k}, {j})",
           lambda x, k: max(x + k, SUM - k)),
    Family("floor_add", 4, NUMBERS, "raises {x} to at least {k} and adds {j} to that", "max({x}, {k}) + {j}",
           lambda x, k: max(x, k) + SUM - k),
    Family("subtract_cap", 4, NUMBERS, "takes {k} from {x} and limits that to at most {j}", "min({x} - {k}, {j})",
           lambda x, k: min(x - k, SUM - k)),
    Family("cap_subtract", 4, NUMBERS, "limits {x} to at most {k} and takes {j} from that", "min({x}, {k}) - {j}",
           lambda x, k: min(x, k) - SUM + k),
    Family("subtract_floor", 4, NUMBERS, "takes {k} from {x} and raises that to at least {j}", "max({x} - {k}, {j})",
           lambda x, k: max(x - k, SUM - k)),
    Family("floor_subtract", 4, NUMBERS, "raises {x} to at least {k} and takes {j} from that", "max({x}, {k}) - {j}",
           lambda x, k: max(x, k) - SUM + k),
    Family("multiply_cap", 4, NUMBERS, "multiplies {x} by {k} and limits that to at most {j}", "min({x} * {k}, {j})",
           lambda x, k: min(x * k, SUM - k)),
    Family("cap_multiply", 4, NUMBERS, "limits {x} to at most {k} and multiplies that by {j}", "min({x}, {k}) * {j}",
           lambda x, k: min(x, k) * (SUM - k)),
    Family("multiply_floor", 4, NUMBERS, "multiplies {x} by {k} and raises that to at least {j}", "max({x} * {k}, {j})",
           lambda x, k: max(x * k, SUM - k)),
    Family("floor_multiply", 4, NUMBERS, "raises {x} to at least {k} and multiplies that by {j}", "max({x}, {k}) * {j}",
           lambda x, k: max(x, k) * (SUM - k)),
)  # fmt: skip
"""Two operations. Each pair stands beside the one it is taken for, of the other order: they differ in several places of
a canvas, and places that are uncovered together may come from both."""


@dataclass(frozen=True)
class Problem:
    """One prompt. Everything about it, the tests too, follows from the four."""

    family: Family
    constant: int
    name: str
    argument: str

    @property
    def level(self) -> int:
        return self.family.level

    @property
    def prompt(self) -> str:
        wanted = _fill(self.family.description, self.constant, self.argument)
        return f"Write {self.name}({self.argument}) that {wanted}."

    @property
    def solution(self) -> str:
        """The reference program."""
        return write_program(self.name, self.argument, self.family, self.constant)

    @cached_property
    def test_cases(self) -> tuple[str, ...]:
        """Asserts that no other family and no other constant passes all of."""
        family, constant = self.family, self.constant
        rng = random.Random(derive_seed("one-liner tests", family.name, constant, self.name, self.argument))
        wrong = [(other, constant) for other in _alike(family)]
        wrong += [(family, other) for other in CONSTANTS if other != constant]

        def draw() -> tuple[Any]:
            if family.arguments is LISTS:
                return ([rng.randint(-9, 9) for _ in range(rng.randint(1, 5))],)
            return (rng.choice((constant, constant - 1, constant + 1, 2 * constant, rng.randint(-9, 30))),)

        def telling(drawn: list[tuple[Any, ...]], expected: list[Any]) -> bool:
            return all([other.function(value, k) for (value,) in drawn] != expected for other, k in wrong)

        return draw_asserts(rng, self.name, draw, lambda value: family.function(value, constant), telling)

    row = program_row


def split_one_liners(
    rng: random.Random, train: int = 800, heldout: int = 160, families: Sequence[Family] = FAMILIES
) -> Split[Problem]:
    """Shuffled problems; the held-out ones are taken away first, and all others are right examples, of which the first
    are trained on. Raises ValueError if there are too few."""
    problems = [
        Problem(family, constant, name, argument)
        for family in families
        for constant in CONSTANTS
        for name in NAMES
        for argument in family.arguments
    ]
    if train + heldout > len(problems):
        raise ValueError(f"there are only {len(problems)} problems, {train} + {heldout} were asked for")
    rng.shuffle(problems)
    taught = problems[heldout:]
    return Split([(problem, respond(problem.solution)) for problem in taught], taught[:train], problems[:heldout])


def write_program(name: str, argument: str, family: Family, constant: int) -> str:
    """The function, without fences."""
    return f"def {name}({argument}):\n    return {_fill(family.expression, constant, argument)}"


def respond(source: str) -> str:
    """A program as a response: one fenced block and nothing else."""
    return f"{OPEN}{source}{CLOSE}"


def write_example(problem: Problem, rng: random.Random) -> str:
    """A response to imitate; right as often as RIGHT says for the level, else with one error."""
    if rng.random() < RIGHT[problem.level]:
        return respond(problem.solution)
    family, constant, name, argument = problem.family, problem.constant, problem.name, problem.argument
    error = rng.choice(ERRORS_OF_PAIRS if family in PAIRS else ERRORS)
    if error == "constant":
        constant = rng.choice([other for other in CONSTANTS if other != constant])
    elif error == "operation":  # of a pair its neighbour, more often than what is right
        family = rng.choice([PAIRS[PAIRS.index(family) ^ 1]] if family in PAIRS else _alike(family))
    elif error == "name":
        name = rng.choice([other for other in NAMES if other != name])
    source = write_program(name, argument, family, constant)
    if error == "argument":  # the body asks for a name that nobody gave it
        other = rng.choice([each for each in family.arguments if each != argument])
        source = source.replace(f"({argument}):", f"({other}):")
    elif error == "syntax":
        source = source.replace("):", ")", 1)
    return respond(source)


def _alike(family: Family) -> list[Family]:
    among = PAIRS if family in PAIRS else FAMILIES
    return [other for other in among if other.arguments == family.arguments and other is not family]


def _fill(text: str, constant: int, argument: str) -> str:
    return text.format(k=constant, j=SUM - constant, x=argument)
