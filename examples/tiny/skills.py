"""Functions of four parts (tiny-code-skills): each test asks for one skill, so that a partial pass is one.

    Write calc(x) that limits x to at most 5, tells whether x is at least 3, …

A problem asks for four of the families of one number, each with a constant of its own; the parts of a worked example
err independently. How many are right at the start is asked for: worked examples have all four parts right in .07, those
whose prompt begins with "With care. " in .5 and with "In haste. " in .005 (data.format_prompt puts that before a
problem). Not covered: the families (families.py), judging (sandbox/).
"""

import random
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from algorithms.keys import derive_seed
from examples.tiny.families import FAMILIES, Family
from examples.tiny.problems import FENCES, Split, draw_distinct, program_row
from examples.tiny.programs import CONSTANTS, NAMES, respond

SKILLS = tuple(family for family in FAMILIES if family.arguments == "x")
PARTS = 4
WHOLE_WORDS = (*FENCES, *(f" {constant}" for constant in CONSTANTS))
"""A constant is one token in prompt and answer alike: it is to be copied."""
RIGHT = {
    "With care. ": (0.95, 0.90, 0.85, 0.80, 0.75),
    "": (0.80, 0.65, 0.50, 0.40, 0.35),
    "In haste. ": (0.55, 0.40, 0.25, 0.20, 0.12),
}
"""What a prompt begins with, and how often a worked example has each of the skills right then; else it slips."""


@dataclass(frozen=True)
class Problem:
    """One prompt. Everything about it, the tests too, follows from these."""

    parts: tuple[tuple[Family, int], ...]
    """Skills in the order of SKILLS, each with its constant."""
    name: str
    begins: str = ""
    """One of RIGHT."""
    level: int = 1

    @property
    def family(self) -> Family:
        """The skill that is not asked for."""
        asked = [skill for skill, _ in self.parts]
        return next(skill for skill in SKILLS if skill not in asked)

    @property
    def prompt(self) -> str:
        wanted = [skill.description.replace("{k}", str(constant)) for skill, constant in self.parts]
        return f"{self.begins}Write {self.name}(x) that {', '.join(wanted)}."

    @property
    def solution(self) -> str:
        """The reference program."""
        return self.program()

    @cached_property
    def test_cases(self) -> tuple[str, ...]:
        """Of each part an assert that its slip fails; no other part has a say in it."""
        rng = random.Random(derive_seed("skill tests", self.prompt.removeprefix(self.begins)))
        tests = []
        for place, (skill, constant) in enumerate(self.parts):
            x = _draw_telling(rng, skill, constant)
            tests.append(f"assert {self.name}({x})[{place}] == {skill.function(constant, x)!r}")
        return tuple(tests)

    def program(self, slips: Collection[Family] = ()) -> str:
        """The function; of the skills in `slips` it has the family's slip."""
        lines = [(skill.slipped_lines if skill in slips else skill.lines, constant) for skill, constant in self.parts]
        values = [line.removeprefix("return ").replace("{k}", str(constant)) for (line,), constant in lines]
        return f"def {self.name}(x):\n    return [{', '.join(values)}]\n"

    row = program_row


def write_example(problem: Problem, rng: random.Random) -> str:
    """A response to imitate, each of whose parts is right as often as RIGHT says."""
    shares = zip(SKILLS, RIGHT[problem.begins], strict=True)
    return respond(problem.program([skill for skill, right in shares if rng.random() >= right]))


def split_skills(rng: random.Random, examples: int, train: int = 480, heldout: int = 128) -> Split[Problem]:
    """Different problems to train and to measure on, and worked examples, of every beginning, of all that are not held
    out."""
    problems = draw_distinct(lambda: _draw(rng, ""), heldout + train, lambda problem: problem.prompt)
    measured = {problem.prompt for problem in problems[:heldout]}
    taught: list[tuple[Problem, str]] = []
    while len(taught) < examples:
        problem = _draw(rng, rng.choice(list(RIGHT)))
        if problem.prompt.removeprefix(problem.begins) not in measured:
            taught.append((problem, write_example(problem, rng)))
    return Split(taught, problems[heldout:], problems[:heldout])


def _draw(rng: random.Random, begins: str) -> Problem:
    left_out = rng.choice(SKILLS)
    parts = tuple((skill, rng.choice(CONSTANTS)) for skill in SKILLS if skill is not left_out)
    return Problem(parts, rng.choice(NAMES), begins)


def _draw_telling(rng: random.Random, skill: Family, constant: int) -> int:
    """An argument at which the slip is wrong."""
    while True:
        (x,) = skill.inputs(rng, constant)
        if skill.slipped(constant, x) != skill.function(constant, x):
            return int(x)
