"""Honest programs get the verdicts that plain Python gives them: source, setup and test one after the other."""

import math
from pathlib import Path

import pytest

from sandbox import Program, SandboxPool
from sandbox.lanes import problem
from sandbox.rule import FUNCTIONS
from sandbox.worker.values import Reader, Shared, Writer
from tests.sandbox.idioms import CALLS, LIBRARY, OBJECTS, SCRIPTS, SETUPS
from tests.sandbox.plain_python import judge_plainly

CASES = [(source, test) for source, tests in (*CALLS, *OBJECTS, *LIBRARY) for test in tests]


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_every_test_comes_to_what_plain_python_says(pool: SandboxPool, every: int, tmp_path: Path) -> None:
    assert len(CASES) >= 480
    cases = CASES[::every]
    plain = [bool(passed) for passed in judge_plainly(cases, tmp_path)]
    assert 0.8 < sum(plain) / len(plain) < 0.97  # some fail on purpose
    verdicts = pool.run(Program(source=source, tests=[test], cpu_seconds=10) for source, test in cases)
    wrong = [
        f"{test!r}: {verdict.error_type} {verdict.tests[0].detail}, plain Python {'passes' if expected else 'fails'}"
        for (_, test), expected, verdict in zip(cases, plain, verdicts, strict=True)
        if (verdict.error_type == "accepted") != expected
    ]
    assert wrong == []


def test_the_setup_of_an_honest_problem(pool: SandboxPool) -> None:
    verdicts = pool.run(Program(source=source, setup=setup, tests=[test]) for source, setup, test, _ in SETUPS)
    outcomes = [(each[1], verdict.error_type == "accepted") for each, verdict in zip(SETUPS, verdicts, strict=True)]
    assert outcomes == [(setup, accepted) for _, setup, _, accepted in SETUPS]


def test_every_script_is_accepted(pool: SandboxPool) -> None:
    programs = (Program(source=source, stdin_tests=[tuple(pair)], cpu_seconds=10) for source, *pair in SCRIPTS)
    verdicts = pool.run(programs)
    wrong = [(script, each) for script, each in zip(SCRIPTS, verdicts, strict=True) if each.error_type != "accepted"]
    assert wrong == []


def test_calls_with_plain_data_are_trusted() -> None:
    apart = [problem("", (test,), None)[0][0].apart for _, tests in CALLS for test in tests]
    assert sum(apart) > 0.75 * len(apart)
    assert sum(problem("", (test,), None)[0][0].apart for test in OBJECTS[0][1]) > 0.5 * len(OBJECTS[0][1])


@pytest.mark.parametrize("name", [*sorted(FUNCTIONS), "math.sin", "math.gcd", "math.pi"])
def test_functions_that_a_test_may_hand_over_cross(name: str) -> None:
    value = eval(name, {"math": math})
    assert problem("", (f"import math\nassert f({name})",), None)[0][0].apart

    def stays(*data: object) -> list[object]:
        raise AssertionError(f"{data} stays with the test")

    assert Reader(stays, Shared()).decode(Writer(stays, Shared()).encode(value)) is value or value == math.pi
