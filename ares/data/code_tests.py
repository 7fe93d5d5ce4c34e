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
from typing import Any, TypeGuard

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
OWN_PAIRS = "stdin_tests"
"""Our own column of [input, output] pairs of scripts, whose outputs are compared line by line."""
WRAPPED = "may be wrapped"
"""Key of cases whose [x] also stands for x, as APPS' judge has it; of PrimeIntellect's, whose `type` is
`function_call`, it does so too."""
UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What `parse` raises of a text that is not Python."""


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
        return json.loads(text, parse_int=lambda digits: int(Decimal(digits) if len(digits) > _DIGITS else digits))
    except (TypeError, ValueError, RecursionError) as error:
        raise RowError(f"{column} is not readable as JSON: {error}") from error


def _is_long(value: Any) -> bool:
    return isinstance(value, int) and abs(value) >= _LONG


def read_tests(columns: Mapping[str, Any], function: Any = None, has_checker: bool = False) -> Tests:
    """The tests of all columns, each a text, a list of texts and cases, an object, or the JSON of one.

    function: the function that cases call if they name none. has_checker: the row's own checker compares. Raises
    RowError.
    """
    tests = Tests()
    for column, value in columns.items():
        for test in _listed(json_value(value, column), column):
            if isinstance(test, str) and test.strip() and column != OWN_PAIRS:
                tests.texts.append(test)
                continue
            if isinstance(test, list) and len(test) == 2 and column == OWN_PAIRS:
                test = dict(zip(("input", "output"), test, strict=True))
            if not isinstance(test, dict) or not {"input", "output"} <= test.keys():
                raise RowError(f"{column}: a test is a text, or has an input and an output, this is {test!r:.80}")
            kind = test.get("type") or test.get("testtype") or ("functional" if test.get("fn_name") else "stdin")
            if kind not in ("function_call", "functional"):
                tests.pairs.append([_lines(test[side], column) for side in ("input", "output")])
                tests.of_contest |= column != OWN_PAIRS
                continue
            name = test.get("fn_name") or function_in(test.get("metadata")) or function
            if not isinstance(name, str) or not name.isidentifier():
                raise RowError(f"{column}: a test of type {kind!r} names no function: fn_name is {name!r:.80}")
            tests.texts.append(_call(name, test, column, has_checker))
            tests.functions += [name] if name not in tests.functions else []
            tests.of_contest = True
    return tests


def _listed(value: Any, column: str) -> list[Any]:
    """Texts and cases: of a text, a list, inputs and outputs (APPS, TACO; CodeContests: input, output), or texts under
    `functional` or `assert_case` (verl)."""
    if isinstance(value, list):
        return value
    if isinstance(value, str):
        return _split(value, column) if value.strip() else []
    if not isinstance(value, dict):
        raise RowError(f"{column} holds no tests, but {value!r:.80}")
    if texts := value.get("functional") or value.get("assert_case"):
        return _listed(texts, column)
    found = [[value.get(name) for name in (f"{side}s", side)] for side in ("input", "output")]
    inputs, outputs = (other if one is None else one for one, other in found)  # nulls, as parquet fills them in
    if not isinstance(inputs, list) or not isinstance(outputs, list):
        keys = ", ".join(value)
        raise RowError(f"{column} has neither lists inputs and outputs nor functional tests (keys: {keys})")
    if len(inputs) != len(outputs):
        raise RowError(f"{column} has {len(inputs)} inputs and {len(outputs)} outputs")
    both = zip(inputs, outputs, strict=True)
    return [{"input": one, "output": other, "fn_name": value.get("fn_name"), WRAPPED: True} for one, other in both]


def _call(function: str, test: dict[str, Any], column: str, has_checker: bool) -> str:
    """The assert of a call."""
    arguments, result = test["input"], test["output"]
    if isinstance(arguments, str):  # one JSON value a line
        # Not splitlines: U+2028 may stand within a JSON text.
        arguments = [_parsed(line, column) for line in arguments.split("\n") if line.strip()]
        result = _parsed(result, column)
    if not isinstance(arguments, list):
        raise RowError(f"{column}: the inputs of a function are a list of arguments, this is {arguments!r:.80}")
    given, expected = _literal(arguments), _literal(result)
    called = f"call_{function}({given[1:-1]})"
    if has_checker:
        return f"assert check({given}, {expected}, {called})"
    if result is None or isinstance(result, str | bool | int):
        return f"assert {called} == {expected}"
    may_be = WRAPPED in test or test.get("type") == "function_call"
    wrapped = may_be and isinstance(result, list) and len(result) == 1
    return f"assert {'same_or_wrapped' if wrapped else 'same'}({called}, {expected})"


def function_in(metadata: Any) -> Any:
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


def _lines(value: Any, column: str) -> str:
    """A script's input or output: a text, or a list of lines."""
    lines = value if isinstance(value, list) else [value]
    if not all(isinstance(line, str | int | float) for line in lines):
        raise RowError(f"{column}: what a script reads or writes is text or a list of lines, this is {value!r:.80}")
    return "\n".join(format(Decimal(line), "f") if _is_long(line) else str(line) for line in lines)


def _split(text: str, column: str) -> list[str]:
    """Split a text that defines unittest classes without running them into a test per method, its bases' included
    (BigCodeBench). Raises RowError where a test would not be run."""
    if "TestCase" not in text or "unittest.main(" in text:
        return [text]
    try:
        body = parse(text).body
    except UNPARSABLE:
        return [text]  # which `ares data check` names
    kinds: dict[str, str] = {}
    methods: dict[str, list[_Function]] = {}
    for node in (each for each in body if isinstance(each, ast.ClassDef)):
        bases = [ast.unparse(base) for base in node.bases]
        kinds[node.name] = " ".join(kinds.get(base, base) for base in bases)
        methods[node.name] = found = [line for line in node.body if _is_test(line)]
        for base in bases:
            found += [each for each in methods.get(base, ()) if each.name not in [own.name for own in found]]
    run = [(case, each) for case, of in methods.items() if "TestCase" in kinds[case] for each in of]
    if not run:
        return [text]
    for case, method in run:
        if isinstance(method, ast.AsyncFunctionDef) and "Async" not in kinds[case]:
            raise RowError(f"{column}: {case}.{method.name} is async, but in no unittest.IsolatedAsyncioTestCase")
    used = {each.id for node in body for each in ast.walk(node) if isinstance(each, ast.Name)}
    runs = [method for _, method in run]
    for statement in body:
        for test in _tests_in(statement) if getattr(statement, "name", None) not in used else ():
            if test not in runs:
                raise RowError(f"{column}: {test.name} would not be run: it is in no unittest.TestCase")
    return [f"{text.rstrip()}\n{_RUN_ONE.format(case=case, method=method.name)}" for case, method in run]


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _is_test(node: ast.AST) -> TypeGuard[_Function]:
    return isinstance(node, _Function) and node.name.startswith("test")


def _tests_in(node: ast.AST) -> Iterator[_Function]:
    """The test functions of a statement, not those within functions."""
    if _is_test(node):
        yield node
    elif not isinstance(node, _Function):
        for child in ast.iter_child_nodes(node):
            yield from _tests_in(child)


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
    if outcome.skipped or outcome.expectedFailures:
        raise AssertionError("the test did not run to its end")


run_one({case}("{method}"))
'''
