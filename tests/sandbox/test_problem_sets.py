"""Honest programs: canonical solutions are accepted, and mutants get the verdict that plain execution gives them."""

import dataclasses
import io
import random
import tokenize
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox import Program, SandboxPool
from tests.sandbox.plain_python import judge_plainly
from tests.sandbox.problem_sets import humaneval, mbpp

SWAPS = {
    "+": "-", "-": "+", "*": "+", "//": "*", "/": "//", "%": "//", "<": "<=", "<=": "<", ">": ">=", ">=": ">",
    "==": "!=", "!=": "==", "and": "or", "or": "and", "True": "False", "False": "True", "not": "", "min": "max",
    "max": "min", "0": "1", "1": "2", "2": "1", "[": "(", "append": "extend", "len": "sum", "return": "yield",
}  # fmt: skip


@pytest.mark.parametrize(
    ("load", "each", "count"),
    [(humaneval, 1, 164), (mbpp, 6, 163), pytest.param(mbpp, 1, 974, marks=pytest.mark.slow)],
    ids=["humaneval", "a sixth of mbpp", "mbpp"],
)
def test_canonical_solutions_are_accepted_and_trusted(load: Callable[[], list[Program]], each: int, count: int) -> None:
    with SandboxPool(num_workers=2) as pool:
        verdicts = pool.run(load()[::each])
    assert len(verdicts) == count
    assert [v for v in verdicts if (v.error_type, v.trusted_compare) != ("accepted", True)] == []


SECONDS = 0.5
"""For mutants, some of which are endless loops."""


def mutate(source: str, first_line: int, rng: random.Random) -> str | None:
    """The source with one token swapped, from first_line on; None where no token can be."""
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    places = [
        token for token in tokens if token.string in SWAPS and token.type in (1, 2, 54) and token.start[0] >= first_line
    ]
    if not places:
        return None
    token = rng.choice(places)
    lines = source.splitlines(keepends=True)
    row, column = token.start
    line = lines[row - 1]
    lines[row - 1] = line[:column] + SWAPS[token.string] + line[column + len(token.string) :]
    return "".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize(("load", "count"), [(humaneval, 164), (mbpp, 900)], ids=["humaneval", "mbpp"])
def test_one_token_mutants_agree_with_plain_execution(
    load: Callable[[], list[Program]], count: int, tmp_path: Path
) -> None:
    rng = random.Random(7)
    programs = []
    for original in rng.sample(load(), count):
        # Not in HumanEval's prompt: its helpers are the prompt's own in the sandbox, mutated or not.
        first_line = original.setup.count("\n") if original.entry_point else 1
        source = mutate(original.source.replace("\r\n", "\n"), first_line, rng)
        if source is not None:
            programs.append(dataclasses.replace(original, source=source, cpu_seconds=SECONDS, fresh_per_test=True))
    with SandboxPool(num_workers=2) as pool:
        outcomes = [outcome for verdict in pool.run(programs) for outcome in verdict.tests]
    cases = [
        (program.source, f"{test}\ncheck({program.entry_point})" if program.entry_point else f"{program.setup}\n{test}")
        for program in programs
        for test in program.tests
    ]
    judged = list(zip(cases, judge_plainly(cases, tmp_path), outcomes, strict=True))
    endless = [each for each in judged if each[1] is None]
    assert [each for each in endless if each[2].verdict not in ("timeout", "memory")] == []
    # Close to the limit either answer is right.
    compared = [each for each in judged if each[1] is not None and each[2].verdict != "timeout"]
    assert [each for each in compared if (each[2].verdict == "accepted") != each[1]] == []
    assert len(compared) > 0.9 * (len(judged) - len(endless))
