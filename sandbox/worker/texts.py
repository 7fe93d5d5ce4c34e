"""Texts that come with a program and are trusted: its tests, and the setup with the prompt's helpers."""

import ast
import dis
import types
from typing import Any

# Modules that a test may name without importing them. Always the checker's own, whatever the program calls so.
MODULES = frozenset(
    [
        "bisect",
        "cmath",
        "collections",
        "copy",
        "datetime",
        "decimal",
        "fractions",
        "functools",
        "heapq",
        "itertools",
        "json",
        "math",
        "operator",
        "random",
        "re",
        "statistics",
        "string",
        "sys",
        "typing",
    ]
)
# A test that uses one of these looks into the program's objects or drives its coroutines.
_IN_PROCESS_NAMES = frozenset(("asyncio", "inspect", "unittest", "mock", "__code__", "__closure__", "__globals__"))


def _is_stub(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A function of which a prompt shows only the head: docstring, pass, `...` or NotImplementedError."""
    return all(
        isinstance(line, ast.Pass)
        or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        or (isinstance(line, ast.Raise) and "NotImplementedError" in ast.unparse(line))
        for line in function.body
    )


def _names_in(code: types.CodeType) -> set[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names_in(constant)
    return found


_TRACE_LEAVING = frozenset(
    dis.opmap[name]
    for name in (
        "IMPORT_NAME",
        "STORE_ATTR",
        "DELETE_ATTR",
        "STORE_GLOBAL",
        "DELETE_GLOBAL",
        "LOAD_BUILD_CLASS",
        "MAKE_FUNCTION",
    )
)
_TRACE_LEAVING_NAMES = MODULES | {
    "eval",
    "exec",
    "compile",
    "open",
    "setattr",
    "delattr",
    "globals",
    "locals",
    "vars",
    "print",
}


def leaves_no_trace(code: types.CodeType) -> bool:
    """Whether running it cannot change anything outside its own globals."""
    return (
        _TRACE_LEAVING.isdisjoint(code.co_code[::2])
        and _TRACE_LEAVING_NAMES.isdisjoint(code.co_names)
        and not any(name.startswith("__") for name in code.co_names)
    )


class Test:
    """One compiled test text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.code = compile(text, "<test>", "exec", dont_inherit=True)
        self.names = _names_in(self.code)
        self.needs_in_process = not self.names.isdisjoint(_IN_PROCESS_NAMES) or "await " in text


class Setup:
    """The prompt's helpers: its functions win over the program's, its classes give way to them.

    Stubs (the head of the function that the program had to write) are no helpers. Objects must live where the program
    can use them, so a class that the program defines too is the program's.
    """

    def __init__(self, text: str, entry_point: str | None, program_names: dict[str, Any]) -> None:
        tree = ast.parse(text)
        kept: list[ast.stmt] = []
        self.functions: set[str] = set()
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if _is_stub(node) or node.name == entry_point:
                    continue
                self.functions.add(node.name)
            elif isinstance(node, ast.ClassDef) and node.name in program_names:
                continue
            kept.append(node)
        tree.body = kept
        self.code = compile(tree, "<setup>", "exec", dont_inherit=True)
        self.names = _names_in(self.code)
