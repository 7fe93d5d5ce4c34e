"""Graded pictures: the generated visual task on which a tiny vision-language model can be trained within minutes.

Covers: problems of four levels, their pictures, worked examples of varying quality, and a split whose held-out pictures
occur nowhere in training. Does not cover: rewards for a run (rewards/), models (examples/tiny/vision_model.py).

    L1  count dots    L2  count those of one colour    L3  how many more of one colour    L4  read a bar of a chart

A picture is drawn from its key, which holds all that it shows; data sets hold it as a PNG. Which side of the split a
picture is on is a hash of what it shows. As in the other tiny tasks the worked examples err.
"""

import io
import random
from dataclasses import dataclass
from functools import partial

from algorithms.keys import derive_seed
from examples.tiny.problems.arithmetic import misread, stated
from examples.tiny.problems.drawn_pictures import SIDE, TALLEST, draw

LEVELS = (1, 2, 3, 4)
NAMES = {"r": "red", "b": "blue"}
HELDOUT_SHARE = 0.1

STYLES = {"quick": 0.3, "steps": 0.4, "checked": 0.3}
"""How often a worked example thinks in each style."""
ERROR_RATE = {1: 0.35, 2: 0.45, 3: 0.55, 4: 0.45}
"""Error rate of a worked example by level."""
QUICK_PENALTY, CHECK_PENALTY = 1.5, 0.25
"""Answering without steps errs more often, looking twice less."""

WHOLE_WORDS = ("<think>", "</think>", "\\boxed{")
IMAGE = "<image>"


@dataclass(frozen=True)
class Problem:
    """A question about a picture."""

    level: int
    shown: str
    """What the picture shows: nine cells of r, b or '.', or three digits for the heights of bars."""
    look: int
    """Seed of what does not matter: where in its cell a dot is, how large it is, its shade."""
    asked: str
    """r or b; for a chart the bar; for level 1 nothing."""

    @property
    def prompt(self) -> str:
        """The question, the picture's place marked."""
        if self.level == 1:
            text = "How many dots?"
        elif self.level == 2:
            text = f"How many {NAMES[self.asked]} dots?"
        elif self.level == 3:
            text = f"How many more {NAMES[self.asked]} dots than {NAMES[_other(self.asked)]} ones?"
        else:
            text = f"How tall is bar {self.asked}?"
        return f"{IMAGE}{text}"

    @property
    def picture(self) -> bytes:
        """The picture as a PNG file."""
        written = io.BytesIO()
        draw(f"{self.shown}-{self.look}").save(written, "PNG")
        return written.getvalue()

    @property
    def seen(self) -> tuple[str, list[int]]:
        """What a thought looks at, and the numbers it should see there."""
        if self.level == 4:
            return f"bar{self.asked}", [int(self.shown[int(self.asked) - 1])]
        if self.level == 1:
            return "dots", [SIDE**2 - self.shown.count(".")]
        if self.level == 2:
            return NAMES[self.asked], [self.shown.count(self.asked)]
        other = _other(self.asked)
        return f"{NAMES[self.asked]}-{NAMES[other]}", [self.shown.count(self.asked), self.shown.count(other)]

    @property
    def answer(self) -> int:
        return self.combine(self.seen[1])

    def combine(self, numbers: list[int]) -> int:
        """The answer that follows from what was seen."""
        return numbers[0] - numbers[1] if self.level == 3 else numbers[0]

    def row(self) -> dict[str, object]:
        """The problem as a row of train.parquet or heldout.parquet, without an id."""
        return {"prompt": self.prompt, "images": [self.picture], "answer": str(self.answer), "level": self.level}


@dataclass(frozen=True)
class Split:
    """`train` to reinforce on, `heldout` to measure on; worked examples are drawn apart (`taught`)."""

    train: list[Problem]
    heldout: list[Problem]


def sample_problem(rng: random.Random, level: int, heldout: bool) -> Problem:
    """A problem of the given level whose picture is on the given side of the split."""
    while True:
        asked = ""
        if level == 4:
            shown = "".join(str(rng.randint(1, TALLEST)) for _ in range(SIDE))
            asked = str(rng.randint(1, SIDE))
        elif level == 1:
            shown = _dots(rng, {rng.choice("rb"): rng.randint(1, SIDE**2)})
        else:
            asked = rng.choice("rb")
            counts = sorted(rng.randint(1, 4) for _ in range(2))
            own, other = counts[::-1] if level == 3 else rng.sample(counts, 2)
            shown = _dots(rng, {asked: own, _other(asked): other})
        if is_heldout(shown) == heldout:
            return Problem(level, shown, rng.randrange(2**31), asked)


def is_heldout(shown: str) -> bool:
    """Which side of the split a picture is on."""
    return derive_seed("heldout", shown) % 1000 < 1000 * HELDOUT_SHARE


def worked_example(problem: Problem, rng: random.Random, errs: bool = True) -> str:
    """A response `<think>…</think>\\boxed{…}` to imitate: one of three styles; where it errs, sometimes wrong or
    without a box."""
    style = rng.choices(list(STYLES), list(STYLES.values()))[0]
    rate = ERROR_RATE[problem.level] if errs else 0.0
    state = partial(stated, rng=rng) if errs else "\\boxed{{{}}}".format
    if style == "quick":
        value = misread(problem.answer, rate * QUICK_PENALTY, rng)
        return f"<think>quick:{value}</think>{state(value)}"
    subject, right = problem.seen
    looks = [[misread(number, rate / len(right), rng) for number in right]]
    if style == "checked":
        looks.append([misread(number, rate * CHECK_PENALTY / len(right), rng) for number in right])
    value = problem.combine(looks[-1])
    thought = " again:".join("-".join(map(str, numbers)) for numbers in looks)
    return f"<think>{subject}:{thought}={value}</think>{state(value)}"


def split_problems(rng: random.Random, *, train: int, heldout: int) -> Split:
    """Level-balanced sets; no picture is in both, and none of the held-out ones may be taught."""
    sides = {False: train, True: heldout}
    problems: dict[bool, list[Problem]] = {}
    for is_held, count in sides.items():
        problems[is_held] = [
            problem for level in LEVELS for problem in _distinct(rng, level, count // len(LEVELS), is_held)
        ]
        rng.shuffle(problems[is_held])
    return Split(problems[False], problems[True])


def taught(rng: random.Random, count: int, errs: bool = True) -> list[tuple[Problem, str]]:
    """Problems whose pictures are not held out, the levels by turns, with worked examples."""
    problems = [sample_problem(rng, LEVELS[number % len(LEVELS)], heldout=False) for number in range(count)]
    return [(problem, worked_example(problem, rng, errs)) for problem in problems]


def _distinct(rng: random.Random, level: int, count: int, heldout: bool) -> list[Problem]:
    problems: dict[tuple[str, str], Problem] = {}
    while len(problems) < count:
        problem = sample_problem(rng, level, heldout)
        problems.setdefault((problem.shown, problem.asked), problem)
    return list(problems.values())


def _dots(rng: random.Random, counts: dict[str, int]) -> str:
    cells = ["."] * SIDE**2
    places = iter(rng.sample(range(SIDE**2), sum(counts.values())))
    for colour, count in counts.items():
        for _ in range(count):
            cells[next(places)] = colour
    return "".join(cells)


def _other(colour: str) -> str:
    return "b" if colour == "r" else "r"
