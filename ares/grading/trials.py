"""Programs that show what a code set's tests are worth: its reference solutions, three times each, and one that does
nothing.

Covered: solutions that fail, or only sometimes pass; slow ones; tests that accept a program whose functions return None
and that prints nothing. Not covered: whether tests tell a nearly right program from a right one.
"""

import ast
import builtins
import re
from collections.abc import Callable
from dataclasses import replace

from ares.config import CodeConfig
from ares.data import CheckReport, CodeProblem, Finding, named, program
from sandbox import Program, SandboxPool, Verdict, parse

PATIENCE_SECONDS = 10.0
"""CPU seconds for each test of a reference solution: enough to tell a slow solution from a wrong one."""
RUNS = 3
"""Runs of each reference solution, so that flaky ones are found."""
ACCEPTS_NOTHING = "the tests accept a program that does nothing (functions return None, a script prints nothing)"


def check_solutions(
    report: CheckReport, limits: CodeConfig, pool: SandboxPool, progress: Callable[[int, int], None]
) -> None:
    """Judge the usable rows' reference solutions and a program that does nothing, and add the outcomes to the report.

    Each test of a solution gets PATIENCE_SECONDS (or limits.cpu_seconds, if that is more), whatever its row allows;
    a solution slower than training allows is listed as slow. `progress` is called with (judged, all).
    """
    problems = report.problems
    trials: list[tuple[int | str, str | None]] = [(row, None) for row in problems]
    trials += [(row, each.solution) for row, (_, each) in problems.items() if each.solution is not None] * RUNS
    programs = (_program(problems[row][1], source, limits) for row, source in trials)
    runs_of: dict[int | str, list[Verdict]] = {row: [] for row, solution in trials if solution is not None}
    for judged, (index, verdict) in enumerate(pool.stream(programs), 1):
        row, source = trials[index]
        if source is not None:
            runs_of[row].append(verdict)
        elif verdict.error_type == "accepted":
            report.add(ACCEPTS_NOTHING, row, problems[row][0])
        progress(judged, len(trials))
    slow = []
    for row, verdicts in runs_of.items():
        name, problem = problems[row]
        if failure := _failure(row, name, problem, verdicts):
            report.failures.append(failure)
        elif max(test.cpu for verdict in verdicts for test in verdict.tests) > min(
            limits.cpu_seconds, problem.time_limit or limits.cpu_seconds
        ):
            slow.append(name)
    report.findings.sort(key=lambda each: each.row if isinstance(each.row, int) else 0)
    report.counted |= {
        "solutions accepted": len(runs_of) - len(report.failures),
        "solutions not accepted": len(report.failures),
        "solutions slower than training allows": named(slow),
        "rows with tests that the program could deceive": sum(not of[0].trusted_compare for of in runs_of.values()),
    }


def _program(problem: CodeProblem, solution: str | None, limits: CodeConfig) -> Program:
    """The reference solution, or where there is None the program that does nothing."""
    if solution is None:
        nothing = "".join(f"def {name}(*arguments, **named):\n    return None\n" for name in _functions(problem))
        return program(vars(problem), nothing, limits.cpu_seconds, limits.memory_mb)
    seconds = max(limits.cpu_seconds, PATIENCE_SECONDS)
    return program(vars(replace(problem, time_limit=None)), solution, seconds, limits.memory_mb)


def _functions(problem: CodeProblem) -> list[str]:
    """The functions that a program has to define: the entry point, those of calls, and whatever else tests call."""
    if names := re.findall(r"^def call_(\w+)\(", problem.after, re.MULTILINE):
        return names
    if problem.entry_point:
        return [problem.entry_point]
    nodes = [node for text in (*problem.test_cases, problem.setup) for node in ast.walk(parse(text))]
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    bound |= {alias.asname or alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    called = [node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return [name for name in dict.fromkeys(called) if name not in bound and not hasattr(builtins, name)]


def _failure(row: int | str, name: str, problem: CodeProblem, verdicts: list[Verdict]) -> Finding | None:
    """What the first run shows that was not accepted; None if all were."""
    failed = [verdict for verdict in verdicts if verdict.error_type != "accepted"]
    if not failed:
        return None
    place, outcome = next(each for each in enumerate(failed[0].tests) if each[1].verdict != "accepted")
    texts = [*problem.test_cases, *(f"stdin {given!r}" for given, _ in problem.stdin_tests)]
    line = next((line for line in texts[place].splitlines() if line.strip()), "")
    some = f"in {len(failed)} of {len(verdicts)} runs " if len(failed) < len(verdicts) else ""
    detail = f"{some}{outcome.detail}".strip()
    return Finding(row, name, failed[0].error_type, line if len(line) <= 120 else f"{line[:119]}…", detail)
