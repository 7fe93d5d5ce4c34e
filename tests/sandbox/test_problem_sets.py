"""Honest programs: canonical solutions are accepted, and mutants get the verdict that plain execution gives them."""

import io
import json
import os
import random
import resource
import select
import signal
import tokenize
from collections.abc import Callable

import pytest

from sandbox import Program, SandboxPool
from tests.sandbox.problem_sets import humaneval, mbpp

SWAPS = {
    "+": "-", "-": "+", "*": "+", "//": "*", "/": "//", "%": "//", "<": "<=", "<=": "<", ">": ">=", ">=": ">",
    "==": "!=", "!=": "==", "and": "or", "or": "and", "True": "False", "False": "True", "not": "", "min": "max",
    "max": "min", "0": "1", "1": "2", "2": "1", "[": "(", "append": "extend", "len": "sum", "return": "yield",
}  # fmt: skip


@pytest.mark.parametrize(
    ("load", "count", "in_process"), [(humaneval, 164, 0), (mbpp, 974, 0)], ids=["humaneval", "mbpp"]
)
def test_every_canonical_solution_is_accepted(load: Callable[[], list[Program]], count: int, in_process: int) -> None:
    programs = load()
    with SandboxPool(num_workers=2) as pool:
        verdicts = pool.run(programs)
    rejected = [(index, v.error_type, v.tests) for index, v in enumerate(verdicts) if v.error_type != "accepted"]
    assert rejected == []
    assert len(verdicts) == count
    untrusted = [index for index, verdict in enumerate(verdicts) if not verdict.trusted_compare]
    assert len(untrusted) == in_process


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


def run_plainly(program: Program) -> tuple[list[bool] | None, float]:
    """Which tests pass when executed in one process (None when that takes too long), and the CPU seconds it took."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        resource.setrlimit(resource.RLIMIT_CPU, (2, 2))
        passed = []
        for test in program.tests:
            namespace: dict[str, object] = {"__name__": "plain"}
            try:
                exec(program.source, namespace)
                exec(program.setup if not program.entry_point else "", namespace)
                exec(test, namespace)
                if program.entry_point:
                    namespace["check"](namespace[program.entry_point])  # type: ignore[operator]
                passed.append(True)
            except BaseException:  # noqa: BLE001 - that is the verdict
                passed.append(False)
        os.write(writer, json.dumps(passed).encode())
        os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], 120)
    if not ready:
        os.kill(child, signal.SIGKILL)
    text = os.read(reader, 1 << 16) if ready else b""
    os.close(reader)
    _, _, used = os.wait4(child, 0)
    return json.loads(text) if text else None, used.ru_utime + used.ru_stime


def check_mutants(load: Callable[[], list[Program]], count: int) -> None:
    rng = random.Random(7)
    programs = []
    for original in rng.sample(load(), count):
        # Not in HumanEval's prompt: its helpers are the prompt's own in the sandbox, mutated or not.
        first_line = original.setup.count("\n") if original.entry_point else 1
        source = mutate(original.source.replace("\r\n", "\n"), first_line, rng)
        if source is not None:
            programs.append(
                Program(**{**vars(original), "source": source, "cpu_seconds": SECONDS, "fresh_per_test": True})
            )
    with SandboxPool(num_workers=2) as pool:
        verdicts = pool.run(programs)
    compared, differing = 0, []
    for program, verdict in zip(programs, verdicts, strict=True):
        plain, seconds = run_plainly(program)
        if plain is None:  # an endless loop: the sandbox must have noticed too
            assert verdict.error_type in ("timeout", "memory"), (program.source, verdict)
            continue
        if seconds > 0.5 * program.cpu_seconds:  # close to the limit either answer is right
            continue
        compared += 1
        judged = [outcome.verdict == "accepted" for outcome in verdict.tests]
        if judged != plain:
            differing.append((program.source, program.tests, plain, [(t.verdict, t.detail) for t in verdict.tests]))
    assert differing == []
    assert compared > 0.9 * len(programs)


@pytest.mark.parametrize("load", [humaneval, mbpp], ids=["humaneval", "mbpp"])
def test_one_token_mutants_agree_with_plain_execution(load: Callable[[], list[Program]]) -> None:
    check_mutants(load, 40)


@pytest.mark.slow
@pytest.mark.parametrize(("load", "count"), [(humaneval, 164), (mbpp, 900)], ids=["humaneval", "mbpp"])
def test_many_mutants_agree_with_plain_execution(load: Callable[[], list[Program]], count: int) -> None:
    check_mutants(load, count)
