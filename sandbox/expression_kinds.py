"""What a test's expressions may hold, as far as their text shows.

A variable has one of a few kinds, regardless of scope; any doubt raises InProcessOnly, which says why. Not covered:
statements (sandbox/kinds.py), and whether the program may see a change (sandbox/changes.py).
"""

import ast
import builtins
from collections.abc import Iterable

from sandbox import package_vocabulary, vocabulary
from sandbox.changes import Changes
from sandbox.parsing import below

# What an expression may hold, from least to most demanding. DATA: made by the test, plain. THEIRS: came from the
# program. FUNCTION: a function of the program. The others make sense only in the test's own process.
DATA, THEIRS, FUNCTION, ITERATOR, THEIR_ITERATOR, LOCAL = range(6)


class InProcessOnly(Exception):
    """The test needs the program's own process; the message says why."""


class ExpressionKinds:
    """Tracks the kinds of names as they are bound, and of expressions that use them."""

    def __init__(
        self, theirs: Iterable[str], modules: Iterable[str], entry_point: str | None, packages: Iterable[str] = ()
    ) -> None:
        """packages: modules that can be imported besides the standard library's."""
        self._theirs = frozenset(theirs)
        self._modules = {name: name for name in modules}  # by the name that the text gives them
        self._entry_point = entry_point
        self._packages = frozenset(packages)
        self._package_types: set[str] = set()  # imported by name
        self._uses_packages = False
        # A text without packages uses none of their values: `size` is then a method of the program's own class.
        self._data_attributes, self._data_fields = vocabulary.DATA_ATTRIBUTES, vocabulary.DATA_FIELDS
        self._mutators = vocabulary.MUTATORS
        self._kinds: dict[str, int] = {}
        self._results: dict[str, int] = {}  # of the test's own functions
        self._parameters: dict[str, list[str]] = {}
        self._exceptions: set[str] = set()  # names bound by `except … as`
        self._own: set[str] = set()  # first parameters of methods of the test's own classes
        self._function: str | None = None  # whose body is being read
        self._unused: ast.expr | None = None  # the latest expression that is a statement
        self._changes = Changes()

    # Targets

    def _join(self, name: str, kind: int) -> None:
        self._kinds[name] = max(kind, self._kinds.get(name, DATA))

    def _bind(self, target: ast.expr, kind: int) -> None:
        if isinstance(target, ast.Name):
            self._join(target.id, kind)
            if kind == THEIRS:
                self._changes.note_result(target)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self._bind(part, items_of(kind))
        elif isinstance(target, ast.Starred):
            self._bind(target.value, kind)
        elif isinstance(target, ast.Subscript):
            self._kind(target.slice)
            self._change(target.value, kind)
        elif not (
            isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id in self._own
        ):
            raise InProcessOnly("it sets an attribute")

    def _change(self, target: ast.expr, added: int = DATA) -> None:
        """The test changes what this expression holds, perhaps by putting something into it."""
        kind = self._kind(target)
        root = target
        while isinstance(root, (ast.Subscript, ast.Attribute)):
            root = root.value
        if isinstance(root, ast.Name) and root.id not in self._theirs:
            self._join(root.id, added)
            self._changes.note_change(None if kind >= THEIRS else root.id, target)
        elif isinstance(root, ast.Name):
            raise InProcessOnly("it changes the program's variables")
        elif kind >= THEIRS:
            self._changes.note_change(None, target)

    # Expressions

    def _maybe(self, node: ast.expr | None) -> int:
        return DATA if node is None else self._kind(node)

    def _kind(self, node: ast.expr) -> int:
        method = getattr(self, f"_of_{type(node).__name__}", None)
        if method is None:
            raise InProcessOnly(f"it has a {type(node).__name__} expression")
        kind: int = method(node)
        return kind

    def _all(self, nodes: Iterable[ast.expr | None]) -> int:
        return max((self._kind(node) for node in nodes if node is not None), default=DATA)

    def _of_Constant(self, node: ast.Constant) -> int:
        return DATA

    def _of_Name(self, node: ast.Name) -> int:
        name = node.id
        if name in self._kinds:
            self._changes.note_look(node)
            return self._kinds[name]
        if name in self._theirs or name in vocabulary.FUNCTIONS:  # built-ins cross by name
            return FUNCTION
        if hasattr(builtins, name) and name not in vocabulary.EXCEPTIONS and name != "__name__":
            raise InProcessOnly(f"it uses {name}")
        return DATA if name == "__name__" else LOCAL

    def _of_JoinedStr(self, node: ast.JoinedStr) -> int:
        self._all(node.values)
        return DATA

    def _parts(self, node: ast.AST) -> int:
        return self._all(part for part in below(node) if isinstance(part, ast.expr))

    _of_List = _of_Tuple = _of_Set = _of_Dict = _of_BinOp = _of_BoolOp = _of_UnaryOp = _of_IfExp = _of_Slice = _parts
    _of_FormattedValue = _parts

    def _of_Starred(self, node: ast.Starred) -> int:
        return items_of(self._kind(node.value))

    def _of_NamedExpr(self, node: ast.NamedExpr) -> int:
        kind = self._kind(node.value)
        self._bind(node.target, kind)
        return kind

    def _of_Compare(self, node: ast.Compare) -> int:
        self._all((node.left, *node.comparators))
        if any(isinstance(operator, (ast.Is, ast.IsNot)) for operator in node.ops):
            sides = (node.left, *node.comparators)
            constants = [side for side in sides if isinstance(side, ast.Constant) and side.value in (None, True, False)]
            if len(constants) < len(sides) - 1:
                raise InProcessOnly("it compares identities")
        return DATA

    def _of_Subscript(self, node: ast.Subscript) -> int:
        self._kind(node.slice)
        return items_of(self._kind(node.value))

    def _of_Lambda(self, node: ast.Lambda) -> int:
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            self._join(argument.arg, THEIRS)
        for other in (node.args.vararg, node.args.kwarg):
            if other is not None:
                self._join(other.arg, THEIRS)
        self._all((*node.args.defaults, *node.args.kw_defaults))
        with self._changes.repeated():  # called any number of times
            self._kind(node.body)
        return LOCAL

    def _of_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> int:
        for part in node.generators:
            if part.is_async:
                raise InProcessOnly("it is asynchronous")
            self._bind(part.target, items_of(self._kind(part.iter)))
            self._all(part.ifs)
        with self._changes.repeated():
            return self._all((node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,))

    _of_SetComp = _of_DictComp = _of_ListComp

    def _of_GeneratorExp(self, node: ast.GeneratorExp) -> int:
        kind = self._of_ListComp(node)
        return ITERATOR if kind == DATA else max(THEIR_ITERATOR, kind)

    def _of_Attribute(self, node: ast.Attribute) -> int:
        kind = self._looked_at(node)
        return kind if self._module(node.value) is not None or node.attr in self._data_fields else max(kind, LOCAL)

    def _looked_at(self, node: ast.Attribute) -> int:
        """The kind of a module's attribute, or of the value that has the attribute."""
        if (module := self._module(node.value)) is not None:
            if module in package_vocabulary.MODULES:
                if node.attr in package_vocabulary.TOGETHER_ATTRIBUTES or node.attr.startswith("_"):
                    raise InProcessOnly(f"it uses {module}.{node.attr}")
                return DATA if node.attr in package_vocabulary.VALUES else LOCAL
            if node.attr in vocabulary.TOGETHER_ATTRIBUTES or node.attr.startswith("_"):
                raise InProcessOnly(f"it uses {module}.{node.attr}")
            if module == "sys" and node.attr not in vocabulary.SYS:
                raise InProcessOnly(f"it uses sys.{node.attr}")
            return DATA if f"{module}.{node.attr}" in vocabulary.DATA_OF_MODULES else LOCAL
        kind = self._kind(node.value)
        if isinstance(node.value, ast.Name) and node.value.id in self._exceptions:
            if node.attr not in vocabulary.EXCEPTION_ATTRIBUTES:
                raise InProcessOnly(f"it looks at .{node.attr} of an exception")
            return THEIRS
        if node.attr.startswith("_") or (kind != LOCAL and node.attr not in self._data_attributes):
            raise InProcessOnly(f"it looks at .{node.attr}")
        if kind == FUNCTION and not (isinstance(node.value, ast.Name) and node.value.id in vocabulary.PLAIN_TYPES):
            raise InProcessOnly("it looks into a function of the program's")
        return LOCAL if kind == FUNCTION else kind

    def _module(self, node: ast.expr) -> str | None:
        """The module that an expression names."""
        if isinstance(node, ast.Name) and node.id not in self._kinds:
            return self._modules.get(node.id)
        if isinstance(node, ast.Attribute) and (outer := self._module(node.value)) is not None:
            inner = f"{outer}.{node.attr}"
            return inner if inner in package_vocabulary.MODULES else None
        return None

    def _of_Call(self, node: ast.Call) -> int:
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        function = node.func
        if isinstance(function, ast.Attribute):
            if self._uses_packages and any(
                keyword.arg in package_vocabulary.CHANGING_KEYWORDS for keyword in node.keywords
            ):
                raise InProcessOnly("it has a result written into an argument")
            return self._method_call(function, arguments)
        if isinstance(function, ast.Name) and function.id not in self._kinds:
            if function.id in self._theirs:
                return self._program_call(node, arguments)
            return self._builtin_call(function.id, arguments)
        kind = self._kinds[function.id] if isinstance(function, ast.Name) else self._kind(function)
        if kind in (THEIRS, FUNCTION):
            return self._program_call(node, arguments)
        if kind != LOCAL:
            raise InProcessOnly("it calls what may be no function")
        kinds = [self._kind(argument) for argument in arguments]
        name = function.id if isinstance(function, ast.Name) else ""
        if name in self._parameters:
            parameters = self._parameters[name]
            is_plain = not node.keywords and not any(isinstance(argument, ast.Starred) for argument in node.args)
            if is_plain and len(kinds) <= len(parameters):
                for parameter, kind in zip(parameters, kinds, strict=False):
                    self._join(parameter, kind)
            else:
                for parameter in parameters:  # any of them may get it
                    self._join(parameter, max(kinds, default=DATA))
        elif max(kinds, default=DATA) == LOCAL and name not in self._results:
            raise InProcessOnly("it passes functions around")
        return LOCAL if _holds_function(name, arguments) else self._results.get(name, THEIRS)

    def _program_call(self, node: ast.Call, arguments: list[ast.expr]) -> int:
        for argument in arguments:
            if self._kind(argument) >= ITERATOR:
                raise InProcessOnly("it passes the program more than plain data")
            self._changes.note_given(argument)
        self._changes.note_call(node)
        if node is self._unused:
            self._changes.note_effect(node)
        return THEIRS

    def _builtin_call(self, name: str, arguments: list[ast.expr]) -> int:
        if name in vocabulary.EXCEPTIONS:
            self._all(arguments)
            return LOCAL
        if name not in vocabulary.FUNCTIONS:
            raise InProcessOnly(f"it uses {name}")
        if name == "isinstance":
            asked = arguments[-1]
            names = asked.elts if isinstance(asked, ast.Tuple) else [asked]
            if not all(map(self._is_type_of_data, names)):
                raise InProcessOnly("it asks for a class")
        kinds = [self._kind(argument) for argument in arguments if not self._is_callable(argument)]
        if any(isinstance(node, ast.Name) and node.id in self._theirs for node in arguments):  # map(f, …)
            self._changes.note_call(arguments[0])
        for argument in arguments:  # the test's own functions may get any of it
            if isinstance(argument, ast.Name):
                for parameter in self._parameters.get(argument.id, ()):
                    self._join(parameter, max(THEIRS, *kinds))
        kind = max(kinds, default=DATA)
        if name in vocabulary.ITERATOR_FUNCTIONS:
            has_function = any(map(self._is_callable, arguments))
            return max(kind, ITERATOR if kind == DATA and not has_function else THEIR_ITERATOR)
        if kind == LOCAL:
            return LOCAL
        return DATA if name in vocabulary.COPYING else min(kind, THEIRS)

    def _is_type_of_data(self, node: ast.expr) -> bool:
        """Whether an expression names a class whose values cross."""
        if isinstance(node, ast.Name):
            return node.id in vocabulary.PLAIN_TYPES or node.id in self._package_types
        return (
            isinstance(node, ast.Attribute)
            and self._module(node.value) in package_vocabulary.MODULES
            and node.attr in package_vocabulary.TYPES
        )

    def _is_callable(self, node: ast.expr) -> bool:
        """Whether an argument of a built-in is a function that it calls, whose kind says nothing about the result."""
        if isinstance(node, ast.Name):
            return node.id in self._parameters or (node.id not in self._kinds and node.id in vocabulary.FUNCTIONS)
        if isinstance(node, ast.Attribute):
            return self._module(node.value) is not None or (
                isinstance(node.value, ast.Name) and node.value.id in vocabulary.PLAIN_TYPES
            )
        return isinstance(node, ast.Lambda)

    def _method_call(self, function: ast.Attribute, arguments: list[ast.expr]) -> int:
        kind = self._looked_at(function)
        if self._module(function.value) in package_vocabulary.MODULES:  # `object` as a dtype is a name
            arguments = [node for node in arguments if not (isinstance(node, ast.Name) and node.id == "object")]
        kinds = [self._kind(argument) for argument in arguments if not self._is_callable(argument)]
        added = max(kinds, default=DATA)
        if (module := self._module(function.value)) is not None:
            if function.attr in vocabulary.CHANGING_FUNCTIONS and arguments:
                self._change(arguments[0], *(kinds[1:2]))
            if module in package_vocabulary.MODULES:
                return self._package_call(function, arguments, added)
            holds = added == LOCAL or _holds_function(function.attr, arguments)
            return max(result_of(module, function.attr), LOCAL if holds else DATA)
        if function.attr in self._mutators and kind != LOCAL:
            self._change(function.value, added)
        if kind == LOCAL:
            return LOCAL if added == LOCAL else DATA
        return min(max(kind, added), THEIRS) if added < LOCAL else LOCAL

    def _package_call(self, function: ast.Attribute, arguments: list[ast.expr], added: int) -> int:
        """A call of a package's function: what it returns may be a view of what it was given."""
        if function.attr in package_vocabulary.CHANGING_FUNCTIONS and arguments:
            self._change(arguments[0])
        if any(self._kind(argument) == FUNCTION for argument in arguments if not isinstance(argument, ast.Lambda)):
            self._changes.note_call(function)
        if function.attr in package_vocabulary.LOCAL_RESULTS or added == LOCAL:
            return LOCAL
        return min(added, THEIRS)


def items_of(kind: int) -> int:
    """The kind of the items of an iterable of this kind."""
    return {ITERATOR: DATA, THEIR_ITERATOR: THEIRS}.get(kind, kind)


def _holds_function(name: str, arguments: list[ast.expr]) -> bool:
    """Whether a call makes a defaultdict with a function of the test's own."""
    return name == "defaultdict" and any(isinstance(argument, ast.Lambda) for argument in arguments[:1])


def result_of(module: str, name: str) -> int:
    """The kind of what a module's function returns."""
    if module == "itertools" or (module, name) == ("heapq", "merge") or name == "finditer":
        return ITERATOR
    return LOCAL if name in vocabulary.LOCAL_RESULTS else DATA
