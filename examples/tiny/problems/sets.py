"""What generated tasks share: a split of problems into sets, and a problem as a row of a file.

Not covered: the problems themselves (arithmetic.py, reasoning.py, programs.py, skills.py, one_liners.py,
pictures.py).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import pandas as pd

P = TypeVar("P")


@dataclass(frozen=True)
class Split(Generic[P]):
    """`examples` (problem, response) to imitate, `train` to reinforce on, `heldout` to measure on."""

    examples: list[tuple[P, str]]
    train: list[P]
    heldout: list[P]


class _Problem(Protocol):
    @property
    def prompt(self) -> str: ...
    @property
    def level(self) -> int: ...


class _Math(_Problem, Protocol):
    @property
    def answer(self) -> int: ...


class _Family(Protocol):
    @property
    def name(self) -> str: ...


class _Code(_Problem, Protocol):
    @property
    def test_cases(self) -> tuple[str, ...]: ...
    @property
    def solution(self) -> str: ...
    @property
    def family(self) -> _Family: ...


class _HasRow(Protocol):
    def row(self) -> dict[str, object]: ...


def write_problems(path: Path, name: str, problems: Sequence[_HasRow]) -> None:
    """Problems as JSON lines, each with an id made of the name and its number."""
    rows = ({"id": f"{name}-{number:04d}"} | problem.row() for number, problem in enumerate(problems))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_pictures(path: Path, name: str, problems: Sequence[_HasRow]) -> None:
    """The same as parquet, whose rows can hold the bytes of images."""
    rows = [{"id": f"{name}-{number:04d}"} | problem.row() for number, problem in enumerate(problems)]
    pd.DataFrame(rows).to_parquet(path, index=False)


def math_row(problem: _Math) -> dict[str, object]:
    """The problem as a row of train.jsonl or heldout.jsonl, without an id."""
    return {"prompt": problem.prompt, "answer": str(problem.answer), "level": problem.level}


def code_row(problem: _Code) -> dict[str, object]:
    """The problem as a row of train.jsonl or heldout.jsonl, without an id."""
    return {
        "prompt": problem.prompt,
        "test_cases": list(problem.test_cases),
        "solution": problem.solution,
        "level": problem.level,
        "family": problem.family.name,
    }
