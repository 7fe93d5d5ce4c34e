"""What the generated tasks share: sets of problems that do not overlap, rows of data sets, responses, tests.

A task is a class of problems, a function that draws problems from a seed into a Split, and a function that writes
worked examples, of which many err: a model that imitates them errs as often, and what reinforcement then adds is a
choice among habits the model already has. Same seed, same problems, same examples. Not covered: the tasks (chains.py,
programs.py, skills.py, one_liners.py, pictures.py), what is done with them (tasks.py).
"""

import json
import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

P = TypeVar("P")
TESTS = 6
DRAWS = 2000
"""Sets of inputs that are tried for the tests of a program."""
UNBOXED_RATE = 0.08
"""Worked examples that forget the box, and are therefore wrong whatever their number is."""
THOUGHT = ("<think>", "</think>", "\\boxed{")
"""Whole words of a response that thinks and boxes its answer."""
FENCES = ("```python", "```")
"""Whole words of a response that is a program."""


@dataclass(frozen=True)
class Split(Generic[P]):
    """`examples` (problem, response) to imitate, `train` to reinforce on, `heldout` to measure on."""

    examples: list[tuple[P, str]]
    train: list[P]
    heldout: list[P]


def draw_distinct(
    draw: Callable[[], P], count: int, key: Callable[[P], Hashable], allowed: Callable[[P], bool] = lambda _: True
) -> list[P]:
    """The first `count` allowed problems with different keys. Raises ValueError if there are not enough of them."""
    chosen: dict[Hashable, P] = {}
    for _ in range(1000 * count):
        if len(chosen) == count:
            break
        problem = draw()
        if allowed(problem):
            chosen.setdefault(key(problem), problem)
    if len(chosen) < count:
        raise ValueError(f"there are only about {len(chosen)} different problems of this kind, {count} were asked for")
    return list(chosen.values())


def draw_balanced(
    draw: Callable[[int], P],
    levels: Sequence[int],
    count: int,
    key: Callable[[P], Hashable],
    allowed: Callable[[P], bool] = lambda _: True,
) -> list[P]:
    """As many of each level, `count` in all, with different keys. Raises ValueError if a level has not enough."""
    return [
        problem
        for level in levels
        for problem in draw_distinct(partial(draw, level), count // len(levels), key, allowed)
    ]


def draw_asserts(
    rng: random.Random,
    name: str,
    draw: Callable[[], tuple[Any, ...]],
    function: Callable[..., Any],
    telling: Callable[[list[tuple[Any, ...]], list[Any]], bool],
    last: tuple[Any, ...] | None = None,
) -> tuple[str, ...]:
    """Asserts of what `function` gives for TESTS different tuples of arguments, the first set that tells errors apart.

    telling: whether arguments and their values tell the usual errors from the solution; last: the last test's
    arguments. Raises ValueError if no set of arguments does.
    """
    for _ in range(DRAWS):
        drawn = [draw() for _ in range(TESTS)]
        drawn[-1] = drawn[-1] if last is None else last
        values = [function(*arguments) for arguments in drawn]
        if len(set(map(repr, drawn))) == TESTS and telling(drawn, values):
            pairs = zip(drawn, values, strict=True)
            return tuple(f"assert {name}({', '.join(map(repr, given))}) == {value!r}" for given, value in pairs)
    raise ValueError(f"{name}: no arguments tell its usual errors from its solution")


def misread(value: int, rate: float, rng: random.Random) -> int:
    """The value, or at the given rate a near miss that is not negative."""
    if rng.random() >= rate:
        return value
    return rng.choice([near for near in (value - 2, value - 1, value + 1, value + 2) if near >= 0])


def box(value: int, rng: random.Random) -> str:
    """The end of a response: the boxed value, sometimes without the box."""
    if rng.random() >= UNBOXED_RATE:
        return f"\\boxed{{{value}}}"
    return rng.choice([f"{value}", f"answer {value}"])


def answer_row(problem: Any) -> dict[str, object]:
    """A problem with an answer as a row of a data set, without an id."""
    return {"prompt": problem.prompt, "answer": str(problem.answer), "level": problem.level}


def program_row(problem: Any) -> dict[str, object]:
    """A problem with tests as a row of a data set, without an id."""
    return {
        "prompt": problem.prompt,
        "test_cases": list(problem.test_cases),
        "solution": problem.solution,
        "level": problem.level,
        "family": problem.family.name,
    }


def rows(name: str, problems: Sequence[Any]) -> list[dict[str, object]]:
    """Rows of a data set, each with an id made of the name and its number."""
    return [{"id": f"{name}-{number:04d}"} | problem.row() for number, problem in enumerate(problems)]


def write_problems(path: Path, name: str, problems: Sequence[Any]) -> None:
    """Problems as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(name, problems)), encoding="utf-8")
