"""What stays with the program, as the checker's tests see it.

A `Remote` stands for an object of the program's. What a test does with it is asked of the program: attributes, calls,
items, its text. So tests of classes run here, where the program cannot reach them. But the program never decides how
such an object compares with the test's own values: it equals none of them, and has no arithmetic with them. Otherwise
one that equals everything would be the answer to every test.

A subclass of a data type (a named tuple, an enum of numbers, a class of lists) crosses with its data, by which it is
compared here; what its class adds is asked of the program (`Carried`).
"""

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from . import values

if TYPE_CHECKING:
    from .session import Session

_UNARY = str.split(
    "abs bool bytes ceil complex delitem float floor format getitem hash index int invert neg pos repr round setitem "
    "str trunc"
)
_BINARY = ["add", "and", "floordiv", "lshift", "matmul", "mod", "mul", "or", "pow", "rshift", "sub", "truediv", "xor"]
_COMPARING = ["eq", "ge", "gt", "le", "lt", "ne"]
OPERATIONS = (*_UNARY, *_BINARY, *_COMPARING, *str.split("call contains delattr getattr iter len setattr"))
_ITEMS = {"__getitem__": ("__getitem__", "__missing__"), "__iter__": ("__iter__",), "__len__": ("__len__",)}
_REFLECTED = {f"__r{name}__": name for name in _BINARY}
_WITH_ANOTHER = (*(f"__{name}__" for name in (*_COMPARING, *_BINARY)), *_REFLECTED)
_TEXTS = {"__str__": ("__str__", "__repr__"), "__repr__": ("__repr__",), "__format__": ("__format__", "__str__")}


class NeedsProcess(BaseException):  # not an Exception, which a test might catch
    """The test turns out to need the program's process; the message says why."""


class Remote:
    """An object of the program's."""

    __slots__ = ("_is_ended", "_is_made", "_is_method", "_session", "_target")
    _own = frozenset(_WITH_ANOTHER)

    def __init__(self, session: "Session", target: list[Any]) -> None:
        note(self, _session=session, _target=target, _is_made=False, _is_method=False, _is_ended=False)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        answer = self._session.ask("call", self, *args, **kwargs)
        if isinstance(answer, Carried | Remote) and self._target[0] == "name":
            note(answer, _is_made=self._target[1] in self._session.classes)
        if self._is_method and type(answer) is bool and not self._session.objects:
            raise TypeError("what is no plain data cannot say whether it is right")
        return answer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # that of a protocol, which is another way to look
            raise AttributeError(name)
        return _attribute(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._session.do("setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._session.do("delattr", self, name)

    # In a test of plain data it has always the same items, until the program runs again.

    def __iter__(self) -> Iterator[Any]:
        return iter(self._session.do("iter", self) if self._session.objects else self._items())

    def __len__(self) -> int:
        return int(self._session.do("len", self)) if self._session.objects else len(self._items())

    def _items(self) -> list[Any]:
        key = tuple(self._target)
        if key not in self._session.looked_at:
            items = list(self._session.do("iter", self))
            self._session.looked_at[key] = items  # a new dictionary, for the program has run
        return list(self._session.looked_at[key])

    def __contains__(self, item: Any) -> bool:
        is_asked = self._is_made or isinstance(item, Carried | Remote)
        return bool(self._session.do("contains", self, item)) if is_asked else any(item == each for each in self)

    def __instancecheck__(self, value: Any) -> bool:
        raise self._session.need_process("it asks for the program's class")

    __subclasscheck__ = __instancecheck__

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._session.objects:
            raise self._session.need_process("it copies an object of the program's")
        self._session.met_foreign = True
        raise TypeError("an object of the program's cannot be copied in a test of plain data")


class RemoteIterator(Remote):
    """An iterator of the program's, taken one item at a time."""

    __slots__ = ()

    def __iter__(self) -> Self:
        return self

    def __len__(self) -> int:
        raise TypeError("an iterator has no len()")

    def __next__(self) -> Any:
        if self._is_ended:
            raise StopIteration
        try:
            return self._session.ask("next", self)
        except StopIteration:
            note(self, _is_ended=True)
            raise


class Carried:
    """A value of a subclass of a data type: the data, and an object of the program's for the rest."""

    _session: "Session"
    _target: list[Any]
    _own: frozenset[str] = frozenset()
    _is_made = False

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name in self._own and self._session.objects:
            return _attribute(self, name)
        return super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_target" not in vars(self):  # which it lacks while it is made
            raise AttributeError(name)
        return _attribute(self, name)


def _attribute(value: Any, name: str) -> Any:
    """An attribute of an object of the program's."""
    answer = value._session.do("getattr", value, name)
    if isinstance(answer, Remote):
        note(answer, _is_method=True)
    return answer


def note(holder: Any, **attributes: Any) -> None:
    """Set attributes of our own on what forwards all others."""
    for name, value in attributes.items():
        object.__setattr__(holder, name, value)


@functools.cache
def carrier(base: type) -> Any:
    """The class of values of this data type that a program has subclassed."""
    kind: Any = type(base.__name__, (Carried, base), {})
    if base.__hash__ is not None:
        values.add_kind(kind, None)  # goes back to the program as the object that it is
    needed = _TEXTS | _ITEMS | {special: (special,) for special in _WITH_ANOTHER}
    for special, own in needed.items():
        if hasattr(base, special):
            setattr(kind, special, _asking(special, getattr(base, special), own))
    kind.__hash__ = base.__hash__
    return kind


def _asking(special: str, of_data: Callable[..., Any], needed: tuple[str, ...]) -> Callable[..., Any]:
    """A method for which the program is asked if its class has one: for items only in tests about objects, and with
    another value only if that is the program's, too; if the test has made the object, in the program's process."""

    def method(self: Any, *args: Any) -> Any:
        if special in _ITEMS:
            is_asked = self._session.objects
        else:
            is_asked = special in _TEXTS or isinstance(args[0], Carried | Remote)
        if not self._own.isdisjoint(needed):
            if is_asked and special in _REFLECTED:
                return self._session.do(_REFLECTED[special], *args, self)
            if is_asked:
                return self._session.do(special.strip("_"), self, *args)
            if self._is_made and special not in _ITEMS:
                raise self._session.need_process("it has an object of the program's meet a value of its own")
        return of_data(self, *args)

    return method


def _unary(name: str) -> Callable[..., Any]:
    return lambda self, *args: self._session.do(name, self, *args)


for _name in _UNARY:
    setattr(Remote, f"__{_name}__", _unary(_name))
for _name in _WITH_ANOTHER:
    setattr(Remote, _name, _asking(_name, lambda self, other: NotImplemented, (_name,)))
