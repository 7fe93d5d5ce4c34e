"""HumanEval and MBPP: other people's texts, read from the folder that ARES_TEST_DATA names (tests/README.md)."""

import os
from pathlib import Path

import pytest

WHERE = {
    "humaneval/HumanEval.jsonl.gz": "https://github.com/openai/human-eval (data/HumanEval.jsonl.gz)",
    "mbpp/mbpp.jsonl": "https://github.com/google-research/google-research (mbpp/mbpp.jsonl)",
}


def data_set(file: str) -> Path:
    """Path of one of the files of WHERE; if it is missing the test is skipped, with how to get it."""
    folder = os.environ.get("ARES_TEST_DATA")
    path = Path(folder or ".", file)
    if not folder or not path.exists():
        here = f"not in ARES_TEST_DATA={folder}" if folder else "ARES_TEST_DATA is not set"
        pytest.skip(f"{file}: {here}; put it there from {WHERE[file]}")
    return path
