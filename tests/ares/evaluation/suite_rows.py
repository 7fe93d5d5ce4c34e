"""A row or two in the format of each suite's files, written by hand, and folders that hold them."""

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd

_HEAD = 'def add(a, b):\n    """Sum of two numbers.\n    >>> add(1, 2)\n    3\n    """\n'
_PLUS = "def check(candidate):\n    for i, (inp, exp) in enumerate(zip([[1, 2], [-1, -2]], [3, -3])):\n        assert "
HUMANEVAL = {
    "task_id": "HumanEval/0", "prompt": _HEAD, "canonical_solution": "    return a + b\n", "entry_point": "add",
    "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
}  # fmt: skip
HUMANEVAL_PLUS = HUMANEVAL | {"test": f"{_PLUS}candidate(*inp) == exp\n"}
MBPP = {
    "task_id": 11, "text": "Write a function add of two numbers.", "code": "def add(a, b):\n    return a + b",
    "test_list": ["assert add(1, 2) == 3", "assert add(2, 2) == 4"], "test_setup_code": "", "challenge_test_list": [],
}  # fmt: skip
MBPP_PLUS = {
    "task_id": 2, "code": "def add(a, b):\n    return a + b", "prompt": "Write a function add of two numbers.",
    "source_file": "x", "test_imports": [], "test_list": ["assert add(1, 2) == 3"],
    "test": "for inp, exp in zip([[1, 2], [-1, -2]], [3, -3]):\n    assert add(*inp) == exp\n",
}  # fmt: skip
APPS = {
    "problem_id": 7, "question": "Print the sum of two numbers.", "starter_code": "", "difficulty": "introductory",
    "solutions": json.dumps(["print(sum(map(int, input().split())))"]),
    "input_output": json.dumps({"inputs": ["1 2\n"], "outputs": ["3\n"]}),
}  # fmt: skip


def jsonl(path: Path, *rows: dict[str, Any]) -> Path:
    """A file of JSON lines, compressed if its name ends with .gz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def parquet(path: Path, *rows: dict[str, Any]) -> Path:
    """A parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_parquet(path)
    return path
