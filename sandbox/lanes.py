"""Which of two lanes a test runs in, and which of its names are the program's: decided from trusted texts alone.

*Apart*: only data go into the program (sandbox/rule.py). The test runs in the checker, and its outcome can be trusted.
*In process*: everything else (callbacks, the program's exceptions, context managers, swapped streams, …). It runs among
the program's own objects, as plain Python runs it, and its outcome is only as honest as the program.

Texts are parsed here, never run. Nothing that a program does or returns has any influence.
"""

import ast
import builtins
import dataclasses
import functools
import importlib
import marshal
import re
import symtable
import zlib
from collections.abc import Callable
from typing import Any

from sandbox.program import Program, parse
from sandbox.rule import FUNCTIONS, MODULES, Rule

_NAMELESS = (ast.Constant, ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)
"""Nodes that never hold a name: most of a long literal's."""
_WITH_STATE = frozenset(("decimal", "random", "sys", "unittest"))
"""Modules, of those that a test may import apart, that it can change for later ones by a call."""
_CLASS_NAME = re.compile(r"_?[A-Z][A-Za-z0-9]*$")


@dataclasses.dataclass(frozen=True)
class Plan:
    """How to run one test."""

    text: str
    apart: bool
    """Whether it runs in the checker; else in the program's process."""
    objects: bool = False
    """Whether it is about the program's objects, not only about data."""
    classes: tuple[str, ...] = ()
    """Names of the program that mean classes."""
    functions: tuple[str, ...] = ()
    """Names of the program that the test calls."""
    values: tuple[str, ...] = ()
    """Names of the program that it only reads."""
    modules: tuple[str, ...] = ()
    """Modules that it names without importing them."""
    protected: tuple[str, ...] = ()
    """Built-ins that it names; they stay what they are, whatever the program binds to their names."""
    error: str = ""
    """Why it cannot be run at all, which is not the program's fault."""
    code: bytes = b""
    """Compiled, for the checker."""


@dataclasses.dataclass(frozen=True)
class _Text:
    """A text with its names."""

    text: str
    nodes: list[ast.AST] = dataclasses.field(default_factory=list)
    code: bytes = b""
    free: frozenset[str] = frozenset()  # names read as globals, and not bound at the text's top level
    bound: frozenset[str] = frozenset()  # at its top level, or by a `global` statement
    called: frozenset[str] = frozenset()
    candidate: str = ""  # the name of the function under test, if that is handed to check(candidate)
    error: str = ""  # why it cannot be run


@functools.lru_cache(maxsize=4096)
def problem(
    setup: str, tests: tuple[str, ...], entry_point: str | None, packages: tuple[str, ...] = ()
) -> tuple[list[Plan], dict[str, Any]]:
    """(a plan for each test of a problem, the same as the worker reads it). packages: modules of the environment."""
    read_setup = _read_or_explain(_stripped, "setup", setup, entry_point)
    texts = [_read_or_explain(_read_test, "test", text, entry_point) for text in tests]
    shadowing = _shadowing(texts, read_setup, entry_point)
    plans = [_plan(text, read_setup, shadowing, packages) for text in texts]
    apart = [text for text, plan in zip(texts, plans, strict=True) if plan.apart]
    modules = {name for plan in plans if plan.apart for name in plan.modules}
    job = {
        "plans": [vars(plan) for plan in plans],
        "setup": read_setup.text,
        "setup_code": read_setup.code,
        "leaves_traces": bool(apart) and _may_leave_traces([read_setup, *apart], modules),
        "seed": zlib.crc32(repr(list(tests)).encode("utf-8", "replace")),
    }
    return plans, job


def is_forgeable(program: Program, packages: tuple[str, ...] = ()) -> bool:
    """Whether a test of a program runs in the program's own process, by its text."""
    plans, _ = problem(program.setup, tuple(program.tests), program.entry_point, packages)
    return not all(plan.apart or plan.error for plan in plans)


def _read_or_explain(read: Callable[[str, str | None], _Text], what: str, text: str, entry_point: str | None) -> _Text:
    try:
        return read(text, entry_point)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return _Text(text, error=f"the {what} does not compile: {error}")


def _plan(test: _Text, setup: _Text, shadowing: str | None, packages: tuple[str, ...]) -> Plan:
    if setup.error or test.error:
        return Plan(text=test.text, apart=False, error=setup.error or test.error)
    free = (test.free - setup.bound) | (setup.free - test.bound)
    called = test.called | setup.called
    modules = {name for name in free & MODULES if name not in called}
    protected = {name for name in free - {shadowing} if hasattr(builtins, name)}
    protected -= {test.candidate}
    theirs = free - modules - protected - {"__name__", "__file__", "__doc__"}
    if test.candidate:
        theirs |= {test.candidate}
        called |= {test.candidate}
    functions = theirs & called
    classes = {name for name in theirs if _is_class(name, name in called)}
    rule = Rule(frozenset(theirs), modules, packages)
    apart = rule.sees_through([*setup.nodes, *test.nodes], free)
    if theirs - functions and any(isinstance(node, ast.ClassDef) for node in test.nodes):
        apart = False  # a class's body would not find the program's variables
    return Plan(
        text=test.text,
        apart=apart,
        objects=rule.asks_for_objects or bool(classes),
        classes=tuple(sorted(classes)),
        functions=tuple(sorted(functions)),
        values=tuple(sorted(theirs - functions)),
        modules=tuple(sorted(modules)),
        protected=tuple(sorted(protected)),
        code=test.code,
    )


def _may_leave_traces(texts: list[_Text], modules: set[str]) -> bool:
    """Whether what runs in the checker could change a module or a class there for the tests of the next program."""
    for node in (node for text in texts for node in text.nodes):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            modules.add(str(node.module))
        elif isinstance(node, ast.Attribute) and (node.attr == "register" or not isinstance(node.ctx, ast.Load)):
            return True
    return not modules.isdisjoint(_WITH_STATE)


def _shadowing(texts: list[_Text], setup: _Text, entry_point: str | None) -> str | None:
    """The name of a built-in that means the program's function, as in `assert sum(10, 15) == 6`.

    It is the entry point, unless check(candidate) tests it; or the only name that all tests call, if no test names
    anything else that could be the program's. Otherwise a program could replace what its tests are judged by.
    """
    if entry_point is not None:
        return None if any("check" in text.bound for text in texts) else entry_point
    free = [text.free - setup.bound for text in texts]
    if not free or any(not hasattr(builtins, name) and name not in MODULES for names in free for name in names):
        return None
    called = [text.called & text.free for text in texts]
    common = frozenset.intersection(*called)
    is_one = len(common) == 1 and all(names == common for names in called)
    return next(iter(common)) if is_one and common <= FUNCTIONS - {"isinstance", "print"} else None


def _read_test(text: str, entry_point: str | None) -> _Text:
    """A test's text. One that defines HumanEval's check(candidate), and leaves calling it to the judge, calls it."""
    tree = parse(text)
    defines_check = any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tree.body)
    if not defines_check or _calls_at_top_level(tree, "check"):
        return _read(text, tree, "<test>")
    if entry_point is None:
        return _Text(text, error="the test defines check(candidate), but no entry_point is given to check")
    text += f"\n\ncheck({entry_point})\n"
    candidate = entry_point if entry_point.isidentifier() else ""
    return dataclasses.replace(_read(text, parse(text), "<test>"), candidate=candidate)


def _read(text: str, tree: ast.Module, filename: str) -> _Text:
    free: set[str] = set()
    bound: set[str] = set()
    tables = [symtable.symtable(text, filename, "exec")]
    for table in tables:
        tables += table.get_children()
        is_top = table is tables[0]
        for symbol in table.get_symbols():
            name = symbol.get_name()
            if (is_top or symbol.is_declared_global()) and (symbol.is_assigned() or symbol.is_imported()):
                bound.add(name)
            if symbol.is_referenced() and (is_top or symbol.is_global()):
                free.add(name)
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
            bound.update(_public_names(str(statement.module)))
    read_first = _read_before_bound(tree)
    nodes = [node for node in ast.walk(tree) if not isinstance(node, _NAMELESS)]
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    code = marshal.dumps(compile(text, filename, "exec", dont_inherit=True))
    return _Text(text, nodes, code, frozenset(free - bound | read_first), frozenset(bound), frozenset(called))


def _read_before_bound(tree: ast.Module) -> set[str]:
    """Names that a line at the top level reads in order to bind them, as in `count = count(3)`."""
    bound: set[str] = set()
    found: set[str] = set()
    for line in tree.body:
        if isinstance(line, ast.FunctionDef | ast.ClassDef):
            bound.add(line.name)
            continue
        bound |= {node.asname or node.name for node in ast.walk(line) if isinstance(node, ast.alias)}
        names = [node for node in ast.walk(line) if isinstance(node, ast.Name)]
        stored = {name.id for name in names if isinstance(name.ctx, ast.Store)}
        if isinstance(line, ast.Assign):
            found |= stored & {name.id for name in names if isinstance(name.ctx, ast.Load)} - bound
        elif isinstance(line, ast.AugAssign):
            found |= stored - bound
        bound |= stored
    return found


def _public_names(module: str) -> list[str]:
    """What `from module import *` binds; nothing for modules that a test may not import apart from the program."""
    if module not in MODULES:
        return []
    names = vars(importlib.import_module(module))
    return list(names.get("__all__", [name for name in names if not name.startswith("_")]))


def _is_class(name: str, is_called: bool) -> bool:
    """Whether a name of the program's means a class, by how it is spelled: a constant is never called."""
    return _CLASS_NAME.match(name) is not None and (is_called or not (len(name) > 1 and name.isupper()))


def _calls_at_top_level(tree: ast.Module, name: str) -> bool:
    outside = [node for node in tree.body if not isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    calls = (node for line in outside for node in ast.walk(line) if isinstance(node, ast.Call))
    return any(isinstance(call.func, ast.Name) and call.func.id == name for call in calls)


def _stripped(setup: str, entry_point: str | None) -> _Text:
    """A setup without what the program had to write: the entry point and stubs of functions and classes."""
    tree = parse(setup)
    kept = [
        node for node in tree.body if not (_is_stub(node) or getattr(node, "name", None) == entry_point is not None)
    ]
    if len(kept) < len(tree.body):
        tree.body = kept
        setup = ast.unparse(tree)
    return _read(setup, tree, "<setup>")


def _is_stub(node: ast.stmt) -> bool:
    """A function, or a class of functions, of which a prompt shows only the signatures."""
    if isinstance(node, ast.ClassDef):
        functions = [line for line in node.body if isinstance(line, (ast.FunctionDef, ast.AsyncFunctionDef))]
        others = [line for line in node.body if line not in functions]
        return bool(functions) and all(map(_is_stub, functions)) and all(map(_says_nothing, others))
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and all(map(_says_nothing, node.body))


def _says_nothing(line: ast.stmt) -> bool:
    """A docstring, `pass`, `...` or NotImplementedError."""
    return (
        isinstance(line, ast.Pass)
        or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        or (isinstance(line, ast.Raise) and "NotImplementedError" in ast.unparse(line))
    )
