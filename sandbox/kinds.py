"""Whether a test can run apart from the program: follows the kinds of its expressions through its statements.

It can if it only calls the program's functions with plain data and looks at plain results. Texts are only read here,
never run.
"""

import ast
import sys

from sandbox import package_vocabulary, vocabulary
from sandbox.changes import Changes
from sandbox.expression_kinds import DATA, FUNCTION, LOCAL, THEIRS, ExpressionKinds, InProcessOnly, items_of, result_of


class Kinds(ExpressionKinds):
    """Follows the kinds of expressions through a text; raises InProcessOnly for what needs the program's process."""

    def check(self, body: list[ast.stmt]) -> None:
        """Raise InProcessOnly, saying why, if these statements cannot run apart from the program."""
        for _ in range(6):
            before = dict(self._kinds), dict(self._results)
            self._changes = Changes()
            self._block(body)
            if (self._kinds, self._results) == before:
                break
        else:
            raise InProcessOnly("its variables hold too many things")
        if self._changes.may_be_seen():
            raise InProcessOnly("it changes what the program has seen")

    def _block(self, body: list[ast.stmt]) -> None:
        for node in body:
            method = getattr(self, f"_on_{type(node).__name__}", None)
            if method is None:
                raise InProcessOnly(f"it has a {type(node).__name__} statement")
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
            self._results[self._function] = max(kind, self._results.get(self._function, DATA))

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
                self._bind(target, DATA)
            elif not (isinstance(target, ast.Name) and target.id in self._kinds):
                raise InProcessOnly("it deletes what may be the program's")

    def _on_If(self, node: ast.If) -> None:
        self._kind(node.test)
        self._block(node.body)
        self._block(node.orelse)

    def _on_While(self, node: ast.While) -> None:
        with self._changes.repeated():
            self._on_If(node)  # type: ignore[arg-type]

    def _on_For(self, node: ast.For) -> None:
        self._bind(node.target, items_of(self._kind(node.iter)))
        with self._changes.repeated():
            self._block(node.body)
        self._block(node.orelse)

    def _on_Try(self, node: ast.Try) -> None:
        for block in (node.body, node.orelse, node.finalbody):
            self._block(block)
        for handler in node.handlers:
            kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type] if handler.type else []
            if any(not (isinstance(kind, ast.Name) and kind.id in vocabulary.EXCEPTIONS) for kind in kinds):
                raise InProcessOnly("it catches the program's exceptions")
            if handler.name is not None:
                self._exceptions.add(handler.name)
                self._join(handler.name, LOCAL)
            self._block(handler.body)

    def _on_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name in vocabulary.MODULES:
                self._modules[alias.asname or alias.name] = alias.name
            elif alias.name.partition(".")[0] in sys.stdlib_module_names:
                raise InProcessOnly(f"it imports {alias.name}")
            elif alias.name.partition(".")[0] in self._packages:
                self._enter_package(alias.name)
                name = alias.asname or alias.name.partition(".")[0]
                self._modules[name] = alias.name if alias.asname else name
            # Any other module is missing in both processes: an ImportError in either lane.

    def _on_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = str(node.module)
        if module.partition(".")[0] in self._packages:
            self._import_of_package(module, node.names)
            return
        if module == "sys" or (
            module not in vocabulary.MODULES and module.partition(".")[0] in sys.stdlib_module_names
        ):
            raise InProcessOnly(f"it imports from {module}")
        for alias in node.names:
            if alias.name in vocabulary.TOGETHER_ATTRIBUTES:
                raise InProcessOnly(f"it uses {alias.name}")
            for name in vocabulary.public_names(module) if alias.name == "*" else [alias.asname or alias.name]:
                self._join(name, LOCAL)
                self._results[name] = result_of(module, name if alias.name == "*" else alias.name)

    def _enter_package(self, module: str) -> None:
        """The text uses a package: from here on the attributes of its values count as those of data."""
        if module not in package_vocabulary.MODULES:
            raise InProcessOnly(f"it imports {module}")
        self._uses_packages = True
        self._data_attributes = vocabulary.DATA_ATTRIBUTES | package_vocabulary.DATA_ATTRIBUTES
        self._data_fields = vocabulary.DATA_FIELDS | package_vocabulary.DATA_FIELDS
        self._mutators = vocabulary.MUTATORS | package_vocabulary.MUTATORS

    def _import_of_package(self, module: str, names: list[ast.alias]) -> None:
        self._enter_package(module)
        for alias in names:
            bound = alias.asname or alias.name
            if alias.name == "*" or alias.name in package_vocabulary.TOGETHER_ATTRIBUTES:
                raise InProcessOnly(f"it imports {alias.name} from {module}")
            if f"{module}.{alias.name}" in package_vocabulary.MODULES:
                self._modules[bound] = f"{module}.{alias.name}"
            elif alias.name in package_vocabulary.VALUES:
                self._join(bound, DATA)
                self._package_types |= {bound} & package_vocabulary.TYPES
            else:
                self._join(bound, LOCAL)
                self._results[bound] = LOCAL if alias.name in package_vocabulary.LOCAL_RESULTS else THEIRS

    def _on_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.decorator_list:
            raise InProcessOnly("it has a decorator")
        arguments = node.args
        for default in (*arguments.defaults, *(value for value in arguments.kw_defaults if value is not None)):
            self._kind(default)
        names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        names += [argument.arg for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
        self._parameters[node.name] = names
        for name in names:
            self._join(name, DATA)
        if node.name == "check" and self._entry_point is not None and names:
            self._join(names[0], FUNCTION)
        self._join(node.name, LOCAL)
        self._results.setdefault(node.name, DATA)
        outer, self._function = self._function, node.name
        self._block(node.body)
        self._function = outer

    def _on_ClassDef(self, node: ast.ClassDef) -> None:
        """A class used only in the test's own process: passing its objects to the program is caught by their kind."""
        own = [base for base in node.bases if isinstance(base, ast.Name) and base.id not in self._theirs]
        if node.decorator_list or node.keywords or len(own) < len(node.bases):
            raise InProcessOnly("it has a class with a decorator, a metaclass or a base of the program's")
        self._all(node.bases)
        self._join(node.name, LOCAL)
        self._results[node.name] = LOCAL
        for line in node.body:
            if isinstance(line, ast.FunctionDef) and line.args.args:
                self._own.add(line.args.args[0].arg)
                self._join(line.args.args[0].arg, LOCAL)
        self._block(node.body)
