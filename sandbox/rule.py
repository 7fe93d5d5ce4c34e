"""Which lane a test takes, by its text alone.

A test runs apart from the program if only data go into the program:

    xs = [3, 1, 2]
    assert f(xs) == sorted(xs)                     # data in, data out
    assert Stack(xs).pop() == 2                    # an object of the program's, which stays there
    assert f(lambda x: -x, xs) == [3, 2, 1]        # in process: a function goes in
    with opened(xs) as first: assert first == 3    # in process: not seen through

What is not listed here is not seen through. Two processes share no more than data, so neither may a test change what
both have: modules, streams, built-ins.
"""

import ast
import builtins
import sys

from sandbox.worker import values

MODULES = frozenset(
    str.split(
        "array bisect cmath collections copy datetime decimal fractions functools heapq itertools json math numbers "
        "operator random re statistics string sys textwrap typing unicodedata unittest"
    )
)
"""What a test may import and still run apart; one that no text binds is still taken for that module, unless called."""
PACKAGES = frozenset(["numpy", "numpy.fft", "numpy.linalg", "numpy.random", "numpy.testing"])
"""The same of packages, if the sandbox has them; values of others do not cross."""
# Attributes of modules that have a state, read files or make classes, and those whose values do not cross.
_OUT_OF_REACH = frozenset(
    str.split(
        "seed setstate set_state get_state getcontext setcontext localcontext namedtuple NamedTuple lru_cache cache "
        "mock seterr geterr seterrcall setbufsize errstate set_printoptions printoptions memmap load loadtxt "
        "genfromtxt fromfile fromregex save savez savez_compressed savetxt lib core ctypeslib rec recarray void matrix "
        "asmatrix mat bmat ma io get_type_hints assertLogs assertNoLogs assertWarns"
    )
)
_OF_SYS = frozenset(("maxsize", "float_info", "getsizeof", "byteorder", "maxunicode"))
_MAKERS = frozenset(["compile", "loadTestsFromTestCase", "partial"])  # of objects, though their names are in lower case
_ITERATORS = frozenset(["enumerate", "filter", "iter", "map", "reversed", "zip"])
FUNCTIONS, EXCEPTIONS = frozenset(values.FUNCTIONS), frozenset(values.EXCEPTIONS)
_OF_EXCEPTIONS = frozenset(("args", "errno", "strerror", "filename"))
_OF_DATA = frozenset(name for kind in values.KINDS for name in dir(kind))
_NAMES_OF_DATA = frozenset(kind.__name__ for kind in values.KINDS)
_SEEN_THROUGH = (
    *(ast.Module, ast.Expr, ast.Assert, ast.Raise, ast.Return, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete),
    *(ast.If, ast.While, ast.For, ast.Try, ast.With, ast.Import, ast.ImportFrom, ast.Pass, ast.Break, ast.Continue),
    *(ast.FunctionDef, ast.ClassDef, ast.ExceptHandler, ast.alias, ast.arguments, ast.arg, ast.keyword, ast.withitem),
    *(ast.Name, ast.JoinedStr, ast.FormattedValue, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.BinOp, ast.BoolOp),
    *(ast.UnaryOp, ast.IfExp, ast.Slice, ast.Starred, ast.NamedExpr, ast.Compare, ast.Subscript, ast.Attribute),
    *(ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension, ast.Call, ast.cmpop),
)


class Rule:
    """Reads one text, with its setup."""

    def __init__(self, theirs: frozenset[str], modules: set[str], packages: tuple[str, ...]) -> None:
        """Names that mean the program's values, or modules without an import; packages that can be imported."""
        self._theirs = theirs
        self._modules = {name: name for name in modules}  # by the name that the text gives them
        self._packages = packages
        self._own: set[str] = set()  # names of what is no data of the test's: functions, classes, their instances
        self._caught: set[str] = set()  # names of exceptions
        self._imported: set[str] = set()  # names of what other modules hold
        self.asks_for_objects = False
        """Whether it looks at more than plain data have."""

    def sees_through(self, nodes: list[ast.AST], read: frozenset[str]) -> bool:
        """Whether a text of these nodes can run apart from the program. read: names that it reads and does not bind."""
        unknown = read - self._theirs - FUNCTIONS - EXCEPTIONS - {"__name__"}
        if any(hasattr(builtins, name) or name.startswith("__") for name in unknown):
            return False
        if self._theirs.intersection(self._packages) - PACKAGES:  # which the program has imported for it
            return False
        for _ in range(2):  # a name may be used above the place where it is bound
            for node in nodes:
                self._note(node)
        checks = ((node, getattr(self, f"_on_{type(node).__name__}", None)) for node in nodes)
        return all(isinstance(node, _SEEN_THROUGH) and (check is None or check(node)) for node, check in checks)

    # What names stand for

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            self._own.add(node.name)
            methods = [
                line for line in node.body if isinstance(line, ast.FunctionDef) and isinstance(node, ast.ClassDef)
            ]
            self._own.update(method.args.args[0].arg for method in methods if method.args.args)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                self._modules[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name, module = alias.asname or alias.name, f"{node.module}.{alias.name}"
                self._imported.add(name)
                if module in PACKAGES:
                    self._modules[name] = module
                elif node.module not in PACKAGES or alias.name[:1].islower():
                    self._own.add(name)
        elif isinstance(node, ast.ExceptHandler) and node.name is not None:
            self._caught.add(node.name)
        elif isinstance(node, ast.Assign) and self._is_own(node.value):
            self._own.update(target.id for target in node.targets if isinstance(target, ast.Name))

    def _is_own(self, node: ast.AST) -> bool:
        """Whether an expression may be a function, a class, an instance or an iterator of the test's own."""
        if isinstance(node, ast.Name):
            return node.id in self._own
        if isinstance(node, ast.Attribute):
            return self._is_own(node.value)
        if isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            makes_object = (name[:1].isupper() or name in _MAKERS) and name not in _NAMES_OF_DATA
            maker = self._is_own(function) or self._module_of(function) not in (None, *PACKAGES)
            return name in _ITERATORS or (makes_object and maker)
        return isinstance(node, ast.Lambda | ast.GeneratorExp) or (
            isinstance(node, ast.List | ast.Tuple | ast.Dict | ast.Starred | ast.keyword)
            and any(map(self._is_own, ast.iter_child_nodes(node)))
        )

    def _module_of(self, node: ast.AST) -> str | None:
        """The module that an expression begins with."""
        return self._modules.get(self._root_of(node))

    def _root_of(self, node: ast.AST) -> str:
        """The name that an expression begins with; empty if it is none."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return node.id if isinstance(node, ast.Name) else ""

    # Whether each kind of node is seen through

    def _on_Attribute(self, node: ast.Attribute) -> bool:
        is_read = isinstance(node.ctx, ast.Load)
        module = self._module_of(node.value)
        if module:
            is_reached = node.attr in _OF_SYS if module == "sys" else node.attr not in _OUT_OF_REACH
            return is_read and is_reached and not node.attr.startswith("_")
        if not is_read and self._root_of(node) in self._imported:  # it would change what it imports
            return False
        if self._is_own(node.value) and node.attr in _OUT_OF_REACH:
            return False
        if isinstance(node.value, ast.Name) and node.value.id in self._caught and node.attr not in _OF_EXCEPTIONS:
            return False
        if node.attr not in _OF_DATA and not self._is_own(node.value) and PACKAGES.isdisjoint(self._packages):
            self.asks_for_objects = True
        return not node.attr.startswith("_")

    def _on_Call(self, node: ast.Call) -> bool:
        """Nothing but data may be handed over to the program."""
        function = node.func
        if isinstance(function, ast.Name):
            is_program = function.id not in self._own and function.id not in FUNCTIONS | EXCEPTIONS - self._theirs
        elif isinstance(function, ast.Attribute):
            is_data = function.attr in _OF_DATA or not PACKAGES.isdisjoint(self._packages)
            is_program = not (is_data or self._is_own(function) or self._module_of(function))
        else:
            is_program = not isinstance(function, ast.Lambda)
        return not (is_program and any(map(self._is_own, (*node.args, *node.keywords))))

    def _on_Compare(self, node: ast.Compare) -> bool:
        """Identities cannot be compared, except with constants."""
        sides = [node.left, *node.comparators]
        constants = [side for side in sides if isinstance(side, ast.Constant) and side.value in (None, True, False)]
        is_identity = any(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops)
        return not is_identity or len(constants) >= len(sides) - 1

    def _on_With(self, node: ast.With) -> bool:
        contexts = [item.context_expr for item in node.items]
        return all(isinstance(context, ast.Call) and self._is_own(context.func) for context in contexts)

    def _on_ExceptHandler(self, node: ast.ExceptHandler) -> bool:
        """The program's own exceptions cannot be caught."""
        kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type] if node.type else []
        return all(isinstance(kind, ast.Name) and kind.id in EXCEPTIONS - self._theirs for kind in kinds)

    def _on_FunctionDef(self, node: ast.FunctionDef) -> bool:
        return not node.decorator_list

    def _on_ClassDef(self, node: ast.ClassDef) -> bool:
        is_own = all(self._is_own(base) or self._module_of(base) for base in node.bases)
        return is_own and not node.decorator_list and not node.keywords

    def _on_Delete(self, node: ast.Delete) -> bool:
        return not any(isinstance(target, ast.Name) for target in node.targets)

    def _on_Import(self, node: ast.Import) -> bool:
        return all(self._may_import(alias.name) for alias in node.names)

    def _on_ImportFrom(self, node: ast.ImportFrom) -> bool:
        is_out = any(alias.name in _OUT_OF_REACH for alias in node.names)
        is_open = node.names[0].name == "*" and str(node.module).partition(".")[0] in self._packages
        return not (is_out or is_open or node.module == "sys") and self._may_import(str(node.module))

    def _may_import(self, module: str) -> bool:
        """A module that does not exist is missing in both processes: an ImportError in either lane."""
        top = module.partition(".")[0]
        exists = top in sys.stdlib_module_names or top in self._packages
        return not exists or module in MODULES | PACKAGES
