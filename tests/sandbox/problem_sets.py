"""HumanEval and MBPP as programs (tests/data_sets.py says where they are)."""

import gzip
import json
from typing import Any

from sandbox import Program
from tests.data_sets import data_set


def lines(name: str) -> list[dict[str, Any]]:
    path = data_set(name)
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
