"""Turn the tests of a published row into what the sandbox runs: texts, and [input, output] pairs for scripts.

Covered: the shapes that tests have in published sets, whatever the column is called; `unittest` classes, one text a
method. Not covered: which columns hold tests, and where the rest of a row is (ares/data/code_sets.py).

A call of a function (`fn_name`) becomes `assert same(call_f(1), [2])`: plain data there and back, so that the test is
judged apart from the program (sandbox/lanes.py), which `Solution().f(1)` would not be. `call_f` is put after the
program (`adapter`) and calls its function, be it plain or a method of class Solution; `same` (SAME) is the test's own.
"""

import ast
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from sandbox import parse

SAME = '''
def same(result, expected):
    """As contests judge: a tuple is as good as a list, and a float may be off by a millionth."""
    if isinstance(result, (list, tuple)) and isinstance(expected, list):
        return len(result) == len(expected) and all([same(*pair) for pair in zip(result, expected)])
    if isinstance(result, dict) and isinstance(expected, dict):
        return result.keys() == expected.keys() and all([same(result[key], expected[key]) for key in expected])
    if isinstance(result, (int, float)) and isinstance(expected, (int, float)):
        whole = isinstance(result, int) and isinstance(expected, int)
        near = 1e-6 * max(1, min(abs(result), abs(expected)))
        return result == expected or (not whole and abs(result - expected) <= near)
    return result == expected


def same_or_wrapped(result, expected):
    """A list of one result also stands for the result."""
    return same(result, expected) or same(result, expected[0])
'''
"""Setup of tests that call functions, compared as contests do."""

_IMPORTED = (
    "string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics", "itertools",
    "functools", "operator", "io", "sys", "json", "builtins", "typing",
)  # fmt: skip
CONTEST_IMPORTS = "\n".join(
    [
        *(f"from {name} import *" for name in _IMPORTED),
        *(f"import {name}" for name in _IMPORTED if name not in ("builtins", "typing")),
        "sys.setrecursionlimit(50000)\n",
    ]
)
"""LiveCodeBench's judge puts this before every program, those of APPS and TACO something equivalent: solutions of these
sets rarely import what they use."""
_DIGITS = 4000
"""Python converts at most 4300 digits between text and int at once; APPS and TACO have longer numbers."""
_LONG = 10**_DIGITS


class RowError(ValueError):
    """A row cannot be used; the message names the column. Callers add file and row."""


class NoTests(RowError):
    """A row has no tests. Published sets contain such rows, so they are left out."""


@dataclass
class Tests:
    """The tests of a row."""

    texts: list[str] = field(default_factory=list)
    """Assert statements, or texts that define check(candidate)."""
    pairs: list[list[str]] = field(default_factory=list)
    """[input, expected output] of scripts."""
    functions: list[str] = field(default_factory=list)
    """Functions that texts call through an adapter."""
    of_contest: bool = False
    """Whether tests are inputs and outputs, as in contests."""


def adapter(function: str, arguments: str = "*arguments") -> str:
    """Code put after a program: `call_NAME` calls its function NAME, plain or a method of class Solution."""
    return (
        f"\n\ndef call_{function}({arguments}):\n"
        f'    solution = globals().get("Solution")\n'
        f'    if isinstance(solution, type) and hasattr(solution, "{function}"):\n'
        f"        return solution().{function}({arguments})\n"
        f'    if "{function}" not in globals():\n'
        f"        raise NameError(\"name '{function}' is not defined\")\n"
        f"    return {function}({arguments})\n"
    )


def imports_without(functions: list[str]) -> str:
    """CONTEST_IMPORTS without the names of functions that the program has to define."""
    return CONTEST_IMPORTS + "".join(f'globals().pop("{name}", None)\n' for name in functions)


def json_value(value: Any, column: str) -> Any:
    """Parse a text that begins like a JSON list or object; return anything else unchanged. Raises RowError."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    return _parsed(value, column)


def _parsed(text: Any, column: str) -> Any:
    try:
        return json.loads(text, parse_int=_whole_number)
    except (TypeError, ValueError, RecursionError) as error:
        raise RowError(f"{column} is not readable as JSON: {error}") from error


def _whole_number(digits: str) -> int:
    return int(digits) if len(digits) < _DIGITS else int(Decimal(digits))


def _is_long(value: Any) -> bool:
    return isinstance(value, int) and abs(value) >= _LONG


class TestReader:
    """Adds the tests that columns hold to `tests`.

    function: the function that tests call if they name none. has_checker: the row's own checker compares.
    """

    def __init__(self, function: str | None = None, has_checker: bool = False) -> None:
        self.tests = Tests()
        self._function = function
        self._has_checker = has_checker

    def read(self, value: Any, column: str) -> None:
        """Add a text, a list of texts and objects, an object, or the JSON of one. Raises RowError."""
        value = json_value(value, column)
        if isinstance(value, str):
            self.tests.texts += _split(value) if value.strip() else []
        elif isinstance(value, dict):
            self._read_object(value, column)
        elif not isinstance(value, list):
            raise RowError(f"{column} holds no tests, but {value!r:.80}")
        else:
            for test in value:
                if isinstance(test, dict):
                    self._add_case(test, column)
                elif isinstance(test, str) and test.strip():
                    self.tests.texts.append(test)
                else:
                    raise RowError(f"{column}: a test is a text that is not empty, this is {test!r:.80}")

    def read_pairs(self, value: Any, column: str) -> None:
        """Add a list of [input, output] of scripts. Raises RowError."""
        pairs = json_value(value, column)
        if not isinstance(pairs, list):
            raise RowError(f"{column} is no list of [input, output], but {pairs!r:.80}")
        self.tests.pairs += [_pair(pair, column) for pair in pairs]

    def _read_object(self, value: dict[str, Any], column: str) -> None:
        """Inputs and outputs (APPS, TACO; CodeContests: input, output), or texts under `functional`, `assert_case`."""
        if texts := value.get("functional") or value.get("assert_case"):
            self.read([texts] if isinstance(texts, str) else texts, column)
            return
        inputs, outputs = value.get("inputs", value.get("input")), value.get("outputs", value.get("output"))
        if not isinstance(inputs, list) or not isinstance(outputs, list):
            keys = ", ".join(value)
            raise RowError(f"{column} has neither lists inputs and outputs nor functional tests (keys: {keys})")
        if len(inputs) != len(outputs):
            raise RowError(f"{column} has {len(inputs)} inputs and {len(outputs)} outputs")
        for given, expected in zip(inputs, outputs, strict=True):
            if name := value.get("fn_name"):
                self._add_call(name, given, expected, column, may_be_wrapped=True)
            else:
                self._add_pair((given, expected), column)

    def _add_case(self, test: dict[str, Any], column: str) -> None:
        """One {"input", "output"} object: a script's run, or a call where its `type` or `testtype` says so."""
        if "input" not in test or "output" not in test:
            raise RowError(f"{column}: a test has no input or no output (keys: {', '.join(test)})")
        kind = test.get("type") or test.get("testtype") or "stdin"
        if kind not in ("function_call", "functional"):
            self._add_pair((test["input"], test["output"]), column)
            return
        name = test.get("fn_name") or function_in(test.get("metadata")) or self._function
        if not name:
            raise RowError(f"{column}: a test of type {kind!r} names no function (fn_name)")
        self._add_call(name, test["input"], test["output"], column, may_be_wrapped=False)

    def _add_pair(self, pair: Any, column: str) -> None:
        self.tests.of_contest = True
        self.tests.pairs.append(_pair(pair, column))

    def _add_call(self, function: Any, arguments: Any, result: Any, column: str, may_be_wrapped: bool) -> None:
        """The assert of a call. may_be_wrapped: [x] also stands for x, as APPS' judge has it."""
        if not isinstance(function, str) or not function.isidentifier():
            raise RowError(f"{column}: fn_name is no name of a function: {function!r:.80}")
        if isinstance(arguments, str):  # one JSON value a line
            arguments = [_parsed(line, column) for line in arguments.splitlines()]
            result = _parsed(result, column)
        if not isinstance(arguments, list):
            raise RowError(f"{column}: the inputs of a function are a list of arguments, this is {arguments!r:.80}")
        given = _literal(arguments)
        called, expected = f"call_{function}({given[1:-1]})", _literal(result)
        if self._has_checker:
            text = f"assert check({given}, {expected}, {called})"
        elif result is None or isinstance(result, str | bool | int):
            text = f"assert {called} == {expected}"
        else:
            wrapped = may_be_wrapped and isinstance(result, list) and len(result) == 1
            text = f"assert {'same_or_wrapped' if wrapped else 'same'}({called}, {expected})"
        self.tests.texts.append(text)
        self.tests.of_contest = True
        if function not in self.tests.functions:
            self.tests.functions.append(function)


def function_in(metadata: Any) -> str | None:
    """LiveCodeBench's metadata.func_name, of an object or its JSON text."""
    value = json_value(metadata, "metadata")
    return value.get("func_name") if isinstance(value, Mapping) else None


def _literal(value: Any) -> str:
    """A JSON value as a Python literal. JSON has no integer keys: an object whose keys all read as integers becomes a
    dict with integer keys."""
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        whole = bool(value) and all(re.fullmatch(r"-?\d+", key) for key in value)
        return f"{{{', '.join(f'{int(key) if whole else key!r}: {_literal(item)}' for key, item in value.items())}}}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    return hex(value) if _is_long(value) else repr(value)


def _pair(pair: Any, column: str) -> list[str]:
    if isinstance(pair, dict) and {"input", "output"} <= pair.keys():
        pair = (pair["input"], pair["output"])
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise RowError(f"{column}: a test is a pair [input, output], this is {pair!r:.80}")
    return [_lines(side, column) for side in pair]


def _lines(value: Any, column: str) -> str:
    """A script's input or output: a text, or a list of lines."""
    lines = value if isinstance(value, list) else [value]
    if not all(isinstance(line, str | int | float) for line in lines):
        raise RowError(f"{column}: what a script reads or writes is text or a list of lines, this is {value!r:.80}")
    return "\n".join(format(Decimal(line), "f") if _is_long(line) else str(line) for line in lines)


def _split(text: str) -> list[str]:
    """Split a text that defines unittest classes without running them into a test per method (BigCodeBench)."""
    if "TestCase" not in text or "unittest.main(" in text:
        return [text]
    try:
        methods = list(_methods(parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [text]  # which `ares data check` names
    return [f"{text.rstrip()}\n{_RUN_ONE.format(case=case, method=method)}" for case, method in methods] or [text]


_RUN_ONE = '''

def run_one(suite):
    """Raise what one test of a class ends with."""
    import unittest
    outcome = unittest.TestResult()
    unittest.TestSuite([suite]).run(outcome)
    for _, trace in outcome.errors:
        raise RuntimeError(trace.strip().splitlines()[-1])
    for _, trace in outcome.failures:
        raise AssertionError(trace.strip().splitlines()[-1])


run_one({case}("{method}"))
'''


def _methods(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any("TestCase" in ast.unparse(base) for base in node.bases):
            for line in node.body:
                if isinstance(line, ast.FunctionDef) and line.name.startswith("test"):
                    yield node.name, line.name
