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


def plus_rows(kind: str, times: int, first: int = 10_000) -> list[dict[str, Any]]:
    """Rows of humaneval_plus or mbpp_plus, made by an interpreter whose sets have the order that the sandbox's have.

    first: how many problems.
    """
    lines("mbpp/mbpp.jsonl")  # skips without them
    text = f"import json; from tests.sandbox.problem_sets import {kind}; print(json.dumps({kind}({times}, {first})))"
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True)
    printed: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])  # references print, too
    return printed


def humaneval_plus(times: int, first: int) -> list[dict[str, Any]]:
    """Rows: task_id, prompt, canonical_solution, entry_point, test."""
    rows = []
    for row in lines("humaneval/HumanEval.jsonl.gz")[:first]:
        inputs = _inputs(row["test"], "candidate")
        results = _results(row["prompt"] + row["canonical_solution"], row["entry_point"], inputs)
        if inputs and all(map(_is_literal, results)):
            loop = _LOOP.format(inputs=inputs * times, results=results * times, name="candidate")
            body = "".join(f"    {line}\n" for line in loop.splitlines())
            keys = ("task_id", "prompt", "canonical_solution", "entry_point")
            test = f"{_HEAD.format(more='')}\ndef check(candidate):\n{body}"
            rows.append({**{key: row[key] for key in keys}, "test": test})
    return rows


def mbpp_plus(times: int, first: int) -> list[dict[str, Any]]:
    """Rows: task_id, code, test_imports, test."""
    rows = []
    for row in lines("mbpp/mbpp.jsonl")[:first]:
        asserts = "\n".join(row["test_list"])
        functions = [node.name for node in ast.parse(row["code"]).body if isinstance(node, ast.FunctionDef)]
        name = next((name for name in reversed(functions) if f"{name}(" in asserts), None)
        if name is None or row["test_setup_code"] or hasattr(builtins, name):
            continue
        inputs = _inputs(asserts, name)
        try:
            results = _results(row["code"], name, inputs)
        except Exception:  # noqa: BLE001 - a reference that needs more than its own text
            continue
        if inputs and all(map(_is_literal, results)):
            loop = _LOOP.format(inputs=inputs * times, results=results * times, name=name)
            imports = ["import math"] if "math." in asserts else []
            test = _HEAD.format(more="from math import inf\n") + loop
            rows.append({"task_id": row["task_id"], "code": row["code"], "test_imports": imports, "test": test})
    return rows
