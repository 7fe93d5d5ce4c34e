"""Small functions: the generated coding tasks tiny-code, -hard, -feedback and -secret.

    Write calc(s) that keeps the items of s that are at most 3.

A problem is a family, a constant and a name, with a reference solution and six asserts. Each family has a slip (`<` for
`<=`) that passes some of its tests, and any worked example may break off, lack a colon or name its argument wrongly.
From level 2 on the slip is more frequent than the right program, so a model trained on the examples decodes it greedily
too; what reinforcement adds comes from the tests' verdicts alone.

Of families that keep their constant secret (SECRET) a first try can guess one of eight; a guess in the right place
fails at the last test only, whose text states the constant, and any other error at the first, which says nothing. For
them, worked examples of second turns begin with a program that failed and its verdict. Not covered: the families
(families.py), judging (sandbox/), second turns in a run (ares/step).
"""

import operator
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from algorithms.keys import derive_seed
from examples.tiny.families import FAMILIES, Family, Function
from examples.tiny.problems import TESTS, Split, draw_asserts, program_row
from rewards.code import execution_feedback
from sandbox import Program, SandboxPool

LEVELS = (1, 2, 3, 4)
CONSTANTS = range(2, 10)
NAMES = ("f", "g", "h", "calc", "solve", "work", "fn", "get", "do", "make", "step", "run")
MISREAD_BY = (-1, 1)

KINDS = ("right", "slip", "misread", "runtime", "syntax")
"""What a worked example can be: right, the family's slip, another constant, and programs that fail when they run or
cannot be read."""
Shares = Mapping[int, tuple[float, ...]]
"""How often a worked example of a level is of each of KINDS."""
USUAL: Shares = {
    1: (0.55, 0.20, 0.05, 0.10, 0.10),
    2: (0.34, 0.42, 0.04, 0.10, 0.10),
    3: (0.27, 0.46, 0.05, 0.11, 0.11),
    4: (0.23, 0.47, 0.06, 0.12, 0.12),
}
HARD: Shares = dict.fromkeys(LEVELS, (0.02, 0.36, 0.06, 0.27, 0.29))
"""Few right examples, for comparing rewards where most groups have no solution."""
GUESSED: Shares = dict.fromkeys(LEVELS, (0.30, 0.45, 0.0, 0.12, 0.13))
"""Of secret constants: an example with the constant in place is as good as a guess."""

Conversation = list[dict[str, str]]
SECOND_TURNS = 0.5
"""Share of the worked examples that are second turns, for tasks that have them."""
GUESSING = 0.8
"""Share of failures with a secret constant that are right except for the guess."""
VERDICTS = (
    *(f"{passed} of 6 tests passed. {end}: assert" for passed in range(6) for end in ("wrong answer", "runtime error")),
    "0 of 6 tests passed. syntax error: assert",
)
"""Texts of verdicts, for the tokenizer."""


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
        family, constant = self.family, self.constant
        rng = random.Random(derive_seed("program tests", family.name, constant, self.name))

        def values(function: Function, number: int, drawn: Sequence[tuple[Any, ...]]) -> list[Any]:
            return [function(number, *arguments) for arguments in drawn]

        def telling(drawn: list[tuple[Any, ...]], expected: list[Any]) -> bool:
            agreed = sum(map(operator.eq, values(family.slipped, constant, drawn), expected))
            misread = [values(family.function, constant + off, drawn) for off in MISREAD_BY]
            varied = len(set(map(repr, expected))) > 1
            return bool(varied and (agreed or family.tells) and agreed < TESTS and expected not in misread)

        return draw_asserts(
            rng, self.name, lambda: family.inputs(rng, constant),
            lambda *arguments: family.function(constant, *arguments), telling, family.tells,
        )  # fmt: skip

    def program(self, lines: Sequence[str], constant: int | None = None) -> str:
        """The function with these lines as its body."""
        body = "".join(f"    {self._filled(line, constant)}\n" for line in lines)
        return f"def {self.name}({self.family.arguments}):\n{body}"

    def guess(self, rng: random.Random) -> "Problem":
        """The problem as one takes it who was not told its constant; itself where the prompt has it."""
        return self if self.family.tells is None else replace(self, constant=rng.choice(CONSTANTS))

    row = program_row

    def _filled(self, text: str, constant: int | None = None) -> str:
        return text.replace("{k}", str(self.constant if constant is None else constant))


def all_problems(families: Sequence[Family] = FAMILIES) -> list[Problem]:
    """Every (family, constant, name)."""
    return [Problem(family, constant, name) for family in families for constant in CONSTANTS for name in NAMES]


def respond(program: str) -> str:
    """A program as a response: one fenced block and nothing else."""
    return f"```python\n{program}```\n"


def write_example(problem: Problem, rng: random.Random, shares: Shares = USUAL) -> str:
    """A response to imitate, of a kind drawn with the shares of the problem's level."""
    return respond(write_program(problem, rng.choices(KINDS, shares[problem.level])[0], rng))


def write_program(problem: Problem, kind: str, rng: random.Random) -> str:
    """The reference solution (kind "right") or a program that errs in this way."""
    solution = problem.solution
    head, *body = solution.splitlines(keepends=True)
    if kind == "slip":
        return problem.slip
    if kind == "misread":
        return problem.program(problem.family.lines, problem.constant + rng.choice(MISREAD_BY))
    if kind == "runtime":
        arguments = rng.choice(("", "y"))  # neither fits: the call or the body fails
        return head.replace(f"({problem.family.arguments})", f"({arguments})") + "".join(body)
    if kind == "syntax":
        way = rng.choice(("colon", "indent", "bracket"))
        if way == "colon":
            return head.removesuffix(":\n") + "\n" + "".join(body)
        if way == "indent":
            return head + "".join(line.removeprefix("    ") for line in body)
        return head + "".join(body[:-1]) + body[-1].replace("return ", "return (")
    return solution


def split_programs(
    rng: random.Random, examples: int, train: int = 660, heldout: int = 176, *, shares: Shares = USUAL,
    families: Sequence[Family] = FAMILIES,
) -> Split[Problem]:  # fmt: skip
    """Family-balanced train and held-out sets and examples of all problems that are not held out; counts are totals.

    Problems that differ in a secret constant share their prompt: of each family whole names are held out.
    Raises ValueError if there are fewer problems than asked for.
    """
    by_family = {family.name: all_problems([family]) for family in families}
    for problems in by_family.values():
        rng.shuffle(problems)
        if problems[0].family.tells is not None:
            names = rng.sample(NAMES, len(NAMES))
            problems.sort(key=lambda problem: names.index(problem.name))
    measured = _take_in_turns(by_family, heldout)
    reinforced = _take_in_turns(by_family, train)
    rest = [problem for problems in by_family.values() for problem in problems]
    rng.shuffle(measured)
    rng.shuffle(reinforced)
    # Last, so that their number and quality leave the other two sets as they are.
    taught = [(problem, write_example(problem, rng, shares)) for problem in rng.choices(reinforced + rest, k=examples)]
    return Split(taught, reinforced, measured)


def _take_in_turns(by_family: dict[str, list[Problem]], count: int) -> list[Problem]:
    """Problems taken from the families by turns."""
    if count > sum(map(len, by_family.values())):
        raise ValueError(f"there are only {len(by_family) * len(CONSTANTS) * len(NAMES)} problems, more were asked for")
    taken: list[Problem] = []
    while len(taken) < count:
        for problems in by_family.values():
            if problems and len(taken) < count:
                taken.append(problems.pop())
    return taken


def with_second_turns(
    examples: Sequence[tuple[Problem, str]], rng: random.Random, right: float
) -> list[tuple[Conversation, str]]:
    """(conversation, response) to imitate: first turns, and second turns whose first program really failed as told.

    right: share of the second turns that are right; the others err as first turns do.
    """
    continued = [rng.random() < SECOND_TURNS for _ in examples]
    first = [(problem, _fail(problem, rng)) for (problem, _), again in zip(examples, continued, strict=True) if again]
    outcomes = iter(_judge(first))
    failed = iter(first)
    conversations: list[tuple[Conversation, str]] = []
    for (problem, response), again in zip(examples, continued, strict=True):
        asked = {"role": "user", "content": problem.prompt}
        seen, (_, program) = (next(outcomes), next(failed)) if again else ([], (problem, ""))
        if all(outcome == "accepted" for outcome in seen):  # a slip that no test notices is no failure
            conversations.append(([asked], response))
            continue
        told = {"role": "user", "content": execution_feedback(problem.test_cases, seen)}
        answer = respond(problem.solution) if rng.random() < right else response
        conversations.append(([asked, {"role": "assistant", "content": respond(program)}, told], answer))
    return conversations


def _fail(problem: Problem, rng: random.Random) -> str:
    """A program that errs or, if the constant is secret, guesses it."""
    guess = problem.guess(rng)
    kind = "right" if guess is not problem and rng.random() < GUESSING else rng.choice(KINDS[1:])
    return write_program(guess, kind, rng)


def _judge(programs: Sequence[tuple[Problem, str]]) -> list[list[str]]:
    """Verdicts of the tests of every program; equal programs are judged once. Raises RuntimeError if it fails."""
    jobs = [Program(source=source, tests=problem.test_cases) for problem, source in programs]
    distinct = list(dict.fromkeys(jobs))
    with SandboxPool(1) as pool:
        judged = dict(zip(distinct, pool.run(distinct), strict=True))
    for program, verdict in judged.items():
        if verdict.pass_ratio is None:
            raise RuntimeError(f"the sandbox failed on {program.source!r}: {verdict.tests[0].detail}")
    return [[test.verdict for test in judged[job].tests] for job in jobs]
