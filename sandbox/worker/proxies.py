"""Stand-ins, in the checker, for the program's functions, classes and objects.

A proxy forwards calls and look-ups to the candidate and returns plain decoded values, which the test then compares with
its own built-ins. It never forwards a comparison or an arithmetic operator with a plain operand: an object whose
`__eq__` says True, or whose `__sub__` says 0, would pass any test. Where the test itself compares the program's own
objects there is no trusted answer; `NeedsInProcess` says so.
"""

import re
from collections.abc import Callable
from typing import Any, Protocol

_CLASS_NAME = re.compile(r"_?[A-Z][A-Za-z0-9]*$")
_MAX_PREFETCH = 4096


class NeedsInProcess(BaseException):
    """The test compares or copies the program's own objects, which only their own process can do."""


class Remote(Protocol):
    """The conversation with the candidate, as a proxy uses it."""

    def call(self, on: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def operate(self, on: int, operation: str, *args: Any) -> Any: ...
    def plain(self, on: int) -> Any: ...
    def next_items(self, on: int, count: int) -> tuple[list[Any], bool]: ...


def looks_like_a_class(name: str) -> bool:
    """Whether a test that calls `name` means a class. Decided by the test's text, for the program may lie."""
    return _CLASS_NAME.match(name) is not None


class Proxy:
    """One object of the candidate's. `own`: the test made it, by calling a class or a method of such an object."""

    __slots__ = ("_buffer", "_ended", "_has_plain", "_index", "_makes_own", "_own", "_prefetch", "_remote", "_type")

    def __init__(self, remote: Remote, index: int, type_name: str, has_plain: bool) -> None:
        values = {
            "_remote": remote,
            "_index": index,
            "_type": type_name,
            "_has_plain": has_plain,
            "_own": False,
            "_makes_own": False,
            "_buffer": [],
            "_ended": False,
            "_prefetch": 1,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _mark(self, **flags: bool) -> None:
        for name, value in flags.items():
            object.__setattr__(self, name, value)

    def _derived(self, result: Any) -> Any:
        if isinstance(result, Proxy) and (self._own or self._makes_own):
            result._mark(_own=True)
        return result

    def _operate(self, operation: str, *args: Any) -> Any:
        return self._derived(self._remote.operate(self._index, operation, *args))

    def _operate_as(self, kind: type, operation: str) -> Any:
        result = self._remote.operate(self._index, operation)
        if type(result) is not kind:
            raise TypeError(f"{operation} of a {self._type} object returned no {kind.__name__}")
        return result

    # Forwarded: the answer is a plain value or another proxy.

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._derived(self._remote.call(self._index, args, kwargs))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__name__", "__doc__", "__qualname__", "__annotations__"):
            raise AttributeError(f"{self._type!r} object has no attribute {name!r}")
        return self._operate("getattr", name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._operate("setattr", name, value)

    def __delattr__(self, name: str) -> None:
        self._operate("delattr", name)

    def __getitem__(self, key: Any) -> Any:
        return self._operate("item", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._operate("set_item", key, value)

    def __delitem__(self, key: Any) -> None:
        self._operate("del_item", key)

    def __len__(self) -> int:
        return int(self._operate_as(int, "length"))

    def __bool__(self) -> bool:
        return bool(self._operate_as(bool, "truth"))

    def __str__(self) -> str:
        return str(self._operate_as(str, "text"))

    def __repr__(self) -> str:
        return str(self._operate_as(str, "representation"))

    def __int__(self) -> int:
        return int(self._operate_as(int, "integer"))

    def __float__(self) -> float:
        return float(self._operate_as(float, "real"))

    def __enter__(self) -> Any:
        return self._operate("enter")

    def __exit__(self, *error: object) -> None:
        self._operate("leave")

    def __instancecheck__(self, value: Any) -> bool:
        return self._remote.operate(self._index, "is_instance", value) is True

    def __iter__(self) -> Any:
        iterator = self._remote.operate(self._index, "iterator")
        if not isinstance(iterator, Proxy):
            raise TypeError(f"{self._type!r} object is not iterable")
        return self._derived(iterator)

    def __next__(self) -> Any:
        if not self._buffer and not self._ended:
            items, ended = self._remote.next_items(self._index, self._prefetch)
            self._buffer.extend(reversed(items))
            self._mark(_ended=ended)
            object.__setattr__(self, "_prefetch", min(2 * self._prefetch, _MAX_PREFETCH))
        if not self._buffer:
            raise StopIteration
        return self._derived(self._buffer.pop())

    # Decided here, never by the candidate.

    def __contains__(self, value: Any) -> bool:
        return any(item is value or item == value for item in self)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, Proxy):
            raise NeedsInProcess
        return self._has_plain and bool(self._remote.plain(self._index) == other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        if self._own:
            raise NeedsInProcess
        return id(self)

    def __deepcopy__(self, memo: Any) -> Any:
        raise NeedsInProcess

    __copy__ = __deepcopy__

    def __reduce__(self) -> Any:
        raise TypeError("an object of the program cannot be pickled")


def _refuse(symbol: str) -> Callable[..., Any]:
    def method(self: Proxy, *others: Any) -> Any:
        if self._own or any(isinstance(other, Proxy) for other in others):
            raise NeedsInProcess
        raise TypeError(f"unsupported operand for {symbol}: {self._type!r} object of the program")

    return method


_OPERATORS = [
    "add",
    "sub",
    "mul",
    "matmul",
    "truediv",
    "floordiv",
    "mod",
    "divmod",
    "pow",
    "lshift",
    "rshift",
    "and",
    "xor",
    "or",
]
for _name in ("lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "round", "floor", "ceil", "trunc", "index"):
    setattr(Proxy, f"__{_name}__", _refuse(_name))
for _name in _OPERATORS:
    for _prefix in ("", "r", "i"):
        setattr(Proxy, f"__{_prefix}{_name}__", _refuse(_name))
