"""Programs that show what a code set's tests are worth: its reference solutions, three times each, and programs that
do nothing.

Covered: solutions that fail, or only sometimes pass; slow ones; tests that accept a program whose functions return None
and that prints nothing, or one that gives back its input. Not covered: whether tests tell a nearly right program from
a right one.
"""

import ast
import builtins
import re
from collections.abc import Callable
from dataclasses import replace

from ares.config import CodeConfig
from ares.data.check import CheckReport, Failure, Finding
from ares.data.code import CodeProblem, program
from sandbox import Program, SandboxPool, Verdict, parse

PATIENCE_SECONDS = 10.0
"""CPU seconds for each test of a reference solution: enough to tell a slow solution from a wrong one."""
RUNS = 3
"""Runs of each reference solution, so that flaky ones are found."""
ACCEPTS_NOTHING = "the tests accept a program that does nothing (functions return None, a script prints nothing)"
_BODIES = {
    "nothing": ("return None", ""),
    "echo": (
        "return arguments[0] if arguments else None",
        "\nif __name__ == '__main__':\n    import sys\n    sys.stdout.write(sys.stdin.read())\n",
    ),
}
"""Programs that do nothing: (body of their functions, script)."""


def check_solutions(
    report: CheckReport, limits: CodeConfig, pool: SandboxPool, progress: Callable[[int, int], None]
) -> None:
    """Judge the usable rows' reference solutions and programs that do nothing, and add the outcomes to the report.

    Each test of a solution gets PATIENCE_SECONDS (or limits.cpu_seconds, if that is more), whatever its row allows;
    a solution slower than training allows is listed as slow. `progress` is called with (judged, all).
    """
    trials = [
        (row, kind)
        for row, (_, problem) in report.problems.items()
        for kind in ("nothing", "echo", *(["solution"] * RUNS if problem.solution is not None else []))
    ]
    programs = (_program(report.problems[row][1], kind, limits) for row, kind in trials)
    solved: dict[int | str, list[Verdict]] = {}
    for judged, (index, verdict) in enumerate(pool.stream(programs), 1):
        row, kind = trials[index]
        name, problem = report.problems[row]
        if kind == "solution":
            runs = solved.setdefault(row, [])
            runs.append(verdict)
            if len(runs) == RUNS:
                limit = min(limits.cpu_seconds, problem.time_limit or limits.cpu_seconds)
                _add_solution(report, row, name, problem, solved.pop(row), limit)
        elif verdict.error_type == "accepted" and kind == "nothing":
            report.findings.append(Finding(row, name, ACCEPTS_NOTHING))
        elif verdict.error_type == "accepted":
            report.echoed.append(name)
        progress(judged, len(trials))
    for names in (report.slow, report.echoed):
        names.sort()
    for results in (report.findings, report.failures, report.flaky):
        results.sort(key=lambda each: each.row if isinstance(each.row, int) else 0)


def _program(problem: CodeProblem, kind: str, limits: CodeConfig) -> Program:
    if kind == "solution":
        seconds = max(limits.cpu_seconds, PATIENCE_SECONDS)
        return program(vars(replace(problem, time_limit=None)), str(problem.solution), seconds, limits.memory_mb)
    body, script = _BODIES[kind]
    functions = "".join(f"def {name}(*arguments, **named):\n    {body}\n" for name in _functions(problem))
    return program(vars(problem), functions + script, limits.cpu_seconds, limits.memory_mb)


def _functions(problem: CodeProblem) -> list[str]:
    """The functions that a program has to define: the entry point, those of calls, and whatever else tests call."""
    names = re.findall(r"^def call_(\w+)\(", problem.after, re.MULTILINE)
    names += [problem.entry_point] if problem.entry_point and not names else []
    if not names:
        trees = [parse(text) for text in (*problem.test_cases, problem.setup)]
        nodes = [node for tree in trees for node in ast.walk(tree)]
        bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        bound |= {
            alias.asname or alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
        }
        called = [node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        names += [name for name in called if name not in bound and not hasattr(builtins, name)]
    return list(dict.fromkeys(names))


def _add_solution(
    report: CheckReport, row: int | str, name: str, problem: CodeProblem, verdicts: list[Verdict], limit: float
) -> None:
    """Add the outcome of a row's solution."""
    report.untrusted += not verdicts[0].trusted_compare
    failed = [verdict for verdict in verdicts if verdict.error_type != "accepted"]
    endings = [tuple(test.verdict for test in verdict.tests) for verdict in verdicts]
    if len(set(endings)) > 1:
        failure = _failure(row, name, problem, failed[0])
        report.flaky.append(
            replace(failure, detail=f"in {len(failed)} of {len(verdicts)} runs {failure.detail}".strip())
        )
    elif failed:
        report.failures.append(_failure(row, name, problem, failed[0]))
    else:
        report.accepted += 1
        if max(test.cpu for verdict in verdicts for test in verdict.tests) > limit:
            report.slow.append(name)


def _failure(row: int | str, name: str, problem: CodeProblem, verdict: Verdict) -> Failure:
    place = next(index for index, outcome in enumerate(verdict.tests) if outcome.verdict != "accepted")
    texts = [*problem.test_cases, *(f"stdin {given!r}" for given, _ in problem.stdin_tests)]
    outcome = verdict.tests[place]
    return Failure(row, name, verdict.error_type, _first_line(texts[place]), outcome.detail)


def _first_line(text: str) -> str:
    line = next((line for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= 120 else f"{line[:119]}…"
