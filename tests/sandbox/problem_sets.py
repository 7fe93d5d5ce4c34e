"""HumanEval and MBPP as programs, if ARES_TEST_DATA says where they are (tests/README.md)."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from sandbox import Program

VARIABLE = "ARES_TEST_DATA"


def lines(name: str) -> list[dict[str, Any]]:
    folder = os.environ.get(VARIABLE)
    if folder is None:
        pytest.skip(f"{VARIABLE} is not set: a folder with {name}; tests/README.md says where to get it")
    path = Path(folder) / name
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
        for row in lines("humaneval/HumanEval.jsonl.gz")
    ]


def mbpp() -> list[Program]:
    """The 974 canonical solutions."""
    return [
        Program(source=row["code"], tests=row["test_list"], setup=row["test_setup_code"], cpu_seconds=10)
        for row in lines("mbpp/mbpp.jsonl")
    ]
