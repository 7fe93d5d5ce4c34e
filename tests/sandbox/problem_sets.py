"""HumanEval and MBPP as programs (tests/data_sets.py says where they are), and stand-ins for rows of their plus sets.

The stand-ins have the shapes of HumanEval+ and MBPP+. The expected results are the reference solution's own on the
inputs of the original tests, repeated many times; the tests compare them with numpy, as EvalPlus does.
"""

import ast
import builtins
import contextlib
import copy
import gzip
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from sandbox import Program
from tests.data_sets import data_set
from tests.sandbox.sandbox_configurations import REPOSITORY

_HEAD = """import numpy as np
{more}
def is_floats(x) -> bool:
    # check if it is float; List[float]; Tuple[float]
    if isinstance(x, float):
        return True
    if isinstance(x, (list, tuple)):
        return all(isinstance(i, float) for i in x)
    if isinstance(x, np.ndarray):
        return x.dtype == np.float64 or x.dtype == np.float32
    return False


def assertion(out, exp, atol):
    exact_match = out == exp

    if atol == 0 and is_floats(exp):
        atol = 1e-6

    if not exact_match and atol != 0:
        assert np.allclose(out, exp, rtol=1e-07, atol=atol)
    else:
        assert exact_match

"""
_LOOP = """inputs = {inputs!r}
results = {results!r}
for i, (inp, exp) in enumerate(zip(inputs, results)):
    assertion({name}(*inp), exp, 0)
"""


def lines(name: str) -> list[dict[str, Any]]:
    path = data_set(name)
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as file:
        return [json.loads(line) for line in file]


def humaneval() -> list[Program]:
    """The 164 canonical solutions; the prompt's helpers come from the prompt."""
    return [
        Program(
            source=row["prompt"] + row["canonical_solution"],
            tests=[row["test"]],
            setup=row["prompt"],
            entry_point=row["entry_point"],
            cpu_seconds=10,
        )
        for row in lines("humaneval/HumanEval.jsonl.gz")
    ]


def mbpp() -> list[Program]:
    """The 974 canonical solutions."""
    return [
        Program(source=row["code"], tests=row["test_list"], setup=row["test_setup_code"], cpu_seconds=10)
        for row in lines("mbpp/mbpp.jsonl")
    ]


def _inputs(text: str, name: str) -> list[list[Any]]:
    """Arguments of a function's calls in a test's text, if they are literals."""
    inputs = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            with contextlib.suppress(ValueError):
                inputs.append([ast.literal_eval(argument) for argument in node.args])
    return inputs


def _results(source: str, name: str, inputs: list[list[Any]]) -> list[Any]:
    names: dict[str, Any] = {"__name__": "reference"}
    exec(source, names)
    return [names[name](*copy.deepcopy(arguments)) for arguments in inputs]


def _is_literal(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, MemoryError):
        return False


def plus_rows(kind: str, first: int = 10_000) -> list[tuple[str, dict[str, Any]]]:
    """(the function's name, a program's fields) of rows in the shape of humaneval_plus or mbpp_plus.

    Made by an interpreter whose sets have the order that the sandbox's have. first: how many problems.
    """
    lines("mbpp/mbpp.jsonl")  # skips without them
    text = f"import json; from tests.sandbox.problem_sets import {kind}; print(json.dumps([*{kind}({first})]))"
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True)
    return [tuple(row) for row in json.loads(done.stdout.splitlines()[-1])]  # references print, too


def _loop(source: str, name: str, text: str, called: str) -> str:
    """Comparisons of a function's results, three times, with what the reference gives for the calls in a text; empty
    where it needs more than its own text, or they are no literals."""
    inputs = _inputs(text, called)
    try:
        results = _results(source, name, inputs)
    except Exception:  # noqa: BLE001 - whatever a reference raises
        return ""
    is_usable = inputs and all(map(_is_literal, results))
    return _LOOP.format(inputs=inputs * 3, results=results * 3, name=called) if is_usable else ""


def humaneval_plus(first: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for row in lines("humaneval/HumanEval.jsonl.gz")[:first]:
        source, name = row["prompt"] + row["canonical_solution"], row["entry_point"]
        if loop := _loop(source, name, row["test"], "candidate"):
            test = f"{_HEAD.format(more='')}\ndef check(candidate):\n{textwrap.indent(loop, '    ')}"
            yield name, {"source": source, "tests": [test], "setup": row["prompt"], "entry_point": name}


def mbpp_plus(first: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for row in lines("mbpp/mbpp.jsonl")[:first]:
        asserts = "\n".join(row["test_list"])
        functions = [node.name for node in ast.parse(row["code"]).body if isinstance(node, ast.FunctionDef)]
        name = next((name for name in reversed(functions) if f"{name}(" in asserts), None)
        if name is None or row["test_setup_code"] or hasattr(builtins, name):
            continue
        if loop := _loop(row["code"], name, asserts, name):
            setup = "import math" if "math." in asserts else ""
            yield (
                name,
                {"source": row["code"], "tests": [_HEAD.format(more="from math import inf\n") + loop], "setup": setup},
            )
