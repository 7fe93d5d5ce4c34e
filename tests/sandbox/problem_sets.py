"""HumanEval and MBPP as programs, where the data lie beside the repository."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from sandbox import Program

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        pytest.skip(f"no data at {path}")
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as file:
        return [json.loads(line) for line in file]


def humaneval() -> list[Program]:
    """The 164 canonical solutions; the prompt's helpers come from the prompt."""
    return [
        Program(
            source=row["prompt"] + row["canonical_solution"],
            tests=[row["test"]],
            setup=row["prompt"],
            entry_point=row["entry_point"],
            cpu_seconds=10,
        )
        for row in _lines(DATA / "humaneval" / "HumanEval.jsonl.gz")
    ]


def mbpp() -> list[Program]:
    """The 974 canonical solutions."""
    return [
        Program(source=row["code"], tests=row["test_list"], setup=row["test_setup_code"], cpu_seconds=10)
        for row in _lines(DATA / "mbpp" / "mbpp.jsonl")
    ]
