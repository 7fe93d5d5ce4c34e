"""What running programs reveals about a code set: solutions that pass by chance, tests that anything passes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ares.config.reward import CodeConfig
from ares.config.run import DataConfig
from ares.data.check import CheckReport, check_rows
from ares.grading.trials import ACCEPTS_NOTHING, check_solutions
from sandbox import SandboxPool
from tests.ares.data.code_rows import APPS, APPS_FUNCTION, BIG, LIVE_FUNCTION, written

ROW = {"id": "a", "prompt": "Write f.", "test_cases": ["assert f(1) == 2"], "solution": "def f(x): return x + 1"}


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(num_workers=1) as pool:
        yield pool


def checked(pool: SandboxPool, path: Path, *rows: dict[str, Any]) -> CheckReport:
    source = written(path / "rows.jsonl", *({"id": str(place)} | row for place, row in enumerate(rows)))
    found = check_rows(str(source), "train", DataConfig(train=str(source)), "tests")
    assert not found.findings
    check_solutions(found, CodeConfig(cpu_seconds=1), pool, lambda done, total: None)
    return found


NOTHING: dict[str, dict[str, Any]] = {
    "none": {"test_cases": ["assert f(1) is None"]},
    "caught": {"test_cases": ["try:\n    assert f(1) == 2\nexcept AssertionError:\n    pass"]},
    "check": {"test_cases": "def check(candidate):\n    assert not candidate(1)", "entry_point": "f"},
    "script": {"test_cases": [], "stdin_tests": [["1\n", "\n"]], "solution": "print()"},
    "call": {"test_cases": json.dumps({"fn_name": "f", "inputs": [[1]], "outputs": [None]})},
    "unittest": {"test_cases": "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        f(1)\n"
                 "        self.assertTrue(True)  # asserts"},
}  # fmt: skip
FAIR: dict[str, dict[str, Any]] = {
    "own": ROW, "apps": APPS, "apps-function": APPS_FUNCTION, "livecodebench": LIVE_FUNCTION, "bigcodebench": BIG
}  # fmt: skip


@pytest.mark.parametrize("name", NOTHING)
def test_tests_that_accept_a_program_that_does_nothing_are_found(name: str, pool: SandboxPool, tmp_path: Path) -> None:
    found = checked(pool, tmp_path, ROW | {"id": "good"}, ROW | {"id": "bad", "solution": None} | NOTHING[name])
    assert [(each.row, each.id, each.what) for each in found.findings] == [(2, "bad", ACCEPTS_NOTHING)]
    assert not found.good


def test_a_solution_slower_than_its_row_allows_is_slow_and_not_wrong(pool: SandboxPool, tmp_path: Path) -> None:
    slow = "def f(x):\n    sum(range(20000000))\n    return x + 1"
    limited = ROW | {"id": "b", "solution": slow, "time_limit": 0.05}
    found = checked(pool, tmp_path, ROW | {"time_limit": 0.05}, limited)
    counts = found.counts()
    assert (found.failures, counts["solutions accepted"]) == ([], 2)
    assert counts["solutions slower than training allows"] == "1: b"


@pytest.mark.parametrize("name", FAIR)
def test_tests_of_published_rows_tell_nothing_from_something(name: str, pool: SandboxPool, tmp_path: Path) -> None:
    found = checked(pool, tmp_path, FAIR[name])
    assert found.good


def test_a_solution_that_only_sometimes_passes_is_flaky(pool: SandboxPool, tmp_path: Path) -> None:
    """Seeds are fixed in the sandbox, the clock is not: three runs rarely agree on its microseconds."""
    chance = "import time\ndef f(x): return 2 if time.time_ns() // 1000 % 2 else 3"
    rows = [ROW | {"id": str(place), "solution": chance} for place in range(12)]
    found = checked(pool, tmp_path, ROW | {"id": "steady"}, *rows)
    flaky = [each for each in found.failures if each.detail[:14] in ("in 1 of 3 runs", "in 2 of 3 runs")]
    assert flaky
    assert {each.what for each in flaky} == {"wrong_answer"}
    assert found.counts()["solutions accepted"] == 13 - len(found.failures) >= 1
    assert not found.good
