"""Reference solutions are judged first: a set whose own solutions fail scores no model."""

import json
from pathlib import Path

import pytest

from ares.config.profiles import load
from ares.data import DataError, Problems, load_held_out, load_tokenizer
from ares.grading import load_grader
from ares.grading.references import check_references

RIGHT = {"prompt": "Write f.", "test_cases": ["assert f(1) == 2"], "solution": "def f(x): return x + 1"}
WRONG = {**RIGHT, "solution": "def f(x): return x"}


def judged(
    tmp_path: Path, rows: dict[str, dict[str, object]], known_failures: tuple[str, ...] = ()
) -> dict[str, int | list[str]]:
    path = tmp_path / "set.jsonl"
    path.write_text("\n".join(json.dumps({"id": name, **row}) for name, row in rows.items()))
    config = load("tiny-code", [f"data.validation={path}", "reward.code.workers=1"])
    problems: Problems
    (problems,) = load_held_out(config.data, load_tokenizer(config.model.path), "tests", None).values()
    grader = load_grader(config.reward)
    grader.start()
    try:
        return check_references(grader, problems, known_failures)
    finally:
        grader.close()


def test_accepted_references_are_counted_and_known_failures_named(tmp_path: Path) -> None:
    rows = {"HumanEval/31": RIGHT, "HumanEval/32": WRONG, "HumanEval/33": {**RIGHT, "solution": None}}
    summary = judged(tmp_path, rows, ("HumanEval/32",))
    assert summary == {
        "solutions": 2,
        "accepted": 1,
        "known_failures": ["HumanEval/32"],
    }


def test_references_that_fail_are_named_with_their_reason(tmp_path: Path) -> None:
    slow = {**RIGHT, "solution": "def f(x):\n    while True: pass"}
    with pytest.raises(DataError, match=r"2 of 3 .* no model is scored: b \(wrong_answer\), c \(timeout\)\. Why"):
        judged(tmp_path, {"a": RIGHT, "b": WRONG, "c": slow})


def test_a_set_without_references_is_no_sanity(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no row has one"):
        judged(tmp_path, {"a": {**RIGHT, "solution": None}})
