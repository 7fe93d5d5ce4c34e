"""What a test's expressions may hold, followed through its text: can it run apart from the program?

A test can, when it only calls the program's functions with plain data and looks at plain results. What a variable may
hold is one of a few kinds, without regard to scopes; a doubt raises `Together`, with the reason. Texts are looked at
here, never run.
"""

import ast
import builtins
import sys
from collections.abc import Iterable

from sandbox import package_vocabulary, vocabulary
from sandbox.changes import Changes
from sandbox.parsing import below

# What an expression may hold, the more demanding the higher. DATA: made by the test, plain. THEIRS: came from the
# program. FUNCTION: a function of the program. The others make sense in the test's own process only.
_DATA, _THEIRS, _FUNCTION, _ITERATOR, _THEIR_ITERATOR, _LOCAL = range(6)


class Together(Exception):
    """The test needs the program's own process: why is in the message."""


class Kinds:
    """Follows the kinds of expressions through a text; raises Together at what only one process can run."""

    def __init__(
        self, theirs: Iterable[str], modules: Iterable[str], entry_point: str | None, packages: Iterable[str] = ()
    ) -> None:
        """packages: modules that can be imported beside the standard library's."""
        self._theirs = frozenset(theirs)
        self._modules = {name: name for name in modules}  # by the name that the text gives them
        self._entry_point = entry_point
        self._packages = frozenset(packages)
        self._package_types: set[str] = set()  # imported by name
        self._uses_packages = False
        # A text without packages looks at no value of theirs: `size` is then a method of the program's own class.
        self._data_attributes, self._data_fields = vocabulary.DATA_ATTRIBUTES, vocabulary.DATA_FIELDS
        self._mutators = vocabulary.MUTATORS
        self._kinds: dict[str, int] = {}
        self._results: dict[str, int] = {}  # of the test's own functions
        self._parameters: dict[str, list[str]] = {}
        self._exceptions: set[str] = set()  # names bound by `except … as`
        self._own: set[str] = set()  # first parameters of methods of the test's own classes
        self._function: str | None = None  # whose body is being looked at
        self._unused: ast.expr | None = None  # the latest expression that is a statement
        self._changes = Changes()

    def check(self, body: list[ast.stmt]) -> None:
        """Raise Together, saying why, where these statements cannot run apart from the program."""
        for _ in range(6):
            before = dict(self._kinds), dict(self._results)
            self._changes = Changes()
            self._block(body)
            if (self._kinds, self._results) == before:
                break
        else:
            raise Together("its variables hold too many things")
        if self._changes.may_be_seen():
            raise Together("it changes what the program has seen")

    def _block(self, body: list[ast.stmt]) -> None:
        for node in body:
            method = getattr(self, f"_on_{type(node).__name__}", None)
            if method is None:
                raise Together(f"it has a {type(node).__name__} statement")
            method(node)

    # Statements

    def _on_Pass(self, node: ast.stmt) -> None:
        pass

    _on_Break = _on_Continue = _on_Pass

    def _on_Expr(self, node: ast.Expr) -> None:
        self._unused = node.value
        self._parts(node)

    def _on_Assert(self, node: ast.stmt) -> None:
        self._parts(node)

    _on_Raise = _on_Assert

    def _on_Return(self, node: ast.Return) -> None:
        kind = self._maybe(node.value)
        if self._function is not None:
            self._results[self._function] = max(kind, self._results.get(self._function, _DATA))

    def _on_Assign(self, node: ast.Assign) -> None:
        kind = self._kind(node.value)
        for target in node.targets:
            self._bind(target, kind)

    def _on_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._bind(node.target, self._kind(node.value))

    def _on_AugAssign(self, node: ast.AugAssign) -> None:
        self._bind(node.target, self._kind(node.value))

    def _on_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                self._bind(target, _DATA)
            elif not (isinstance(target, ast.Name) and target.id in self._kinds):
                raise Together("it deletes what may be the program's")

    def _on_If(self, node: ast.If) -> None:
        self._kind(node.test)
        self._block(node.body)
        self._block(node.orelse)

    def _on_While(self, node: ast.While) -> None:
        with self._changes.repeated():
            self._on_If(node)  # type: ignore[arg-type]

    def _on_For(self, node: ast.For) -> None:
        self._bind(node.target, _items(self._kind(node.iter)))
        with self._changes.repeated():
            self._block(node.body)
        self._block(node.orelse)

    def _on_Try(self, node: ast.Try) -> None:
        for block in (node.body, node.orelse, node.finalbody):
            self._block(block)
        for handler in node.handlers:
            kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type] if handler.type else []
            if any(not (isinstance(kind, ast.Name) and kind.id in vocabulary.EXCEPTIONS) for kind in kinds):
                raise Together("it catches the program's exceptions")
            if handler.name is not None:
                self._exceptions.add(handler.name)
                self._join(handler.name, _LOCAL)
            self._block(handler.body)

    def _on_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name in vocabulary.MODULES:
                self._modules[alias.asname or alias.name] = alias.name
            elif alias.name.partition(".")[0] in sys.stdlib_module_names:
                raise Together(f"it imports {alias.name}")
            elif alias.name.partition(".")[0] in self._packages:
                self._enter_package(alias.name)
                name = alias.asname or alias.name.partition(".")[0]
                self._modules[name] = alias.name if alias.asname else name
            # Others are not there for either process: an ImportError in both lanes.

    def _on_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = str(node.module)
        if module.partition(".")[0] in self._packages:
            self._import_of_package(module, node.names)
            return
        if module == "sys" or (
            module not in vocabulary.MODULES and module.partition(".")[0] in sys.stdlib_module_names
        ):
            raise Together(f"it imports from {module}")
        for alias in node.names:
            if alias.name in vocabulary.TOGETHER_ATTRIBUTES:
                raise Together(f"it uses {alias.name}")
            for name in vocabulary.public_names(module) if alias.name == "*" else [alias.asname or alias.name]:
                self._join(name, _LOCAL)
                self._results[name] = _result_of(module, name if alias.name == "*" else alias.name)

    def _enter_package(self, module: str) -> None:
        """The text uses a package: what its values are looked at by is of data from here on."""
        if module not in package_vocabulary.MODULES:
            raise Together(f"it imports {module}")
        self._uses_packages = True
        self._data_attributes = vocabulary.DATA_ATTRIBUTES | package_vocabulary.DATA_ATTRIBUTES
        self._data_fields = vocabulary.DATA_FIELDS | package_vocabulary.DATA_FIELDS
        self._mutators = vocabulary.MUTATORS | package_vocabulary.MUTATORS

    def _import_of_package(self, module: str, names: list[ast.alias]) -> None:
        self._enter_package(module)
        for alias in names:
            bound = alias.asname or alias.name
            if alias.name == "*" or alias.name in package_vocabulary.TOGETHER_ATTRIBUTES:
                raise Together(f"it imports {alias.name} from {module}")
            if f"{module}.{alias.name}" in package_vocabulary.MODULES:
                self._modules[bound] = f"{module}.{alias.name}"
            elif alias.name in package_vocabulary.VALUES:
                self._join(bound, _DATA)
                self._package_types |= {bound} & package_vocabulary.TYPES
            else:
                self._join(bound, _LOCAL)
                self._results[bound] = _LOCAL if alias.name in package_vocabulary.LOCAL_RESULTS else _THEIRS

    def _on_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.decorator_list:
            raise Together("it has a decorator")
        arguments = node.args
        for default in (*arguments.defaults, *(value for value in arguments.kw_defaults if value is not None)):
            self._kind(default)
        names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        names += [argument.arg for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
        self._parameters[node.name] = names
        for name in names:
            self._join(name, _DATA)
        if node.name == "check" and self._entry_point is not None and names:
            self._join(names[0], _FUNCTION)
        self._join(node.name, _LOCAL)
        self._results.setdefault(node.name, _DATA)
        outer, self._function = self._function, node.name
        self._block(node.body)
        self._function = outer

    def _on_ClassDef(self, node: ast.ClassDef) -> None:
        """A class that only the test's own process uses: whoever hands its objects over is found by their kind."""
        own = [base for base in node.bases if isinstance(base, ast.Name) and base.id not in self._theirs]
        if node.decorator_list or node.keywords or len(own) < len(node.bases):
            raise Together("it has a class with a decorator, a metaclass or a base of the program's")
        self._all(node.bases)
        self._join(node.name, _LOCAL)
        self._results[node.name] = _LOCAL
        for line in node.body:
            if isinstance(line, ast.FunctionDef) and line.args.args:
                self._own.add(line.args.args[0].arg)
                self._join(line.args.args[0].arg, _LOCAL)
        self._block(node.body)

    # Targets

    def _join(self, name: str, kind: int) -> None:
        self._kinds[name] = max(kind, self._kinds.get(name, _DATA))

    def _bind(self, target: ast.expr, kind: int) -> None:
        if isinstance(target, ast.Name):
            self._join(target.id, kind)
            if kind == _THEIRS:
                self._changes.note_result(target)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self._bind(part, _items(kind))
        elif isinstance(target, ast.Starred):
            self._bind(target.value, kind)
        elif isinstance(target, ast.Subscript):
            self._kind(target.slice)
            self._change(target.value, kind)
        elif not (
            isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id in self._own
        ):
            raise Together("it sets an attribute")

    def _change(self, target: ast.expr, added: int = _DATA) -> None:
        """The test changes what this expression holds, perhaps by putting something into it."""
        kind = self._kind(target)
        root = target
        while isinstance(root, (ast.Subscript, ast.Attribute)):
            root = root.value
        if isinstance(root, ast.Name) and root.id not in self._theirs:
            self._join(root.id, added)
            self._changes.note_change(None if kind >= _THEIRS else root.id, target)
        elif isinstance(root, ast.Name):
            raise Together("it changes the program's variables")
        elif kind >= _THEIRS:
            self._changes.note_change(None, target)

    # Expressions

    def _maybe(self, node: ast.expr | None) -> int:
        return _DATA if node is None else self._kind(node)

    def _kind(self, node: ast.expr) -> int:
        method = getattr(self, f"_of_{type(node).__name__}", None)
        if method is None:
            raise Together(f"it has a {type(node).__name__} expression")
        kind: int = method(node)
        return kind

    def _all(self, nodes: Iterable[ast.expr | None]) -> int:
        return max((self._kind(node) for node in nodes if node is not None), default=_DATA)

    def _of_Constant(self, node: ast.Constant) -> int:
        return _DATA

    def _of_Name(self, node: ast.Name) -> int:
        name = node.id
        if name in self._kinds:
            self._changes.note_look(node)
            return self._kinds[name]
        if name in self._theirs or name in vocabulary.FUNCTIONS:  # built-ins cross by name
            return _FUNCTION
        if hasattr(builtins, name) and name not in vocabulary.EXCEPTIONS and name != "__name__":
            raise Together(f"it uses {name}")
        return _DATA if name == "__name__" else _LOCAL

    def _of_JoinedStr(self, node: ast.JoinedStr) -> int:
        self._all(node.values)
        return _DATA

    def _parts(self, node: ast.AST) -> int:
        return self._all(part for part in below(node) if isinstance(part, ast.expr))

    _of_List = _of_Tuple = _of_Set = _of_Dict = _of_BinOp = _of_BoolOp = _of_UnaryOp = _of_IfExp = _of_Slice = _parts
    _of_FormattedValue = _parts

    def _of_Starred(self, node: ast.Starred) -> int:
        return _items(self._kind(node.value))

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
                raise Together("it compares identities")
        return _DATA

    def _of_Subscript(self, node: ast.Subscript) -> int:
        self._kind(node.slice)
        return _items(self._kind(node.value))

    def _of_Lambda(self, node: ast.Lambda) -> int:
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            self._join(argument.arg, _THEIRS)
        for other in (node.args.vararg, node.args.kwarg):
            if other is not None:
                self._join(other.arg, _THEIRS)
        self._all((*node.args.defaults, *node.args.kw_defaults))
        with self._changes.repeated():  # called any number of times
            self._kind(node.body)
        return _LOCAL

    def _of_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> int:
        for part in node.generators:
            if part.is_async:
                raise Together("it is asynchronous")
            self._bind(part.target, _items(self._kind(part.iter)))
            self._all(part.ifs)
        with self._changes.repeated():
            return self._all((node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,))

    _of_SetComp = _of_DictComp = _of_ListComp

    def _of_GeneratorExp(self, node: ast.GeneratorExp) -> int:
        kind = self._of_ListComp(node)
        return _ITERATOR if kind == _DATA else max(_THEIR_ITERATOR, kind)

    def _of_Attribute(self, node: ast.Attribute) -> int:
        kind = self._looked_at(node)
        return kind if self._module(node.value) is not None or node.attr in self._data_fields else max(kind, _LOCAL)

    def _looked_at(self, node: ast.Attribute) -> int:
        """The kind of a module's attribute, or of the value that has the attribute."""
        if (module := self._module(node.value)) is not None:
            if module in package_vocabulary.MODULES:
                if node.attr in package_vocabulary.TOGETHER_ATTRIBUTES or node.attr.startswith("_"):
                    raise Together(f"it uses {module}.{node.attr}")
                return _DATA if node.attr in package_vocabulary.VALUES else _LOCAL
            if node.attr in vocabulary.TOGETHER_ATTRIBUTES or node.attr.startswith("_"):
                raise Together(f"it uses {module}.{node.attr}")
            if module == "sys" and node.attr not in vocabulary.SYS:
                raise Together(f"it uses sys.{node.attr}")
            return _DATA if module in ("sys", "string", "math", "cmath") and node.attr.islower() else _LOCAL
        kind = self._kind(node.value)
        if isinstance(node.value, ast.Name) and node.value.id in self._exceptions:
            if node.attr not in vocabulary.EXCEPTION_ATTRIBUTES:
                raise Together(f"it looks at .{node.attr} of an exception")
            return _THEIRS
        if node.attr.startswith("_") or (kind != _LOCAL and node.attr not in self._data_attributes):
            raise Together(f"it looks at .{node.attr}")
        if kind == _FUNCTION and not (isinstance(node.value, ast.Name) and node.value.id in vocabulary.PLAIN_TYPES):
            raise Together("it looks into a function of the program's")
        return _LOCAL if kind == _FUNCTION else kind

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
                raise Together("it has a result written into what it gives")
            return self._method_call(function, arguments)
        if isinstance(function, ast.Name) and function.id not in self._kinds:
            if function.id in self._theirs:
                return self._program_call(node, arguments)
            return self._builtin_call(function.id, arguments)
        kind = self._kinds[function.id] if isinstance(function, ast.Name) else self._kind(function)
        if kind in (_THEIRS, _FUNCTION):
            return self._program_call(node, arguments)
        if kind != _LOCAL:
            raise Together("it calls what may be no function")
        kinds = [self._kind(argument) for argument in arguments]
        name = function.id if isinstance(function, ast.Name) else ""
        if name in self._parameters:
            parameters = self._parameters[name]
            is_plain = not node.keywords and not any(isinstance(argument, ast.Starred) for argument in node.args)
            if is_plain and len(kinds) <= len(parameters):
                for parameter, kind in zip(parameters, kinds, strict=False):
                    self._join(parameter, kind)
            else:
                for parameter in parameters:  # whichever gets it
                    self._join(parameter, max(kinds, default=_DATA))
        elif max(kinds, default=_DATA) == _LOCAL and name not in self._results:
            raise Together("it passes functions around")
        return _LOCAL if _holds_function(name, arguments) else self._results.get(name, _THEIRS)

    def _program_call(self, node: ast.Call, arguments: list[ast.expr]) -> int:
        for argument in arguments:
            if self._kind(argument) >= _ITERATOR:
                raise Together("it gives the program more than plain data")
            self._changes.note_given(argument)
        self._changes.note_call(node)
        if node is self._unused:
            self._changes.note_effect(node)
        return _THEIRS

    def _builtin_call(self, name: str, arguments: list[ast.expr]) -> int:
        if name in vocabulary.EXCEPTIONS:
            self._all(arguments)
            return _LOCAL
        if name not in vocabulary.FUNCTIONS:
            raise Together(f"it uses {name}")
        if name == "isinstance":
            asked = arguments[-1]
            names = asked.elts if isinstance(asked, ast.Tuple) else [asked]
            if not all(map(self._is_type_of_data, names)):
                raise Together("it asks for a class")
        kinds = [self._kind(argument) for argument in arguments if not self._is_callable(argument)]
        if any(isinstance(node, ast.Name) and node.id in self._theirs for node in arguments):  # map(f, …)
            self._changes.note_call(arguments[0])
        for argument in arguments:  # the test's own functions get whatever there is
            if isinstance(argument, ast.Name):
                for parameter in self._parameters.get(argument.id, ()):
                    self._join(parameter, max(_THEIRS, *kinds))
        kind = max(kinds, default=_DATA)
        if name in vocabulary.ITERATOR_FUNCTIONS:
            has_function = any(map(self._is_callable, arguments))
            return max(kind, _ITERATOR if kind == _DATA and not has_function else _THEIR_ITERATOR)
        if kind == _LOCAL:
            return _LOCAL
        return _DATA if name in vocabulary.COPYING else min(kind, _THEIRS)

    def _is_type_of_data(self, node: ast.expr) -> bool:
        """Whether an expression names a class of values that cross."""
        if isinstance(node, ast.Name):
            return node.id in vocabulary.PLAIN_TYPES or node.id in self._package_types
        return (
            isinstance(node, ast.Attribute)
            and self._module(node.value) in package_vocabulary.MODULES
            and node.attr in package_vocabulary.TYPES
        )

    def _is_callable(self, node: ast.expr) -> bool:
        """Whether an argument of a built-in is a function that it calls, whose kind says nothing of the result."""
        if isinstance(node, ast.Name):
            return node.id in self._parameters or (node.id not in self._kinds and node.id in vocabulary.FUNCTIONS)
        if isinstance(node, ast.Attribute):
            return self._module(node.value) is not None or (
                isinstance(node.value, ast.Name) and node.value.id in vocabulary.PLAIN_TYPES
            )
        return isinstance(node, ast.Lambda)

    def _method_call(self, function: ast.Attribute, arguments: list[ast.expr]) -> int:
        kind = self._looked_at(function)
        if self._module(function.value) in package_vocabulary.MODULES:  # as a dtype it is a name
            arguments = [node for node in arguments if not (isinstance(node, ast.Name) and node.id == "object")]
        kinds = [self._kind(argument) for argument in arguments if not self._is_callable(argument)]
        added = max(kinds, default=_DATA)
        if (module := self._module(function.value)) is not None:
            if function.attr in vocabulary.CHANGING_FUNCTIONS and arguments:
                self._change(arguments[0], *(kinds[1:2]))
            if module in package_vocabulary.MODULES:
                return self._package_call(function, arguments, added)
            holds = added == _LOCAL or _holds_function(function.attr, arguments)
            return max(_result_of(module, function.attr), _LOCAL if holds else _DATA)
        if function.attr in self._mutators and kind != _LOCAL:
            self._change(function.value, added)
        if kind == _LOCAL:
            return _LOCAL if added == _LOCAL else _DATA
        return min(max(kind, added), _THEIRS) if added < _LOCAL else _LOCAL

    def _package_call(self, function: ast.Attribute, arguments: list[ast.expr], added: int) -> int:
        """A call of a package's function: what it returns may be a view of what it was given."""
        if function.attr in package_vocabulary.CHANGING_FUNCTIONS and arguments:
            self._change(arguments[0])
        if any(self._kind(argument) == _FUNCTION for argument in arguments if not isinstance(argument, ast.Lambda)):
            self._changes.note_call(function)
        if function.attr in package_vocabulary.LOCAL_RESULTS or added == _LOCAL:
            return _LOCAL
        return min(added, _THEIRS)


def _items(kind: int) -> int:
    """The kind of what an iterable of this kind holds."""
    return {_ITERATOR: _DATA, _THEIR_ITERATOR: _THEIRS}.get(kind, kind)


def _holds_function(name: str, arguments: list[ast.expr]) -> bool:
    """Whether a call makes a defaultdict with a function of the test's own."""
    return name == "defaultdict" and any(isinstance(argument, ast.Lambda) for argument in arguments[:1])


def _result_of(module: str, name: str) -> int:
    """The kind of what a function of a module returns."""
    if module == "itertools" or (module, name) == ("heapq", "merge") or name == "finditer":
        return _ITERATOR
    return _LOCAL if name in vocabulary.LOCAL_RESULTS else _DATA
