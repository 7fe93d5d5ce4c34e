"""Which of two lanes a test runs in, and which of its names are the program's: decided from trusted texts alone.

*Calls*: the test only calls the program's functions with plain data and looks at plain results. It runs in the checker,
apart from the program, and its outcome can be trusted. *In process*: everything else (the program's classes and
exceptions, callbacks, context managers, swapped streams, …). It runs among the program's own objects, as plain Python
runs it, and its outcome is only as honest as the program.

Texts are parsed here, never run. Nothing that a program does or returns has a say.
"""

import ast
import builtins
import dataclasses
import functools
import re
import symtable
from typing import Any

from sandbox.kinds import Kinds, Together
from sandbox.parsing import parse
from sandbox.vocabulary import MODULES, public_names, words

_NEVER_THEIRS = words(
    """
    callable compile delattr dir eval exec getattr globals hasattr isinstance issubclass locals open print setattr
    super type vars __import__
    """
)
_CLASS_NAME = re.compile(r"_?[A-Z][A-Za-z0-9]*$")


@dataclasses.dataclass(frozen=True)
class Plan:
    """How to run one test."""

    text: str
    apart: bool
    """Whether it runs in the checker; else in the program's process."""
    functions: tuple[str, ...] = ()
    """Names of the program that the test calls."""
    values: tuple[str, ...] = ()
    """Names of the program that it only reads."""
    modules: tuple[str, ...] = ()
    """Modules that it names without importing them."""
    protected: tuple[str, ...] = ()
    """Built-ins that it names; they stay what they are, whatever the program calls so."""
    calls_check: bool = False
    """The text defines HumanEval's check(candidate), and leaves calling it to the judge."""
    reason: str = ""
    """Why it does not run apart."""
    error: str = ""
    """Why it cannot be run at all, which is no fault of the program's."""


@dataclasses.dataclass(frozen=True)
class _Names:
    """Names of one text."""

    free: frozenset[str]  # read as globals, and not bound at the text's top level
    bound: frozenset[str]  # at its top level, or by a `global` statement
    called: frozenset[str]


@functools.lru_cache(maxsize=4096)
def plans(setup: str, tests: tuple[str, ...], entry_point: str | None) -> tuple[str, tuple[Plan, ...]]:
    """(the setup to run, a plan for each test) of one problem."""
    try:
        setup, setup_names, setup_body = _stripped(setup, entry_point)
        error = ""
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        error = f"the setup does not compile: {problem}"
        return "", tuple(Plan(text, apart=False, error=error) for text in tests)
    texts: list[tuple[str, _Names, ast.Module] | str] = []
    for text in tests:
        try:
            texts.append((text, _names(text, tree := parse(text)), tree))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
            texts.append(f"the test does not compile: {problem}")
    shadowing = _shadowing([entry for entry in texts if not isinstance(entry, str)], setup_names, entry_point)
    found = []
    for text, entry in zip(tests, texts, strict=True):
        if isinstance(entry, str):
            found.append(Plan(text, apart=False, error=entry))
        else:
            found.append(_plan(*entry, setup_names, setup_body, entry_point, shadowing))
    return setup, tuple(found)


def _plan(
    text: str,
    names: _Names,
    tree: ast.Module,
    setup_names: _Names,
    setup_body: list[ast.stmt],
    entry_point: str | None,
    shadowing: str | None,
) -> Plan:
    free = (names.free - setup_names.bound) | (setup_names.free - names.bound)
    called = names.called | setup_names.called
    modules = {name for name in free & MODULES if name not in called}
    protected = {name for name in free - {shadowing} if hasattr(builtins, name)}
    theirs = free - modules - protected - {"__name__", "__file__", "__doc__"}
    defines_check = any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tree.body)
    calls_check = defines_check and not _calls_at_top_level(tree, "check")
    if calls_check and entry_point is None:
        return Plan(text, apart=False, error="the test defines check(candidate), but no entry_point is given to check")
    if calls_check and entry_point is not None:
        theirs = theirs | {entry_point}
        called = called | {entry_point}
    functions = theirs & called
    reason = ""
    try:
        if any(_is_class(name, name in called) for name in theirs):
            raise Together("it uses the program's classes")
        if theirs - functions and any(isinstance(node, ast.ClassDef) for node in ast.walk(tree)):
            raise Together("its classes may read the program's variables")
        Kinds(theirs, modules, entry_point if calls_check else None).check([*setup_body, *tree.body])
    except Together as why:
        reason = str(why)
    except RecursionError:
        reason = "nested too deeply"
    return Plan(
        text=text,
        apart=not reason,
        functions=tuple(sorted(functions)),
        values=tuple(sorted(theirs - functions)),
        modules=tuple(sorted(modules)),
        protected=tuple(sorted(protected)),
        calls_check=calls_check,
        reason=reason,
    )


def _shadowing(texts: list[tuple[str, _Names, ast.Module]], setup_names: _Names, entry_point: str | None) -> str | None:
    """The built-in's name that is meant to be the program's, as in `assert sum(10, 15) == 6`.

    The entry point's, unless check(candidate) is what tests it; or the only name that all tests call, where no test
    names anything else that could be the program's. Otherwise a program could replace what its tests are judged by.
    """
    if entry_point is not None:
        return None if any("check" in names.bound for _, names, _ in texts) else entry_point
    free = [names.free - setup_names.bound for _, names, _ in texts]
    if not free or any(not hasattr(builtins, name) and name not in MODULES for found in free for name in found):
        return None
    called = [names.called & names.free for _, names, _ in texts]
    common = frozenset.intersection(*called)
    is_one = len(common) == 1 and all(found == common for found in called) and not common & _NEVER_THEIRS
    return next(iter(common)) if is_one else None


def _names(text: str, tree: ast.Module) -> _Names:
    free: set[str] = set()
    bound: set[str] = set()
    todo = [symtable.symtable(text, "<test>", "exec")]
    while todo:
        table = todo.pop()
        todo += table.get_children()
        is_top = table.get_type() == "module"
        for symbol in table.get_symbols():
            name = symbol.get_name()
            if (is_top or symbol.is_declared_global()) and (symbol.is_assigned() or symbol.is_imported()):
                bound.add(name)
            if symbol.is_referenced() and (is_top or symbol.is_global()):
                free.add(name)
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            bound.update(public_names(str(node.module)))
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return _Names(frozenset(free - bound), frozenset(bound), frozenset(called))


def _is_class(name: str, is_called: bool) -> bool:
    """Whether a name of the program's means a class, by how it is spelled: a constant is never called."""
    return _CLASS_NAME.match(name) is not None and (is_called or not (len(name) > 1 and name.isupper()))


def _calls_at_top_level(tree: ast.Module, name: str) -> bool:
    outside = [node for node in tree.body if not isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    calls = (node for line in outside for node in ast.walk(line) if isinstance(node, ast.Call))
    return any(isinstance(call.func, ast.Name) and call.func.id == name for call in calls)


def _stripped(setup: str, entry_point: str | None) -> tuple[str, _Names, list[ast.stmt]]:
    """A setup without what the program had to write: the entry point and stubs of functions and classes."""
    tree = parse(setup)
    kept = [
        node for node in tree.body if not (_is_stub(node) or getattr(node, "name", None) == entry_point is not None)
    ]
    if len(kept) < len(tree.body):
        tree.body = kept
        setup = ast.unparse(tree)
    return setup, _names(setup, tree), kept


def _is_stub(node: ast.stmt) -> bool:
    """A function, or a class of functions, of which a prompt shows only the heads."""
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


def as_job(plan: Plan) -> dict[str, Any]:
    """A plan as the worker reads it."""
    return {field.name: getattr(plan, field.name) for field in dataclasses.fields(Plan) if field.name != "reason"}
