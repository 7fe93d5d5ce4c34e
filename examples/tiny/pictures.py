"""Graded pictures (tiny-vision): questions about nine cells with dots, or a chart of three bars.

    L1  count dots    L2  count those of one colour    L3  how many more of one colour    L4  read a bar of a chart

A picture is drawn from what it shows and from a seed of what does not matter; data sets hold it as a PNG. Which side of
the split it is on is a hash of what it shows. Worked examples think in one of three styles, and err. Not covered: the
model (models.py).
"""

import io
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from algorithms.keys import derive_seed
from examples.tiny.problems import Split, answer_row, box, draw_balanced, misread, rows

SIDE, CELL = 3, 8
"""Cells a side, pixels a cell: a picture has 24 × 24 pixels."""
COLOURS = {"r": (214, 48, 40), "b": (40, 84, 214)}
NAMES = {"r": "red", "b": "blue"}
OTHER = {"r": "b", "b": "r"}
BAR = (52, 130, 76)
TALLEST = 2 * SIDE
"""Heights of a chart's bars are half cells."""
LEVELS = (1, 2, 3, 4)
HELDOUT_SHARE = 0.1

STYLES = {"quick": 0.3, "steps": 0.4, "checked": 0.3}
"""How often a worked example thinks in each style."""
ERROR_RATE = {1: 0.35, 2: 0.45, 3: 0.55, 4: 0.45}
"""Error rate of a worked example by level."""
QUICK_PENALTY, CHECK_PENALTY = 1.5, 0.25
"""Answering without steps errs more often, looking twice less."""
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
            return f"{IMAGE}How many dots?"
        if self.level == 2:
            return f"{IMAGE}How many {NAMES[self.asked]} dots?"
        if self.level == 3:
            return f"{IMAGE}How many more {NAMES[self.asked]} dots than {NAMES[OTHER[self.asked]]} ones?"
        return f"{IMAGE}How tall is bar {self.asked}?"

    @property
    def picture(self) -> bytes:
        """The picture as a PNG file."""
        written = io.BytesIO()
        draw_picture(self.shown, self.look).save(written, "PNG")
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
        other = OTHER[self.asked]
        return f"{NAMES[self.asked]}-{NAMES[other]}", [self.shown.count(self.asked), self.shown.count(other)]

    @property
    def answer(self) -> int:
        return self.combine(self.seen[1])

    def combine(self, numbers: list[int]) -> int:
        """The answer that follows from what was seen."""
        return numbers[0] - numbers[1] if self.level == 3 else numbers[0]

    def row(self) -> dict[str, object]:
        """The problem as a row of a data set, without an id."""
        row = answer_row(self)
        return {"prompt": row.pop("prompt"), "images": [self.picture]} | row


def draw_picture(shown: str, look: int) -> Image.Image:
    """The RGB picture of a problem."""
    rng = np.random.default_rng(look)
    size = SIDE * CELL
    canvas = np.full((size, size, 3), 244 + rng.integers(-8, 9), dtype=np.int64)
    for place, sign in enumerate(shown):
        shade = rng.integers(-24, 25, 3)
        if sign.isdigit():
            left, top = place * CELL + 2, size - int(sign) * CELL // 2
            canvas[top:, left : left + CELL - 3] = np.array(BAR) + shade
            continue
        height, width = rng.integers(4, 7, 2)
        down, right = rng.integers(0, CELL + 1 - height), rng.integers(0, CELL + 1 - width)
        if sign != ".":
            row, column = (place // SIDE) * CELL + down, (place % SIDE) * CELL + right
            canvas[row : row + height, column : column + width] = np.array(COLOURS[sign]) + shade
    return Image.fromarray(canvas.clip(0, 255).astype(np.uint8))


def draw_problem(rng: random.Random, level: int, heldout: bool) -> Problem:
    """A problem of a level (1 to 4) whose picture is on the given side of the split."""
    while True:
        asked = ""
        if level == 4:
            shown = "".join(str(rng.randint(1, TALLEST)) for _ in range(SIDE))
            asked = str(rng.randint(1, SIDE))
        elif level == 1:
            shown = _scatter(rng, {rng.choice("rb"): rng.randint(1, SIDE**2)})
        else:
            asked = rng.choice("rb")
            counts = sorted(rng.randint(1, 4) for _ in range(2))
            own, other = counts[::-1] if level == 3 else rng.sample(counts, 2)
            shown = _scatter(rng, {asked: own, OTHER[asked]: other})
        if is_heldout(shown) == heldout:
            return Problem(level, shown, rng.randrange(2**31), asked)


def is_heldout(shown: str) -> bool:
    """Which side of the split a picture is on."""
    return derive_seed("heldout", shown) % 1000 < 1000 * HELDOUT_SHARE


def write_example(problem: Problem, rng: random.Random, errs: bool = True) -> str:
    """A response to imitate; where it errs, sometimes wrong or without a box."""
    style = rng.choices(list(STYLES), list(STYLES.values()))[0]
    rate = ERROR_RATE[problem.level] if errs else 0.0
    state: Callable[[int], str] = (lambda value: box(value, rng)) if errs else "\\boxed{{{}}}".format
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


def split_pictures(rng: random.Random, train: int = 1000, heldout: int = 160) -> Split[Problem]:
    """Level-balanced sets; no picture is in both, and none of the held-out ones is taught. Examples are drawn apart."""
    sets: list[list[Problem]] = []
    for is_held, count in ((False, train), (True, heldout)):
        draw = partial(draw_problem, rng, heldout=is_held)
        chosen = draw_balanced(draw, LEVELS, count, lambda problem: (problem.shown, problem.asked))
        rng.shuffle(chosen)
        sets.append(chosen)
    return Split([], *sets)


def draw_examples(rng: random.Random, count: int, errs: bool = True) -> list[tuple[Problem, str]]:
    """Problems whose pictures are not held out, the levels by turns, with worked examples."""
    problems = [draw_problem(rng, LEVELS[number % len(LEVELS)], heldout=False) for number in range(count)]
    return [(problem, write_example(problem, rng, errs)) for problem in problems]


def write_pictures(path: Path, name: str, problems: list[Problem]) -> None:
    """Problems as parquet, whose rows can hold the bytes of images."""
    pd.DataFrame(rows(name, problems)).to_parquet(path, index=False)


def _scatter(rng: random.Random, counts: dict[str, int]) -> str:
    """Cells with so many dots of each colour."""
    cells = ["."] * SIDE**2
    places = iter(rng.sample(range(SIDE**2), sum(counts.values())))
    for colour, count in counts.items():
        for _ in range(count):
            cells[next(places)] = colour
    return "".join(cells)
