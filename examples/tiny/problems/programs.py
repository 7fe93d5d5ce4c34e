"""Small functions: the generated coding task on which a tiny model can be trained within minutes.

Covers: problems (a family, a constant, a name) with prompt, reference solution and six asserts each, worked examples
of varying quality, and a split whose held-out problems occur nowhere in training. Does not cover: the families
themselves (examples/tiny/problems/families.py), judging (sandbox/), rewards for a run (rewards/).

    Write calc(s) that keeps the items of s that are at most 3.

What makes the task hard is that the worked examples err: each family has a slip (`<` for `<=`) that passes some of its
tests, and any program may break off, lack a colon or name its argument wrongly. From level 2 on the slip is more
frequent than the right program, so a model trained on the examples decodes it greedily too; what reinforcement adds is
a choice among habits, from the tests' verdicts alone.

Of families that keep their constant secret (SECRET) a first try can guess one of eight; a guess in the right place
fails at the last test only, whose text states the constant, and any other error at the first, which says nothing.
"""

import operator
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from algorithms.keys import derive_seed
from examples.tiny.problems.families import FAMILIES, Family, Function
from examples.tiny.problems.sets import Split, code_row
from rewards.code import code_format_score, extract_code

LEVELS = (1, 2, 3, 4)
CONSTANTS = range(2, 10)
NAMES = ("f", "g", "h", "calc", "solve", "work", "fn", "get", "do", "make", "step", "run")
TESTS = 6
TEST_DRAWS = 2000
MISREAD_BY = (-1, 1)

KINDS = ("right", "slip", "misread", "runtime", "syntax")
"""What a worked example can be: right, the family's slip, another constant, and programs that fail when they run or
cannot be read."""
Shares = Mapping[int, Mapping[str, float]]
"""How often a worked example of a level is of each kind."""

USUAL: Shares = {
    1: {"right": 0.55, "slip": 0.20, "misread": 0.05, "runtime": 0.10, "syntax": 0.10},
    2: {"right": 0.34, "slip": 0.42, "misread": 0.04, "runtime": 0.10, "syntax": 0.10},
    3: {"right": 0.27, "slip": 0.46, "misread": 0.05, "runtime": 0.11, "syntax": 0.11},
    4: {"right": 0.23, "slip": 0.47, "misread": 0.06, "runtime": 0.12, "syntax": 0.12},
}
HARD: Shares = {
    1: {"right": 0.02, "slip": 0.36, "misread": 0.06, "runtime": 0.27, "syntax": 0.29},
    2: {"right": 0.02, "slip": 0.36, "misread": 0.06, "runtime": 0.27, "syntax": 0.29},
    3: {"right": 0.02, "slip": 0.36, "misread": 0.06, "runtime": 0.27, "syntax": 0.29},
    4: {"right": 0.02, "slip": 0.36, "misread": 0.06, "runtime": 0.27, "syntax": 0.29},
}
"""Of few right examples, for comparing rewards where most groups have no solution."""
GUESSED: Shares = {
    level: {"right": 0.30, "slip": 0.45, "misread": 0.0, "runtime": 0.12, "syntax": 0.13} for level in LEVELS
}
"""Of secret constants: an example with the constant in place is as good as a guess."""

OPEN, CLOSE = "```python", "```"
WHOLE_WORDS = (OPEN, CLOSE)
"""The marks of the format: a tokenizer for this task should not cut them."""


@dataclass(frozen=True)
class Problem:
    """One prompt. Everything about it, the tests too, follows from the triple."""

    family: Family
    constant: int
    name: str

    @property
    def level(self) -> int:
        return self.family.level

    @property
    def prompt(self) -> str:
        return f"Write {self.name}({self.family.arguments}) that {self._filled(self.family.description)}."

    @property
    def solution(self) -> str:
        """The reference program."""
        return self.program(self.family.lines)

    @property
    def slip(self) -> str:
        """The program with the family's slip: it passes some of the tests."""
        return self.program(self.family.slipped_lines)

    @cached_property
    def test_cases(self) -> tuple[str, ...]:
        """Asserts of at least two different values. The slip passes some of them; a wrong constant fails some.

        Of a secret constant all but the last hold for every constant and fail for the slip.
        """
        tells = self.family.tells
        rng = random.Random(derive_seed("program tests", self.family.name, self.constant, self.name))
        for _ in range(TEST_DRAWS):
            drawn = [self.family.inputs(rng, self.constant) for _ in range(TESTS)]
            drawn[-1] = drawn[-1] if tells is None else tells
            expected = _values(self.family.function, self.constant, drawn)
            agreed = sum(map(operator.eq, _values(self.family.slipped, self.constant, drawn), expected))
            misread = [_values(self.family.function, self.constant + off, drawn) for off in MISREAD_BY]
            varied = len(set(map(repr, drawn))) == TESTS and len(set(map(repr, expected))) > 1
            if varied and (agreed or tells) and agreed < TESTS and expected not in misread:
                return tuple(
                    f"assert {self.name}({', '.join(map(repr, arguments))}) == {value!r}"
                    for arguments, value in zip(drawn, expected, strict=True)
                )
        raise ValueError(f"{self.prompt} No inputs tell its usual errors from its solution")

    def program(self, lines: Sequence[str], constant: int | None = None) -> str:
        """The function with these lines as its body."""
        body = "".join(f"    {self._filled(line, constant)}\n" for line in lines)
        return f"def {self.name}({self.family.arguments}):\n{body}"

    def guessed(self, rng: random.Random) -> "Problem":
        """The problem as one takes it who was not told its constant; itself where the prompt has it."""
        return self if self.family.tells is None else replace(self, constant=rng.choice(CONSTANTS))

    row = code_row

    def _filled(self, text: str, constant: int | None = None) -> str:
        return text.replace("{k}", str(self.constant if constant is None else constant))


def all_problems(families: Sequence[Family] = FAMILIES) -> list[Problem]:
    """Every (family, constant, name)."""
    return [Problem(family, constant, name) for family in families for constant in CONSTANTS for name in NAMES]


def respond(program: str) -> str:
    """A program as a response: one fenced block and nothing else."""
    return f"{OPEN}\n{program}{CLOSE}\n"


def extract_program(response: str) -> str | None:
    """The program of a response that is one fenced block at its end (the format reward's rule), else None."""
    return extract_code(response) if code_format_score(response) > 0 else None


def worked_example(problem: Problem, rng: random.Random, shares: Shares = USUAL) -> str:
    """A response to imitate, of a kind drawn with the shares of the problem's level."""
    of_kind = shares[problem.level]
    kind = rng.choices(KINDS, [of_kind[kind] for kind in KINDS])[0]
    return respond(erring_program(problem, kind, rng))


def erring_program(problem: Problem, kind: str, rng: random.Random) -> str:
    """The reference solution (kind "right") or a program that errs in this way. Raises KeyError for another kind."""
    return _WRITERS[kind](problem, rng)


def split_problems(
    rng: random.Random, *, examples: int, train: int, heldout: int, shares: Shares = USUAL,
    families: Sequence[Family] = FAMILIES,
) -> Split[Problem]:  # fmt: skip
    """Family-balanced train and held-out sets and examples of all problems that are not held out; counts are totals.

    Problems that differ in a secret constant share their prompt: of each family whole names are held out.
    Raises ValueError if there are fewer problems than asked for.
    """
    by_family = {family.name: [Problem(family, k, name) for k in CONSTANTS for name in NAMES] for family in families}
    for problems in by_family.values():
        rng.shuffle(problems)
        if problems[0].family.tells is not None:
            names = rng.sample(NAMES, len(NAMES))
            problems.sort(key=lambda problem: names.index(problem.name))
    measured = _in_turns(by_family, heldout)
    reinforced = _in_turns(by_family, train)
    rest = [problem for problems in by_family.values() for problem in problems]
    rng.shuffle(measured)
    rng.shuffle(reinforced)
    # Last, so that their number and quality leave the other two sets as they are.
    taught = [(problem, worked_example(problem, rng, shares)) for problem in rng.choices(reinforced + rest, k=examples)]
    return Split(taught, reinforced, measured)


def _in_turns(by_family: dict[str, list[Problem]], count: int) -> list[Problem]:
    """Problems taken from the families by turns."""
    if count > sum(map(len, by_family.values())):
        raise ValueError(f"there are only {len(by_family) * len(CONSTANTS) * len(NAMES)} problems, more were asked")
    taken: list[Problem] = []
    while len(taken) < count:
        for problems in by_family.values():
            if problems and len(taken) < count:
                taken.append(problems.pop())
    return taken


def _values(function: Function, constant: int, drawn: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [function(constant, *arguments) for arguments in drawn]


def _misread(problem: Problem, rng: random.Random) -> str:
    return problem.program(problem.family.lines, problem.constant + rng.choice(MISREAD_BY))


def _failing(problem: Problem, rng: random.Random) -> str:
    head, line, body = problem.solution.partition("\n")
    arguments = rng.choice(("", "y"))  # neither fits: the call or the body fails
    return head.replace(f"({problem.family.arguments})", f"({arguments})") + line + body


def _unreadable(problem: Problem, rng: random.Random) -> str:
    head, line, body = problem.solution.partition("\n")
    way = rng.choice(("colon", "indent", "bracket"))
    if way == "colon":
        return head.removesuffix(":") + line + body
    if way == "indent":
        return head + line + "".join(each.removeprefix("    ") for each in body.splitlines(keepends=True))
    *lines, last = body.splitlines(keepends=True)
    return head + line + "".join(lines) + last.replace("return ", "return (")


_WRITERS: dict[str, Callable[[Problem, random.Random], str]] = {
    "right": lambda problem, rng: problem.solution,
    "slip": lambda problem, rng: problem.slip,
    "misread": _misread,
    "runtime": _failing,
    "syntax": _unreadable,
}
