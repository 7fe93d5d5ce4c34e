"""Rows of code problems as problems with unit tests, and as programs to judge.

Covered: what a row needs to be used; the program the sandbox judges (`program`). Each part of a row (tests, setup,
solution, prompt) may be in our column or in a published set's. Not covered: how each set writes its rows
(ares/data/code_sets.py), tests in pytest's style, a row's own limits of memory, whether the tests are any good
(`ares data check` runs the reference solutions).
"""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ares.config import DataConfig
from ares.data.code_sets import AFTER_PROGRAMS, CODE_SETS, FENCE, STATEMENTS, ground_truth, set_of, text_of, unpacked
from ares.data.code_tests import (
    OWN_PAIRS,
    SAME,
    UNPARSABLE,
    NoTests,
    RowError,
    Tests,
    adapter,
    function_in,
    imports_without,
    json_value,
    read_tests,
)
from ares.data.sources import is_missing
from sandbox import Program, parse

IDS = ("task_id", "problem_id", "question_id")
"""Columns that name a problem where data.id_key's does not."""
_DEFAULT_PROMPT = "prompt"
_OPTIONAL: dict[str, Any] = {
    "packages": (), "before": "", "after": "", "stdin_compare": "lines", "checker": "", "time_limit": None,
}  # fmt: skip
"""Columns that are added only where a row needs them, so that the digests of other sets stay the same."""
_COLUMNS = tuple(dict.fromkeys(name for each in CODE_SETS.values() for name in each.tests))
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t][^\n#]*", re.MULTILINE)
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
_ACTS = (ast.Call, ast.Assert, ast.Raise)


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
    begun: tuple[str, str] | None = None
    """For a base model: the text that a response continues, and the part of it that belongs to the program."""
    stops: tuple[str, ...] = AFTER_PROGRAMS
    """Where such a response ends."""


def read_problem(row: Mapping[str, Any], config: DataConfig) -> CodeProblem:
    """Normalise a row. Raises RowError where it has no prompt or a column cannot be read, NoTests where no test."""
    row = {name: value for name, value in row.items() if not is_missing(value)}
    ours = {name: value for name, value in set_of(row).adapt(row).items() if value is not None}
    ours |= {name: row[name] for name in ("setup", "solution", "packages") if name in row}
    if config.answer_key in row:
        ours["solution"] = text_of(row, config.answer_key)
    tests, prompt_key = _tests(row, config.tests_key), config.prompt_key
    checker = _checker(row, tests)
    setup = text_of(ours, "setup") or ""
    if tests.functions:
        setup = f"{setup}\n{checker or SAME}"
    for test in tests.texts:
        _check_test(test, setup)
    column = next((name for name in (prompt_key, *STATEMENTS) if name in row), None)
    if column is None:
        raise RowError(f"there is no prompt: column {prompt_key!r} is missing or null. Name it with data.prompt_key=…")
    is_bare = isinstance(row[column], str) and row[column].strip() and not column == prompt_key != _DEFAULT_PROMPT
    return CodeProblem(
        prompt=ours.get("asked") or _asked(row, column, tests) if is_bare else row[column],
        statement=statement_in(row[column]),
        test_cases=tests.texts,
        stdin_tests=tests.pairs,
        setup=setup,
        entry_point=ours.get("entry_point") or text_of(row, "entry_point"),
        solution=text_of(ours, "solution") or None,
        packages=_packages(ours.get("packages", [])),
        before=ours.get("before") or (imports_without(tests.functions) if tests.of_contest else ""),
        after="".join(map(adapter, tests.functions)) or ours.get("after", ""),
        stdin_compare="numbers" if tests.of_contest else "lines",
        checker=checker if tests.pairs else "",
        time_limit=_time_limit(row),
        begun=ours.get("begun"),
        stops=ours.get("stops", AFTER_PROGRAMS),
    )


def with_unit_tests(frame: pd.DataFrame, problems: list[CodeProblem], tests_key: str) -> pd.DataFrame:
    """The rows with the normalised columns, without those they were read from, since tests may be large, and without a
    row's own columns of these names: CanItEdit's `after` is a solution, not code to put after programs."""
    names = ["test_cases", "stdin_tests", "setup", "entry_point", "solution"]
    names += [name for name, usual in _OPTIONAL.items() if any(getattr(p, name) != usual for p in problems)]
    cells = {name: [getattr(problem, name) for problem in problems] for name in names}
    if "packages" in cells:
        cells["packages"] = list(map(list, cells["packages"]))
    columns = {name: pd.Series(values, index=frame.index, dtype=object) for name, values in cells.items()}
    read = [tests_key, *_COLUMNS, *_OPTIONAL, "solutions", "incorrect_solutions"]
    return frame.drop(columns=read, errors="ignore").assign(**columns)


def packages_of(packages: Iterable[str], rows: Iterable[Mapping[Any, Any]]) -> tuple[str, ...]:
    """`packages`, the modules that normalised rows name, and numpy and pandas where tests import them.

    Published sets (HumanEval+, MBPP+) import them without a column that says so.
    """
    asked = set(packages)
    for row in rows:
        own = {name: value for name, value in row.items() if not is_missing(value)}
        asked.update(own.get("packages", ()))
        for text in (own.get("setup", ""), own.get("checker", ""), *own.get("test_cases", ())):
            words = re.findall(r"\w+", " ".join(_IMPORT.findall(text)))
            asked.update(name for name in ("numpy", "pandas") if name in words)
    return tuple(sorted(asked))


def program(row: Mapping[str, Any], source: str, cpu_seconds: float = 2.0, memory_mb: int = 512) -> Program:
    """The program to judge: a source with the tests of a normalised row.

    Imports and helpers that precede the function in HumanEval's prompt, and imports of other sets' judges, are put
    before the source, since responses rarely repeat them. Limits as in sandbox.Program: seconds for each test, MiB; the
    row may allow less time.
    """
    entry_point = None if is_missing(row["entry_point"]) else str(row["entry_point"])
    setup = str(row["setup"])
    own = {name: usual if is_missing(row.get(name)) else row[name] for name, usual in _OPTIONAL.items()}
    before = own["before"]
    if not before and entry_point is not None:
        stub = re.search(rf"^(async +)?def +{re.escape(entry_point)}\b", setup, re.MULTILINE)
        before = setup[: stub.start()] if stub else ""
    if "from __future__" in source:  # must stay first
        before = ""
    if "pandas" in own["packages"]:  # whose values do not cross: the row's tests run among the program's objects
        setup += "\nimport pandas\n"
    return Program(
        source=before + source + own["after"],
        tests=tuple(map(str, row["test_cases"])),
        stdin_tests=tuple((str(given), str(expected)) for given, expected in row["stdin_tests"]),
        setup=setup,
        entry_point=entry_point,
        cpu_seconds=cpu_seconds if own["time_limit"] is None else min(cpu_seconds, own["time_limit"]),
        memory_mb=memory_mb,
        stdin_compare=own["stdin_compare"],
        checker=own["checker"],
    )


def _tests(row: dict[str, Any], tests_key: str) -> Tests:
    """The tests of a row: of the column that the user names, else of its set's, and stdin_tests."""
    columns = [tests_key] if tests_key in row else [name for name in set_of(row).tests if name in row]
    values = {name: row[name] for name in (*columns, OWN_PAIRS) if name in row}
    if not values:
        looked_for = (tests_key, OWN_PAIRS, *_COLUMNS)
        raise NoTests(f"there is no test (columns looked for: {', '.join(looked_for)})")
    if "reward_model" in values:
        values["reward_model.ground_truth"] = ground_truth(values.pop("reward_model"))
    if "private_test_cases" in values:
        values["private_test_cases"] = unpacked(values["private_test_cases"], "private_test_cases")
    tests = read_tests(values, function_in(row.get("metadata")), "checker" in row)
    if not tests.texts and not tests.pairs:
        raise NoTests("there is no test")
    return tests


def _asked(row: dict[str, Any], column: str, tests: Tests) -> str:
    """A problem's statement; of a contest, with what the program has to do."""
    if not tests.of_contest or column == _DEFAULT_PROMPT:
        return str(row[column])
    how = "It reads standard input and writes standard output."
    if starter := (text_of(row, "starter_code") or "").strip():
        how = f"Go on from this code:\n{starter}"
    elif tests.functions:
        how = f"Write the function {tests.functions[0]}."
    return f"{row[column].strip()}\n\n{how}\n{FENCE}"


def _check_test(test: str, setup: str) -> None:
    """Raise RowError for a test that every program would pass: an answer in a test's place is Python too."""
    if not re.search("assert|raise", test + setup):
        raise RowError(f"a test neither asserts nor raises, so that every program would pass it: {test!r:.80}")
    if not re.search(r"^(async +def|def|class)\b", test, re.MULTILINE):
        return
    try:
        body = parse(test).body
    except UNPARSABLE:  # which `ares data check` names
        return
    runs = [each for node in body if not isinstance(node, _DEFINES) for each in ast.walk(node)]
    # The sandbox calls check(candidate) itself.
    if not any(isinstance(each, _ACTS) for each in runs) and "check" not in (
        getattr(node, "name", "") for node in body
    ):
        raise RowError(f"a test only defines functions, so that every program would pass it: {test!r:.80}")


def _checker(row: dict[str, Any], tests: Tests) -> str:
    """The row's own checker. Raises RowError where it is invalid or has nothing to judge."""
    checker = text_of(row, "checker") or ""
    if not checker:
        return ""
    try:
        defined = [getattr(node, "name", None) for node in parse(checker).body]
    except UNPARSABLE as error:
        raise RowError(f"checker does not parse: {error}") from error
    if "check" not in defined:
        raise RowError("checker defines no function check(input, expected, output)")
    if not tests.functions and not tests.pairs:
        raise RowError("checker judges what comes out for an input, and no test has one")
    return checker


def _packages(given: Any) -> tuple[str, ...]:
    value = json_value(given, "packages")
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name.isidentifier() for name in names):
        raise RowError(f"packages is a list of modules, as [numpy], this is {value!r:.80}")
    return tuple(names)


def _time_limit(row: dict[str, Any]) -> float | None:
    """Seconds, from a number, `2.0 seconds` (TACO) or {"seconds", "nanos"} (CodeContests); None otherwise.

    Raises RowError where seconds are no number.
    """
    value = json_value(row.get("time_limit"), "time_limit")
    if isinstance(value, dict):
        try:
            value = float(value.get("seconds") or 0) + float(value.get("nanos") or 0) / 1e9
        except (TypeError, ValueError):
            raise RowError(f"time_limit's seconds and nanos are numbers, this is {value!r:.80}") from None
    if isinstance(value, int | float):
        return float(value) if value > 0 and value is not True else None
    found = re.match(r"\s*(\d+(?:\.\d+)?)\s*(?:s|$)", str(value))
    return float(found[1]) or None if found else None


def statement_in(value: Any) -> str:
    """Text, or what all messages of a chat say."""
    messages = value if isinstance(value, list) else [{"content": value}]
    return "\n".join(str(each.get("content", "")) if isinstance(each, dict) else str(each) for each in messages)
