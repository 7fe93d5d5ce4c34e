"""Plain values as tagged JSON: what crosses between a checker and a candidate.

None, booleans, strings, floats and 64-bit integers stand for themselves; everything else is a list whose first element
is a tag. Only the standard library's data types cross by value, and what the checker decodes is built from its own
classes: no method of the candidate's can take part in a comparison. A subclass crosses as the data type it derives
from. Anything else crosses as a reference, which the writer's `refer` makes and the reader's `resolve` reads.

A mutable container that occurs twice crosses once. Writer and reader number them in the same order (`Shared`), and
["@", number] refers to one of them; both keep theirs, so that what one side changes in place the other sees, too.
"""

import array
import builtins
import collections
import dataclasses
import datetime
import decimal
import fractions
import importlib
import math
import operator
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

MAX_DEPTH = 500
RECURSION_LIMIT = 6000
"""For encoding and decoding: each level of nesting is four calls here, and two in JSON."""
_MOST_ITEMS = 10_000
"""In all that is shared: looking for changes takes time at every call."""
_REFERENCES = 2
"""To a value that nothing but `Shared` holds, as sys.getrefcount() counts them."""
_BIG = 1 << 63
_AS_IS = {str, bool, float, type(None)}
_JSON_CONTAINERS = frozenset((list, dict))
_ALWAYS_SMALL = 1 << 20
FUNCTIONS = str.split(
    "abs all any ascii bin bool bytearray bytes chr complex dict divmod enumerate filter float format frozenset hash "
    "hex int isinstance iter len list map max min next object oct ord pow print range repr reversed round set slice "
    "sorted str sum tuple zip"
)
EXCEPTIONS = {  # that can be rebuilt from their arguments; not groups, which hold exceptions
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException) and not issubclass(kind, BaseExceptionGroup)
}
# These of the standard library cross by name, and each side uses its own.
_BY_NAME: dict[str, Any] = {
    **{name: getattr(builtins, name) for name in (*FUNCTIONS, "type", "Ellipsis", "NotImplemented")},
    **EXCEPTIONS,
    **{f"math.{name}": value for name, value in vars(math).items() if not name.startswith("_")},
}
_NAME_OF = {id(value): name for name, value in _BY_NAME.items()}

_KEYS, _VALUES, _ITEMS = (type(view) for view in (dict[str, int]().keys(), {"": 0}.values(), {"": 0}.items()))
_SCALARS: dict[type, Callable[[Any], Any]] = {int: int.__int__, str: str.__str__, float: float.__float__}
# Types whose parts are JSON already: type -> (tag, parts of a value, value from parts).
_SIMPLE: dict[type, tuple[str, Callable[[Any], list[Any]], Callable[..., Any]]] = {
    bytes: ("b", lambda value: [bytes.hex(value)], bytes.fromhex),
    complex: ("j", lambda value: [complex.__complex__(value).real, complex.__complex__(value).imag], complex),
    range: ("r", lambda value: [hex(part) for part in (value.start, value.stop, value.step)],
            lambda *parts: range(*(int(part, 16) for part in parts))),
    decimal.Decimal: ("D", lambda value: [decimal.Decimal.__str__(value)], decimal.Decimal),
    fractions.Fraction: ("F", lambda value: [hex(value.numerator), hex(value.denominator)],
                         lambda *parts: fractions.Fraction(*(int(part, 16) for part in parts))),
    datetime.datetime: ("datetime", lambda value: _time_parts(datetime.datetime, value),
                        lambda *parts: _time_of(datetime.datetime, *parts)),
    datetime.date: ("date", lambda value: [datetime.date.isoformat(value)], datetime.date.fromisoformat),
    datetime.time: ("time", lambda value: _time_parts(datetime.time, value),
                    lambda *parts: _time_of(datetime.time, *parts)),
    datetime.timedelta: ("delta", lambda value: [value.days, value.seconds, value.microseconds], datetime.timedelta),
}  # fmt: skip


def _time_parts(kind: Any, value: Any) -> list[Any]:
    """[ISO text without a zone, fold, the zone's name, its offset in seconds unless that follows from the name]."""
    zone = value.tzinfo
    text = kind.isoformat(value.replace(tzinfo=None))
    if zone is None or isinstance(zone, datetime.timezone):
        seconds = None if zone is None else zone.utcoffset(None).total_seconds()
        return [text, value.fold, zone and zone.tzname(None), seconds]
    if type(zone).__module__ != "zoneinfo" or zone.key is None:
        raise NotPlain("a time zone of the program's own")
    return [text, value.fold, zone.key, None]


def _time_of(kind: Any, text: str, fold: int, name: str | None, seconds: float | None) -> Any:
    zone: datetime.tzinfo | None = None
    if seconds is not None:
        offset = datetime.timedelta(seconds=seconds)
        zone = datetime.timezone(offset)
        zone = zone if zone.tzname(None) == name else datetime.timezone(offset, str(name))
    elif name is not None:
        zone = importlib.import_module("zoneinfo").ZoneInfo(name)
    return kind.fromisoformat(text).replace(tzinfo=zone, fold=fold)


# Containers that cross as a list of items: type -> (tag, its items, made from those).
_OF_ITEMS: dict[type, tuple[str, Callable[[Any], Iterable[Any]], Callable[[list[Any]], Any]]] = {
    tuple: ("t", tuple.__iter__, tuple),
    frozenset: ("f", frozenset.__iter__, frozenset),
    slice: ("slice", lambda value: (value.start, value.stop, value.step), lambda items: slice(*items)),
    _KEYS: ("K", iter, lambda items: dict.fromkeys(items).keys()),
    _VALUES: ("V", iter, lambda items: dict(enumerate(items)).values()),
    _ITEMS: ("I", iter, lambda items: dict(items).items()),
}
# Those that can be changed in place: type -> (tag, what describes a value besides its items, an empty one of that
# description). Dictionaries cross as keys and values, all others as items.
_MUTABLE: dict[type, tuple[str, Callable[[Any], list[Any]], Callable[..., Any]]] = {
    list: ("l", lambda value: [], lambda: []),
    collections.Counter: ("c", lambda value: [], lambda: collections.Counter()),
    collections.OrderedDict: ("o", lambda value: [], lambda: collections.OrderedDict()),
    collections.defaultdict: ("dd", lambda value: [value.default_factory],
                              lambda factory: collections.defaultdict(factory)),
    dict: ("d", lambda value: [], lambda: {}),
    set: ("s", lambda value: [], lambda: set()),
    collections.deque: ("q", lambda value: [value.maxlen], lambda maximum: collections.deque(maxlen=maximum)),
    bytearray: ("a", lambda value: [], lambda: bytearray()),
    array.array: ("y", lambda value: [value.typecode], lambda typecode: array.array(typecode)),
}  # fmt: skip
KINDS: tuple[type, ...] = (*_SCALARS, *_SIMPLE, *_OF_ITEMS, *_MUTABLE)
"""All data types; what derives from several of them crosses as the first."""
_OF_ITEMS.update(  # containers around containers, whose subclasses do not cross
    {
        collections.UserDict: ("ud", lambda value: [value.data], lambda items: collections.UserDict(*items)),
        collections.UserList: ("ul", lambda value: [value.data], lambda items: collections.UserList(*items)),
        collections.ChainMap: ("cm", lambda value: value.maps, lambda items: collections.ChainMap(*items)),
        types.MappingProxyType: ("mp", lambda value: [dict(value)], lambda items: types.MappingProxyType(*items)),
    }
)
_BASES: dict[type, type | None] = {kind: kind for kind in (*KINDS, *_OF_ITEMS)}
_EMPTY = {tag: empty for tag, _, empty in _MUTABLE.values()}
_DICTIONARIES = frozenset(_MUTABLE[kind][0] for kind in _MUTABLE if issubclass(kind, dict))
_MADE_OF_ITEMS = {tag: make for tag, _, make in _OF_ITEMS.values()}
_MADE_OF_PARTS = {tag: make for tag, _, make in _SIMPLE.values()}


def free_safely() -> None:
    """Have readers make deques and defaultdicts that are freed without recursion, however long a chain of them is.

    Those of `collections` are freed by recursion in C, and a chain of 100,000 overflows the stack. Objects of a class
    made here are not.
    """
    deque, default = (type(kind.__name__, (kind,), {}) for kind in (collections.deque, collections.defaultdict))
    _EMPTY.update(dd=lambda factory: default(factory), q=lambda maximum: deque(maxlen=maximum))


class NotPlain(ValueError):
    """A value of a package's type that does not cross."""


class Oversized(ValueError):
    """A frame whose values would take more memory than is available."""


def require_small(body: bytes | bytearray, memory_bytes: int) -> None:
    """Raise Oversized for a frame whose values could need more memory. Only counts, decodes nothing."""
    if len(body) > _ALWAYS_SMALL:
        containers = body.count(b"[") + body.count(b"{") + body.count(b":")
        if 6 * len(body) + 160 * containers + 60 * body.count(b",") > memory_bytes:
            raise Oversized(f"a result of {len(body)} bytes needs more than {memory_bytes >> 20} MiB")


CARRIED = frozenset((int, str, float, tuple, list, dict, set, frozenset))
"""Data types of which a subclass crosses with its data, and with what it adds to them."""


@dataclasses.dataclass(frozen=True)
class Codec:
    """How values of a package's type cross (worker/arrays.py). Types that can be changed in place have `set`."""

    tag: str
    write: Callable[["Writer", Any, int], list[Any]]
    """(writer, value, depth) -> what follows the tag. Raises ValueError for what does not cross."""
    read: Callable[["Reader", list[Any], int], Any]
    """(reader, what follows the tag, depth) -> a value, shared if there is `set`."""
    set: Callable[["Reader", Any, list[Any]], None] | None = None
    """Replaces the content of a value."""


_ADDED: dict[type, Codec | None] = {}
_READERS: dict[str, Callable[["Reader", list[Any], int], Any]] = {}


def add_kind(kind: type, codec: Codec | None) -> None:
    """Have values of a type, and of its subclasses not added before, cross by this codec; None: not at all."""
    _ADDED[kind] = codec
    _BASES[kind] = kind
    if codec is not None:
        _READERS[codec.tag] = codec.read


def add_name(name: str, value: Any) -> None:
    """Have a value cross by name."""
    _BY_NAME[name] = value
    _NAME_OF[id(value)] = name


def _base(kind: type) -> type | None:
    """The data type that a class is or derives from."""
    if kind not in _BASES:
        _BASES[kind] = next((base for base in (*_ADDED, *KINDS) if issubclass(kind, base)), None)
    return _BASES[kind]


class Shared:
    """The mutable values that both processes hold, by number: each side adds them in the same order.

    With every message a side tells what it has changed in them since, so that both look at the same contents.
    """

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}  # kept alive, so that none of their ids is reused
        self.mark = 0  # the number of the next; roll_back() can return to it
        self._numbers: dict[int, int] = {}  # by id
        self._known: dict[int, list[Any]] = {}  # what the other side knows to be in them

    def number(self, value: Any) -> int | None:
        return self._numbers.get(id(value))

    def add(self, value: Any) -> None:
        self.values[self.mark] = value
        self._numbers[id(value)] = self.mark
        self.mark += 1

    def drop(self, numbers: list[int]) -> None:
        """From now on the two sides have copies of these values."""
        for number in numbers:
            del self._numbers[id(self.values.pop(number))]
            self._known.pop(number, None)

    def roll_back(self, mark: int) -> None:
        """Forget what was added since."""
        self.drop([number for number in self.values if number >= mark])
        self.mark = mark

    def changed(self) -> list[int]:
        """Values with other contents than the other side knows."""
        return [number for number, known in self._known.items() if _is_changed(self.values[number], known)]

    def note(self, changed: Iterable[int] = ()) -> None:
        """The other side knows the contents of all new values, and of these."""
        for number in (*changed, *(self.values.keys() - self._known.keys())):
            self._known[number] = _parts(self.values[number])

    def drop_unheld(self) -> list[int]:
        """Drop values that nothing else refers to, and the oldest if all have too many items; their numbers."""
        dropped = []
        items = sum(map(len, self._known.values()))
        for number in list(self.values):
            if sys.getrefcount(self.values[number]) <= _REFERENCES or items > _MOST_ITEMS:
                items -= len(self._known[number])
                self.drop([number])
                dropped.append(number)
        return dropped


def _parts(value: Any) -> list[Any]:
    """What is in a mutable value, to compare it with what is in it later: the very items, or encoded data."""
    base = _base(type(value))
    assert base is not None
    if base in _ADDED:
        return Writer(lambda other: ["h"], Shared()).contents(value)
    if issubclass(base, dict):
        return [*base.keys(value), *base.values(value)]
    return list(base.__iter__(value))  # type: ignore[attr-defined]


def _is_changed(value: Any, known: list[Any]) -> bool:
    now = _parts(value)
    if _base(type(value)) in _ADDED:
        return now != known
    return len(now) != len(known) or not all(map(operator.is_, now, known))


class Writer:
    """Encodes values; mutable containers become shared."""

    def __init__(
        self,
        refer: Callable[[Any], list[Any]],
        shared: Shared,
        describe: Callable[[Any, type], list[Any]] | None = None,
    ) -> None:
        """refer: makes a reference. describe: says what a subclass of a data type adds to it; None: nothing."""
        self._refer = refer
        self._shared = shared
        self._describe = describe

    def encode(self, value: Any, depth: int = 0) -> Any:
        """A value as JSON-ready data."""
        kind = type(value)
        if kind in _AS_IS:
            return value
        if kind is int:  # hexadecimal is linear in the length; decimal is quadratic, and limited to 4300 digits
            return value if -_BIG < value < _BIG else ["i", hex(value)]
        base = _base(kind)
        if base is None or depth >= MAX_DEPTH or (base in _ADDED and _ADDED[base] is None):
            name = _NAME_OF.get(id(value))
            return self._refer(value) if name is None else ["n", name]
        number = self._shared.number(value)
        if number is not None:
            return ["@", number]
        if kind is base or self._describe is None or base not in CARRIED:
            return self._encode_data(value, base, depth)
        return ["u", *self._describe(value, base), self._encode_data(value, base, depth)]

    def _encode_data(self, value: Any, base: type, depth: int) -> Any:
        """A value by the methods of its data type. One that does not cross stays, and is not shared."""
        if base in _SCALARS:
            return self.encode(_SCALARS[base](value))
        if base in _OF_ITEMS:
            tag, items, _ = _OF_ITEMS[base]
            return [tag, self.items(list(items(value)), depth + 1)]
        mark, codec = self._shared.mark, _ADDED.get(base)
        if base in _MUTABLE or (codec is not None and codec.set is not None):
            self._shared.add(value)
        try:
            if base in _SIMPLE:
                return [_SIMPLE[base][0], *_SIMPLE[base][1](value)]
            return [codec.tag if codec is not None else _MUTABLE[base][0], *self.contents(value, depth)]
        except NotPlain:
            self._shared.roll_back(mark)
            return self._refer(value)

    def contents(self, value: Any, depth: int = 0) -> list[Any]:
        """What is in a value that can be changed, or of a package's type, and what else describes it."""
        base: Any = _base(type(value))
        codec = _ADDED.get(base)
        if codec is not None:
            return codec.write(self, value, depth)
        parts = (base.keys, base.values) if issubclass(base, dict) else (base.__iter__,)
        said = [self.encode(part) for part in _MUTABLE[base][1](value)]
        return [*(self.items(list(part(value)), depth + 1) for part in parts), *said]

    def changes(self) -> list[list[Any]]:
        """[number, contents] of all shared values that were changed since the other side was told."""
        return [[number, self.contents(self._shared.values[number])] for number in self._shared.changed()]

    def items(self, values: list[Any], depth: int) -> list[Any]:
        kinds = set(map(type, values))
        if kinds <= _AS_IS or (kinds == {int} and min(values) > -_BIG and max(values) < _BIG):
            return values
        return [self.encode(value, depth) for value in values]


class Reader:
    """Decodes values into this process's own types; mutable containers become shared.

    Data that no Writer writes can raise anything: decode what a candidate sent under a handler for Exception.
    """

    def __init__(self, resolve: Callable[["Reader", list[Any], int], Any], shared: Shared) -> None:
        self.shared = shared
        self._resolve = resolve

    def decode(self, data: Any, depth: int = 0, new: Callable[[], Any] | None = None) -> Any:
        """The value that encode() wrote. new: makes the empty container, if it is to be of a class of its own."""
        if not isinstance(data, list):
            if data is None or isinstance(data, (bool, int, float, str)):
                return data
            raise ValueError("not a tagged value")
        if depth > MAX_DEPTH + 20:
            raise ValueError("nested too deeply")
        tag = data[0]
        if tag in _EMPTY:
            said = data[3:] if tag in _DICTIONARIES else data[2:]
            value = (new or _EMPTY[tag])(*map(self.decode, said))
            self.shared.add(value)
            self.fill(value, data[1:], depth)
            return value
        if tag in _MADE_OF_ITEMS:
            return _MADE_OF_ITEMS[tag](self.items(data[1], depth + 1))
        if tag in _READERS:
            return _READERS[tag](self, data[1:], depth)
        if tag in _MADE_OF_PARTS:
            return _MADE_OF_PARTS[tag](*data[1:])
        if tag == "i":
            return int(data[1], 16)
        if tag == "n":
            return _BY_NAME[data[1]]
        if tag == "@":
            return self.shared.values[data[1]]
        return self._resolve(self, data, depth)

    def fill(self, value: Any, parts: list[Any], depth: int = 0) -> None:
        """Put items into an empty container."""
        base: Any = _base(type(value))  # whose methods no subclass replaces
        first = self.items(parts[0], depth + 1)
        if isinstance(value, dict):
            update = dict.update if isinstance(value, collections.Counter) else base.update  # Counter's adds
            update(value, zip(first, self.items(parts[1], depth + 1), strict=True))
        elif isinstance(value, set):
            base.update(value, first)
        else:
            base.extend(value, first)

    def follow(self, changes: list[list[Any]]) -> list[int]:
        """Carry over what Writer.changes() tells; the numbers of the values."""
        for number, parts in changes:
            self.refill(self.shared.values[number], parts)
        return [number for number, _ in changes]

    def refill(self, value: Any, parts: list[Any]) -> None:
        """Replace the content of a container."""
        codec = _ADDED.get(_base(type(value)) or object)
        if codec is not None and codec.set is not None:
            codec.set(self, value, parts)
            return
        base: Any = _base(type(value))
        base.clear(value) if hasattr(base, "clear") else base.__delitem__(value, slice(None))
        self.fill(value, parts)

    def items(self, items: Any, depth: int) -> list[Any]:
        if not isinstance(items, list):
            raise ValueError("not a list of values")
        if _JSON_CONTAINERS.isdisjoint(map(type, items)):
            return items
        return [self.decode(item, depth) for item in items]
