"""Rows of code problems, in the field's formats, as unit tests: one row in, one normalised problem out.

Covered: our own rows (test_cases, stdin_tests, setup, entry_point, solution), HumanEval, MBPP, APPS, AceCode and verl's
rows; the instruction put around a bare problem; the program the sandbox judges (`program`). Each part (tests, setup,
entry point, solution, prompt) is looked for by itself, so that formats may be mixed. docs/evaluation.md has the table.
Not covered: special judges (several right outputs for one input), tests in unittest's or pytest's style, whether the
tests are any good (`ares data check` runs the reference solutions).
"""

import builtins
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ares.data.tables import is_missing
from sandbox import Program

TESTS = ("test", "test_list", "input_output", "reward_model")
"""Columns that hold tests where data.tests_key's does not: HumanEval, MBPP, APPS, verl."""
IDS = ("task_id", "problem_id", "question_id")
"""Columns that name a problem where data.id_key's does not."""
_DEFAULT_PROMPT = "prompt"
_FENCE = "Answer with the whole program in one ```python block."


class RowError(ValueError):
    """A row cannot be used; the message names the column. Whoever knows them adds file and row."""


@dataclass(frozen=True)
class CodeProblem:
    """A row of a code set, whatever its format was."""

    prompt: Any
    """Text, or a list of chat messages."""
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


def read_problem(row: Mapping[str, Any], prompt_key: str, tests_key: str, answer_key: str) -> CodeProblem:
    """Normalise a row. Raises RowError where it has no prompt or no test, or a column cannot be read."""
    row = {name: _plain(value) for name, value in row.items() if not is_missing(value)}
    solution = _solution(row, answer_key)
    tests, stdin_tests = _tests(row, tests_key, solution)
    if not tests and not stdin_tests:
        raise RowError("there is no test")
    setup = _setup(row)
    for test in tests:  # an answer where a test should be is Python too, and every program would pass it
        if not re.search("assert|raise", test + setup):
            raise RowError(f"a test neither asserts nor raises, so that every program would pass it: {test!r:.80}")
    return CodeProblem(
        prompt=_prompt(row, prompt_key, tests),
        test_cases=tests,
        stdin_tests=stdin_tests,
        setup=setup,
        entry_point=_text(row, "entry_point") or _shadowing(row, solution),
        solution=solution,
        packages=_packages(row),
    )


def with_unit_tests(frame: pd.DataFrame, problems: list[CodeProblem], tests_key: str) -> pd.DataFrame:
    """The rows with the normalised columns; those they were read from are left out, since tests may be large."""
    columns = {
        name: pd.Series([getattr(problem, name) for problem in problems], index=frame.index, dtype=object)
        for name in ("test_cases", "stdin_tests", "setup", "entry_point", "solution")
    }
    if any(problem.packages for problem in problems):  # otherwise the set is the one that it was
        columns["packages"] = pd.Series([list(each.packages) for each in problems], index=frame.index, dtype=object)
    return frame.drop(columns=[tests_key, *TESTS, "solutions"], errors="ignore").assign(**columns)


def packages_of(packages: Iterable[str], *frames: pd.DataFrame | None) -> tuple[str, ...]:
    """The modules that programs for normalised rows import, and those named besides."""
    of_rows = [frame["packages"] for frame in frames if frame is not None and "packages" in frame]
    asked = {name for column in of_rows for names in column if not is_missing(names) for name in names}
    return tuple(sorted(asked | set(packages)))


def program(
    row: Mapping[str, Any], source: str, cpu_seconds: float = 2.0, memory_mb: int = 512, truncated: bool = False
) -> Program:
    """The program to judge: a source with the tests of a normalised row (a mapping or a row of a frame).

    What HumanEval's prompt has before its function (imports, helpers) is put before the source: responses rarely repeat
    it. Limits as in sandbox.Program: seconds for each test, MiB.
    """
    entry_point = None if is_missing(row["entry_point"]) else str(row["entry_point"])
    setup = str(row["setup"])
    return Program(
        source=_preamble(setup, entry_point, source) + source,
        tests=[str(test) for test in row["test_cases"]],
        stdin_tests=[(str(given), str(expected)) for given, expected in row["stdin_tests"]],
        setup=setup,
        entry_point=entry_point,
        cpu_seconds=cpu_seconds,
        memory_mb=memory_mb,
        truncated=truncated,
    )


def _preamble(setup: str, entry_point: str | None, source: str) -> str:
    if entry_point is None or "from __future__" in source:  # which must stay first
        return ""
    stub = re.search(rf"^(async +)?def +{re.escape(entry_point)}\b", setup, re.MULTILINE)
    return setup[: stub.start()] if stub else ""


# ---- tests -------------------------------------------------------------------------------------------------------


def _tests(row: dict[str, Any], tests_key: str, solution: str | None) -> tuple[list[str], list[list[str]]]:
    """Assert texts and stdin pairs of a row, from the first column that has any."""
    column = next((name for name in (tests_key, *TESTS) if name in row), None)
    if column is None and "stdin_tests" not in row:
        raise RowError(f"there is no test (columns looked for: {', '.join((tests_key, 'stdin_tests', *TESTS))})")
    value = row[column] if column is not None else []
    if column == "reward_model":
        column = "reward_model.ground_truth"
        value = value.get("ground_truth") if isinstance(value, dict) else None
        if value is None:
            raise RowError("reward_model has no ground_truth")
    texts = [value for value in row.values() if isinstance(value, str)] + [json.dumps(row.get("prompt"), default=str)]
    in_class = any("class Solution" in text for text in [*texts, solution or ""])
    from_column = _read_tests(value, str(column), lambda name: f"Solution().{name}" if in_class else name)
    pairs = _json(row.get("stdin_tests", []), "stdin_tests")
    if not isinstance(pairs, list):
        raise RowError(f"stdin_tests is no list of [input, output], but {pairs!r:.80}")
    return from_column[0], from_column[1] + [_pair(pair, "stdin_tests") for pair in pairs]


def _read_tests(value: Any, column: str, callee: Callable[[str], str]) -> tuple[list[str], list[list[str]]]:
    value = _json(value, column)
    if isinstance(value, str):
        return ([value] if value.strip() else []), []
    if isinstance(value, dict):
        return _tests_of_object(value, column, callee)
    if not isinstance(value, list):
        raise RowError(f"{column} holds no tests, but {value!r:.80}")
    tests: list[str] = []
    stdin_tests: list[list[str]] = []
    for test in value:
        if isinstance(test, str) and test.strip():
            tests.append(test)
        elif isinstance(test, dict):
            _add_case(test, column, callee, tests, stdin_tests)
        else:
            raise RowError(f"{column}: a test is a text that is not empty, this is {test!r:.80}")
    return tests, stdin_tests


def _tests_of_object(
    value: dict[str, Any], column: str, callee: Callable[[str], str]
) -> tuple[list[str], list[list[str]]]:
    """Tests of a JSON object: APPS' inputs and outputs, or a text (or texts) under `functional` or `assert_case`."""
    for key in ("functional", "assert_case"):
        if value.get(key):
            texts = value[key]
            return _read_tests([texts] if isinstance(texts, str) else texts, f"{column}.{key}", callee)
    inputs, outputs = value.get("inputs"), value.get("outputs")
    if not isinstance(inputs, list) or not isinstance(outputs, list):
        raise RowError(f"{column} has neither lists inputs and outputs nor functional tests (keys: {', '.join(value)})")
    if len(inputs) != len(outputs):
        raise RowError(f"{column} has {len(inputs)} inputs and {len(outputs)} outputs")
    cases = zip(inputs, outputs, strict=True)
    if name := value.get("fn_name"):
        return [_call(callee(name), arguments, result, column) for arguments, result in cases], []
    return [], [_pair(case, column) for case in cases]


def _add_case(
    test: dict[str, Any], column: str, callee: Callable[[str], str], tests: list[str], stdin_tests: list[list[str]]
) -> None:
    """One {"input", "output"} object: a script's run, or a call where its `type` or `testtype` says so."""
    if "input" not in test or "output" not in test:
        raise RowError(f"{column}: a test has no input or no output (keys: {', '.join(test)})")
    kind = test.get("type") or test.get("testtype") or "stdin"
    if kind not in ("function_call", "functional"):
        stdin_tests.append(_pair((test["input"], test["output"]), column))
        return
    name = test.get("fn_name") or (test.get("metadata") or {}).get("func_name")
    if not name:
        raise RowError(f"{column}: a test of type {kind!r} names no function (fn_name)")
    arguments, result = test["input"], test["output"]
    if isinstance(arguments, str):  # one JSON value a line
        arguments = [_value(line, column) for line in arguments.splitlines()]
        result = _value(result, column)
    tests.append(_call(callee(name), arguments, result, column))


def _call(function: str, arguments: Any, result: Any, column: str) -> str:
    """The assert of a call. As in APPS' judge, a tuple is as good as a list, and [x] also stands for x.

    JSON has no integer keys: an object whose keys all read as integers is a dict with integer keys.
    """
    if not isinstance(arguments, list):
        raise RowError(f"{column}: the inputs of a function are a list of arguments, this is {arguments!r:.80}")
    called = f"{function}({', '.join(repr(_integer_keys(argument)) for argument in arguments)})"
    result = _integer_keys(result)
    accepted = [result]
    if isinstance(result, list):
        accepted += [tuple(result)]
        if result and all(isinstance(item, list) for item in result):
            accepted += [[tuple(item) for item in result], tuple(tuple(item) for item in result)]
        if len(result) == 1:
            accepted += [result[0], *([tuple(result[0])] if isinstance(result[0], list) else [])]
    return f"assert {called} == {result!r}" if len(accepted) == 1 else f"assert {called} in {accepted!r}"


def _integer_keys(value: Any) -> Any:
    if isinstance(value, list):
        return [_integer_keys(item) for item in value]
    if not isinstance(value, dict):
        return value
    whole = bool(value) and all(re.fullmatch(r"-?\d+", key) for key in value)
    return {int(key) if whole else key: _integer_keys(item) for key, item in value.items()}


def _pair(pair: Any, column: str) -> list[str]:
    if isinstance(pair, dict) and {"input", "output"} <= pair.keys():
        pair = (pair["input"], pair["output"])
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise RowError(f"{column}: a test is a pair [input, output], this is {pair!r:.80}")
    return [_lines(side, column) for side in pair]


def _lines(value: Any, column: str) -> str:
    """What a script reads or writes: a text, or a list of its lines."""
    if isinstance(value, list) and all(isinstance(line, str | int | float) for line in value):
        return "\n".join(map(str, value))
    if isinstance(value, str | int | float):
        return str(value)
    raise RowError(f"{column}: what a script reads or writes is text or a list of lines, this is {value!r:.80}")


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
    """The function of an MBPP+ row that has the name of a built-in, which its `test` would otherwise mean."""
    if solution is None or "test" not in row or not isinstance(row.get("test_list"), list):
        return None
    defined = re.findall(r"^def +(\w+)", solution, re.MULTILINE)
    calls = [name for name in defined if all(re.search(rf"\b{name}\(", str(test)) for test in row["test_list"])]
    return next((name for name in reversed(calls) if hasattr(builtins, name)), None)


def _packages(row: dict[str, Any]) -> tuple[str, ...]:
    value = _json(row.get("packages") or [], "packages")
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name.isidentifier() for name in names):
        raise RowError(f"packages is a list of modules, as [numpy], this is {value!r:.80}")
    return tuple(names)


def _solution(row: dict[str, Any], answer_key: str) -> str | None:
    for name in (answer_key, "solution"):
        if name in row:
            return _text(row, name) or None
    if "canonical_solution" in row:
        body = _text(row, "canonical_solution") or ""
        return row["prompt"] + body if _is_humaneval(row) else body
    if "test_list" in row and "code" in row:
        return _text(row, "code") or None
    solutions = _json(row.get("solutions") or [], "solutions")
    return str(solutions[0]) if isinstance(solutions, list) and solutions else None


def _prompt(row: dict[str, Any], prompt_key: str, tests: list[str]) -> Any:
    """What is asked: the column an own prompt_key names as it is; a bare HumanEval, MBPP or APPS problem instructed."""
    column = next((name for name in (prompt_key, "text", "question") if name in row), None)
    if column is None:
        raise RowError(f"there is no prompt: column {prompt_key!r} is missing or null. Name it with data.prompt_key=…")
    text = row[column]
    if not isinstance(text, str) or column == prompt_key != _DEFAULT_PROMPT or not text.strip():
        return text
    if _is_humaneval(row):
        return f"Complete this Python function. {_FENCE}\n\n```python\n{text.rstrip()}\n```"
    if "test_list" in row and tests:
        shown = row["test_list"][0] if "test" in row and row["test_list"] else tests[0]  # MBPP+ has hundreds in `test`
        return f"{text.strip()}\nThe program must pass this test:\n{shown}\n{_FENCE}"
    if "input_output" in row:
        starter = (_text(row, "starter_code") or "").strip()
        how = f"Go on from this code:\n{starter}" if starter else "It reads standard input and writes standard output."
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


def _json(value: Any, column: str) -> Any:
    """A text that begins like a JSON list or object as its value; anything else as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    return _value(value, column)


def _value(text: Any, column: str) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise RowError(f"{column} is not readable as JSON: {error}") from error
