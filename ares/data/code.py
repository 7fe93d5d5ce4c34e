"""Normalise rows of code problems in the field's formats: one row in, one problem with unit tests out.

Covered: our own rows (test_cases, stdin_tests, setup, entry_point, solution, checker) and published ones; the
instruction put around a bare problem; the program the sandbox judges (`program`). Each part (tests, setup, entry point,
solution, prompt) is found independently, so that formats may be mixed. Not covered: how tests are read
(ares/data/code_tests.py), tests in pytest's style, a row's own limits of memory, whether the tests are any good
(`ares data check` runs the reference solutions).

    set             problem            tests                                             solution
    HumanEval       prompt             test, entry_point                                 canonical_solution
    MBPP            text or prompt     test_list, test_setup_code or test_imports        code
    APPS, TACO      question           input_output                                      solutions
    CodeContests    description        public_tests, private_tests, generated_tests      solutions
    LiveCodeBench   question_content   public_test_cases, private_test_cases, metadata
    BigCodeBench    instruct_prompt    test, entry_point, code_prompt, libs              canonical_solution
    AceCode         question           test_cases
    DeepCoder       problem            tests                                             solutions
    verl            prompt             reward_model.ground_truth
"""

import ast
import builtins
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ares.data.code_tests import (
    LARGE,
    SAME,
    NoTests,
    RowError,
    Tests,
    adapter,
    imports_without,
    json_value,
    read_tests,
)
from ares.data.tables import is_missing
from sandbox import Program, parse
from sandbox.packages import WITH_VALUES

IDS = ("task_id", "problem_id", "question_id")
"""Columns that name a problem where data.id_key's does not."""
_DEFAULT_PROMPT = "prompt"
_FENCE = "Answer with the whole program in one ```python block."


PROMPTS = ("text", "question", "instruct_prompt", "question_content", "problem", "description")
"""Columns that hold the problem where data.prompt_key's does not."""
_OPTIONAL: dict[str, Any] = {
    "packages": (), "before": "", "after": "", "stdin_compare": "lines", "checker": "", "time_limit": None,
}  # fmt: skip
"""Columns that are added only where a row needs them, so that the digests of other sets stay the same."""
_SECONDS = re.compile(r"\s*(?P<number>\d+(\.\d+)?)\s*(?P<unit>s|sec|seconds?|ms|milliseconds?)?\b", re.IGNORECASE)
"""TACO's `2.0 seconds`."""
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t][^\n#]*", re.MULTILINE)
_PYTHON3 = (3, "PYTHON3")
"""How CodeContests calls the language."""


@dataclass(frozen=True)
class CodeProblem:
    """A row of a code set, independent of its format."""

    prompt: Any
    """Text, or a list of chat messages."""
    statement: str
    """The problem as the row holds it, without the instruction around it."""
    test_cases: list[str]
    """Assert statements, or texts that define check(candidate)."""
    stdin_tests: list[list[str]]
    """[input, expected output]: the program runs as a script."""
    setup: str
    """Run with the tests; its functions win over the program's."""
    entry_point: str | None
    """The function that check(candidate) is given."""
    solution: str | None
    """A program that passes, for `ares data check`."""
    packages: tuple[str, ...] = ()
    """Modules that program and tests import beside the standard library."""
    before: str = ""
    """Code put before every program: the imports of the set's own judge."""
    after: str = ""
    """Code put after every program: adapters by which tests call its functions."""
    stdin_compare: str = "lines"
    """How the outputs of scripts are compared (sandbox.Program)."""
    checker: str = ""
    """Python of the row that defines check(input, expected, output), for problems with several right answers."""
    time_limit: float | None = None
    """Seconds that the row allows each test. None: it has no limit of its own."""


def read_problem(row: Mapping[str, Any], prompt_key: str, tests_key: str, answer_key: str) -> CodeProblem:
    """Normalise a row. Raises RowError where it has no prompt or a column cannot be read, NoTests where no test."""
    row = {name: _plain(value) for name, value in row.items() if not is_missing(value)}
    solution = _solution(row, answer_key)
    tests = read_tests(row, tests_key)
    if not tests.texts and not tests.pairs:
        raise NoTests("there is no test")
    checker = _checker(row, tests)
    setup = _setup(row)
    if tests.functions:
        setup = f"{setup}\n{checker or SAME}"
    for test in tests.texts:  # an answer in place of a test is Python too, and every program would pass it
        if not re.search("assert|raise", test + setup):
            raise RowError(f"a test neither asserts nor raises, so that every program would pass it: {test!r:.80}")
        if _only_defines(test):
            raise RowError(
                "a test only defines functions and calls none, so that every program would pass it (tests in pytest's "
                f"style are not read): {test!r:.80}"
            )
    return CodeProblem(
        prompt=_prompt(row, prompt_key, tests),
        statement=_statement(row[_prompt_column(row, prompt_key)]),
        test_cases=tests.texts,
        stdin_tests=tests.pairs,
        setup=setup,
        entry_point=_text(row, "entry_point") or _shadowing(row, solution),
        solution=solution,
        packages=_packages(row),
        before=imports_without(tests.functions) if tests.of_contest else _stub(row),
        after="".join(map(adapter, tests.functions)),
        stdin_compare="numbers" if tests.of_contest else "lines",
        checker=checker if tests.pairs else "",
        time_limit=_time_limit(row),
    )


def _only_defines(test: str) -> bool:
    """Whether a test is made of definitions alone, without check(candidate), which the sandbox calls."""
    if not re.search(r"^(async +def|def|class)\b", test, re.MULTILINE):
        return False
    try:
        body = parse(test).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # which `ares data check` names
        return False
    if "check" in (getattr(node, "name", None) for node in body):
        return False
    defines = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    names = (ast.Expr, ast.Assign, ast.AnnAssign)
    return all(
        isinstance(node, defines)
        or (isinstance(node, names) and not any(isinstance(each, ast.Call) for each in ast.walk(node)))
        for node in body
    )


def with_unit_tests(frame: pd.DataFrame, problems: list[CodeProblem], tests_key: str) -> pd.DataFrame:
    """The rows with the normalised columns, without those they were read from, since tests may be large."""
    names = ["test_cases", "stdin_tests", "setup", "entry_point", "solution"]
    names += [name for name, usual in _OPTIONAL.items() if any(getattr(p, name) != usual for p in problems)]
    columns = {
        name: pd.Series([_as_cell(getattr(problem, name)) for problem in problems], index=frame.index, dtype=object)
        for name in names
    }
    return frame.drop(columns=[tests_key, *LARGE, "checker", "time_limit"], errors="ignore").assign(**columns)


def packages_of(packages: Iterable[str], *frames: pd.DataFrame | None) -> tuple[str, ...]:
    """`packages`, the modules that normalised rows name, and numpy and pandas where tests import them.

    Published sets (HumanEval+, MBPP+) import them without a column that says so.
    """
    rows = (
        row
        for frame in frames
        if frame is not None
        for row in frame.filter(["packages", "setup", "checker", "test_cases"]).to_dict("records")
    )
    return packages_of_rows(packages, rows)


def packages_of_rows(packages: Iterable[str], rows: Iterable[Mapping[Any, Any]]) -> tuple[str, ...]:
    """As `packages_of`, for single normalised rows."""
    asked = set(packages)
    for row in rows:
        own = {name: value for name, value in row.items() if not is_missing(value)}
        asked.update(own.get("packages", ()))
        for text in (own.get("setup", ""), own.get("checker", ""), *own.get("test_cases", ())):
            words = re.findall(r"\w+", " ".join(_IMPORT.findall(text)))
            asked.update(name for name in WITH_VALUES if name in words)
    return tuple(sorted(asked))


def program(
    row: Mapping[str, Any], source: str, cpu_seconds: float = 2.0, memory_mb: int = 512, truncated: bool = False
) -> Program:
    """The program to judge: a source with the tests of a normalised row.

    Imports and helpers that precede the function in HumanEval's prompt, and imports of other sets' judges, are put
    before the source, since responses rarely repeat them. Limits as in sandbox.Program: seconds for each test, MiB; the
    row may allow less time.
    """
    entry_point = None if is_missing(row["entry_point"]) else str(row["entry_point"])
    setup = str(row["setup"])
    own = {name: usual if is_missing(row.get(name)) else row[name] for name, usual in _OPTIONAL.items()}
    return Program(
        source=_preamble(setup, entry_point, source, own["before"]) + source + own["after"],
        tests=[str(test) for test in row["test_cases"]],
        stdin_tests=[(str(given), str(expected)) for given, expected in row["stdin_tests"]],
        setup=setup,
        entry_point=entry_point,
        cpu_seconds=cpu_seconds if own["time_limit"] is None else min(cpu_seconds, own["time_limit"]),
        memory_mb=memory_mb,
        truncated=truncated,
        stdin_compare=own["stdin_compare"],
        checker=own["checker"],
    )


def _preamble(setup: str, entry_point: str | None, source: str, before: str) -> str:
    if "from __future__" in source:  # must stay first
        return ""
    if before or entry_point is None:
        return before
    stub = re.search(rf"^(async +)?def +{re.escape(entry_point)}\b", setup, re.MULTILINE)
    return setup[: stub.start()] if stub else ""


def _as_cell(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


# ---- setup, solution, prompt ---------------------------------------------------------------------------------------


def _is_humaneval(row: dict[str, Any]) -> bool:
    return all(isinstance(row.get(name), str) for name in ("prompt", "test", "entry_point"))


def _setup(row: dict[str, Any]) -> str:
    for name in ("setup", "test_setup_code"):
        if name in row:
            return _text(row, name) or ""
    if isinstance(row.get("test_imports"), list):
        return "\n".join(map(str, row["test_imports"]))
    return row["prompt"] if _is_humaneval(row) else ""


def _shadowing(row: dict[str, Any], solution: str | None) -> str | None:
    """The function of an MBPP+ row that shadows a built-in, which its `test` would otherwise call."""
    if solution is None or "test" not in row or not isinstance(row.get("test_list"), list):
        return None
    defined = re.findall(r"^def +(\w+)", solution, re.MULTILINE)
    calls = [name for name in defined if all(re.search(rf"\b{name}\(", str(test)) for test in row["test_list"])]
    return next((name for name in reversed(calls) if hasattr(builtins, name)), None)


def _checker(row: dict[str, Any], tests: Tests) -> str:
    """The row's own checker. Raises RowError where it is invalid or has nothing to judge."""
    checker = _text(row, "checker") or ""
    if not checker:
        return ""
    try:
        defined = [getattr(node, "name", None) for node in parse(checker).body]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RowError(f"checker does not parse: {error}") from error
    if "check" not in defined:
        raise RowError("checker defines no function check(input, expected, output)")
    if not tests.functions and not tests.pairs:
        raise RowError("checker judges what comes out for an input, and no test has one")
    return checker


def _is_bigcodebench(row: dict[str, Any]) -> bool:
    return all(isinstance(row.get(name), str) for name in ("complete_prompt", "code_prompt", "test", "entry_point"))


def _stub(row: dict[str, Any]) -> str:
    """BigCodeBench's imports and function signature, which its judge puts before every answer."""
    return f"{row['code_prompt'].rstrip()}\n    pass\n" if _is_bigcodebench(row) else ""


def _libraries(text: Any) -> list[str]:
    """BigCodeBench's libs, `"['numpy', 're']"`, without those of the standard library."""
    try:
        names = ast.literal_eval(text) if isinstance(text, str) else text
        modules = {str(name).partition(".")[0] for name in names}
    except (SyntaxError, ValueError, TypeError) as error:
        raise RowError(f"libs is a list of modules, this is {text!r:.80}") from error
    return sorted(modules - sys.stdlib_module_names)


def _packages(row: dict[str, Any]) -> tuple[str, ...]:
    value = json_value(row.get("packages") or (_libraries(row["libs"]) if "libs" in row else []), "packages")
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name.isidentifier() for name in names):
        raise RowError(f"packages is a list of modules, as [numpy], this is {value!r:.80}")
    return tuple(names)


def _time_limit(row: dict[str, Any]) -> float | None:
    """Seconds, from a number, `2.0 seconds` (TACO) or {"seconds", "nanos"} (CodeContests); None for anything else."""
    value = json_value(row.get("time_limit"), "time_limit")
    if isinstance(value, dict):
        parts = [value.get(name) or 0 for name in ("seconds", "nanos")]
        seconds = parts[0] + parts[1] / 1e9 if all(isinstance(part, int | float) for part in parts) else 0
    elif isinstance(value, str) and (found := _SECONDS.match(value)):
        seconds = float(found["number"]) / (1000 if (found["unit"] or "").lower().startswith("m") else 1)
    else:
        seconds = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    return float(seconds) if seconds > 0 else None


def _solution(row: dict[str, Any], answer_key: str) -> str | None:
    for name in (answer_key, "solution"):
        if name in row:
            return _text(row, name) or None
    if "canonical_solution" in row:
        body = _text(row, "canonical_solution") or ""
        if _is_bigcodebench(row):
            return f"{row['complete_prompt'].rstrip()}\n{body}"
        return row["prompt"] + body if _is_humaneval(row) else body
    if "test_list" in row and "code" in row:
        return _text(row, "code") or None
    solutions = json_value(row.get("solutions") or [], "solutions")
    if isinstance(solutions, dict):  # CodeContests: language and solution
        both = zip(solutions.get("language", []), solutions.get("solution", []), strict=False)
        solutions = [text for language, text in both if language in _PYTHON3]
    return str(solutions[0]) if isinstance(solutions, list) and solutions else None


def _prompt_column(row: dict[str, Any], prompt_key: str) -> str:
    column = next((name for name in (prompt_key, *PROMPTS) if name in row), None)
    if column is None:
        raise RowError(f"there is no prompt: column {prompt_key!r} is missing or null. Name it with data.prompt_key=…")
    return column


def _statement(value: Any) -> str:
    """Text, or what all messages of a chat say."""
    messages = value if isinstance(value, list) else [{"content": value}]
    return "\n".join(str(each.get("content", "")) if isinstance(each, dict) else str(each) for each in messages)


def _prompt(row: dict[str, Any], prompt_key: str, tests: Tests) -> Any:
    """The prompt: a column that the user named unchanged, a bare problem of a published set with an instruction."""
    column = _prompt_column(row, prompt_key)
    text = row[column]
    if not isinstance(text, str) or column == prompt_key != _DEFAULT_PROMPT or not text.strip():
        return text
    if _is_humaneval(row):
        return f"Complete this Python function. {_FENCE}\n\n```python\n{text.rstrip()}\n```"
    if "test_list" in row and tests.texts:
        shown = row["test_list"][0] if "test" in row and row["test_list"] else tests.texts[0]  # MBPP+: one of hundreds
        return f"{text.strip()}\nThe program must pass this test:\n{shown}\n{_FENCE}"
    if _is_bigcodebench(row):
        return f"{text.strip()}\n{_FENCE}"
    if tests.of_contest and column != _DEFAULT_PROMPT:
        how = "It reads standard input and writes standard output."
        if starter := (_text(row, "starter_code") or "").strip():
            how = f"Go on from this code:\n{starter}"
        elif tests.functions:
            how = f"Write the function {tests.functions[0]}."
        return f"{text.strip()}\n\n{how}\n{_FENCE}"
    return text


def _text(row: dict[str, Any], name: str) -> str | None:
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise RowError(f"{name} is text, this is {value!r:.80}")
    return value


# ---- values --------------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """Lists where parquet gives numpy arrays, Python's own numbers, and no null entries in objects."""
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if not is_missing(item)}
    return value.item() if isinstance(value, np.generic) else value
