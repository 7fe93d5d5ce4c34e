"""Runs tests among the program's own objects, exactly as plain Python runs source, setup and test one after the other.

Such a test needs the program's process, and so the program's honesty: it can forge the answer, and its own `__eq__`
takes part. Protected from it as far as possible: the built-ins and modules that a test names, every name that the setup
binds, functions of the standard library (restored if replaced), and the test itself until the source has run.
"""

import builtins
import importlib
import sys
import types
from collections.abc import Callable
from functools import partial
from typing import Any

_ORIGINAL_BUILTINS: dict[str, Any] = {}
_ORIGINAL_FUNCTIONS: list[tuple[types.ModuleType, dict[str, Any]]] = []
_ORIGINAL_METHODS: list[tuple[type, dict[str, Any]]] = []  # of their classes
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
_ORIGINAL_FINDERS: list[Any] = []
_set_trace, _set_profile = sys.settrace, sys.setprofile


def remember(modules: list[str]) -> None:
    """Note the built-ins and the functions of modules, in the zygote, before any program could change them."""
    _ORIGINAL_BUILTINS.update(vars(builtins))
    _ORIGINAL_FINDERS.extend(sys.meta_path)
    for name in modules:
        if name != "sys":  # whose functions are meant to be replaced
            values = vars(sys.modules[name]).items()
            functions = {key: value for key, value in values if callable(value) or isinstance(value, types.ModuleType)}
            _ORIGINAL_FUNCTIONS.append((sys.modules[name], functions))
            classes = [value for value in functions.values() if isinstance(value, type) and value.__module__ == name]
            _ORIGINAL_METHODS.extend((kind, _methods(kind)) for kind in classes if not kind.__flags__ & _IMMUTABLE)


def _methods(kind: type) -> dict[str, Any]:
    return {name: value for name, value in vars(kind).items() if hasattr(value, "__get__")}


def _restore() -> None:
    """Undo what the program replaced in the interpreter and the standard library."""
    _set_trace(None)  # a tracer may jump over the lines of a test
    _set_profile(None)
    sys.meta_path = [*_ORIGINAL_FINDERS]
    for known, functions in _ORIGINAL_FUNCTIONS:
        sys.modules[known.__name__] = known
        vars(known).update(functions)
    for kind, methods in _ORIGINAL_METHODS:
        now = _methods(kind)
        for name in methods.keys() | now.keys():
            if name in methods and now.get(name) is not methods[name]:
                setattr(kind, name, methods[name])
            elif name not in methods and name.startswith("__"):  # such as an __eq__ where there was none
                delattr(kind, name)
    remembered = {known.__name__ for known, _ in _ORIGINAL_FUNCTIONS}
    for name in [name for name in sys.modules if name.startswith("unittest") and name not in remembered]:
        del sys.modules[name]  # the test imports its own: the program's assert methods may say anything


class _Scope(dict[str, Any]):
    """The globals of setup and test: the program's module, except for protected names.

    What a class body reads is in the dictionary itself, since the interpreter looks nowhere else then; it also puts
    there what a function binds by `global`, which the program must see as well.
    """

    def __init__(self, program: dict[str, Any], protected: dict[str, Any]) -> None:
        super().__init__({**program, **protected})
        self._program = program
        self._protected = set(protected)
        self._known = {**self}  # the dictionary itself, as last seen
        self.protects = False  # whatever is bound from now on

    def __getitem__(self, name: str) -> Any:
        own = dict.get(self, name, self)
        if name in self._protected and own is not self:
            return own
        if own is not self and own is not self._known.get(name, self):
            self[name] = own  # bound by `global`
        value = self._program[name]
        dict.__setitem__(self, name, value)
        self._known[name] = value
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        if self.protects:
            self._protected.add(name)
        dict.__setitem__(self, name, value)
        self._known[name] = self._program[name] = value

    def __delitem__(self, name: str) -> None:
        self._protected.discard(name)
        self._known.pop(name, None)
        dict.pop(self, name, None)
        del self._program[name]


def run(module: types.ModuleType, request: dict[str, Any]) -> dict[str, Any]:
    """Run the test that the checker asks for; its outcome, under the request's nonce."""
    outcome, detail = outcome_of(
        partial(_run, module, request), lambda error: innermost(error).f_code.co_filename == "<solution>"
    )
    return {"nonce": request["nonce"], "outcome": outcome, "detail": detail[:200]}


def outcome_of(test: Callable[[], None], is_programs: Callable[[BaseException], bool]) -> tuple[str, str]:
    """(outcome, detail) of a test in either process. is_programs: whether a failed assertion is the program's own."""
    try:
        test()
    except TestsPassed:
        pass
    except MemoryError as error:
        return "memory", shown(error)
    except BaseException as error:  # noqa: BLE001 - a test may end in any exception, and that is its outcome
        is_wrong = isinstance(error, AssertionError) and not is_programs(error)
        return "wrong_answer" if is_wrong else "runtime_error", shown(error)
    return "accepted", ""


def text_of(error: BaseException) -> str:
    """The text of an exception, whose __str__ may be the program's own, or fail at its arguments."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - such as an int of 5000 digits
        return "?"


def shown(error: BaseException) -> str:
    """An exception in a few words."""
    text = text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def innermost(error: BaseException) -> types.FrameType:
    """The frame of the line that raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    assert trace is not None
    return trace.tb_frame


class TestsPassed(BaseException):
    """unittest.main() ends with it, as otherwise with SystemExit(0)."""


def prepare_unittest(names: dict[str, Any], text: str) -> None:
    """Have unittest.main() look for tests among these names, and fail if one of them does. text: of setup and test."""
    unittest: Any = importlib.import_module("unittest")

    class Main(unittest.TestProgram):
        exit: bool

        def __init__(self, module: Any = "__main__", *args: Any, **kwargs: Any) -> None:
            super().__init__(types.SimpleNamespace(**names) if module == "__main__" else module, *args, **kwargs)

        def runTests(self) -> None:
            is_end, self.exit = self.exit, False
            super().runTests()
            if not _has_passed(self.result, text):
                raise AssertionError("unittest.main() found failures")
            if is_end:
                raise TestsPassed

    unittest.main = Main


def _has_passed(result: Any, text: str) -> bool:
    """Whether the tests of unittest.main() ran to their ends: a program may raise SkipTest in place of an answer."""
    of_program = [*(result.skipped if "skip" not in text else ())]
    of_program += result.expectedFailures if "expectedFailure" not in text else ()
    return bool(result.wasSuccessful() and result.testsRun > len(result.skipped) and not of_program)


def _run(module: types.ModuleType, request: dict[str, Any]) -> None:
    _restore()
    sys.modules["__main__"] = module  # for pickle
    known, text = _ORIGINAL_BUILTINS, request["setup"] + request["test"]
    if "unittest" in text:
        prepare_unittest(vars(module), text)
    if "builtins." in text:  # a test that patches one calls what it has patched
        known = vars(builtins)
        known.update(_ORIGINAL_BUILTINS)
    protected = {name: known[name] for name in request["protected"] if f"builtins.{name}" not in text}
    protected |= {name: __import__(name) for name in request["modules"]}
    scope = _Scope(vars(module), {**protected, "__builtins__": known, "__name__": "__main__"})
    scope.protects = True
    exec(compile(request["setup"], "<setup>", "exec", dont_inherit=True), scope)
    scope.protects = False
    exec(compile(request["test"], "<test>", "exec", dont_inherit=True), scope)
