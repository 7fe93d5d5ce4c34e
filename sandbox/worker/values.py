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
from functools import partial
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


class NotPlain(ValueError):
    """A value that does not cross, though others of its type do."""


@dataclasses.dataclass(frozen=True)
class Codec:
    """How values of a type cross."""

    tag: str
    write: Callable[["Writer", Any, int], list[Any]]
    """(writer, value, depth) -> what follows the tag. Raises NotPlain; ValueError for a value that is too large."""
    read: Callable[..., Any]
    """(reader, what follows the tag, depth) -> the value or, if there is `fill`, an empty one. Containers take a fourth
    argument: what makes the empty one instead."""
    fill: Callable[["Reader", Any, list[Any], int], None] | None = None
    """Of types that can be changed in place: (reader, value, what follows the tag, depth); replaces the content."""


def of_parts(tag: str, parts: Callable[[Any], list[Any]], make: Callable[..., Any]) -> Codec:
    """Of a type whose parts are JSON already."""
    return Codec(tag, lambda writer, value, depth: parts(value), lambda reader, data, depth: make(*data))


def _of_items(tag: str, items: Callable[[Any], Iterable[Any]], make: Callable[[list[Any]], Any]) -> Codec:
    """Of a container that never changes."""
    return Codec(
        tag,
        lambda writer, value, depth: [writer.items(list(items(value)), depth + 1)],
        lambda reader, data, depth: make(reader.items(data[0], depth + 1)),
    )


def _mutable(
    tag: str,
    kind: Any,
    describe: Callable[[Any], list[Any]] = lambda value: [],
    empty: Callable[..., Any] = lambda kind: kind(),
) -> Codec:
    """Of a container that can be changed in place: its items (a dictionary's keys, then values), what else describes
    it, and how an empty one of a class is made of that description."""
    parts = (kind.keys, kind.values) if issubclass(kind, dict) else (kind.__iter__,)
    clear = getattr(kind, "clear", None) or (lambda value: kind.__delitem__(value, slice(None)))
    # By the methods of the data type, whatever class derives from it; Counter's own update counts.
    add = dict.update if kind is collections.Counter else getattr(kind, "update", None) or kind.extend

    def write(writer: "Writer", value: Any, depth: int) -> list[Any]:
        said = [writer.encode(part) for part in describe(value)]
        return [*(writer.items(list(part(value)), depth + 1) for part in parts), *said]

    def read(reader: "Reader", data: list[Any], depth: int, make: Callable[..., Any] | None = None) -> Any:
        return empty(make or _MADE.get(tag, kind), *map(reader.decode, data[len(parts) :]))

    def fill(reader: "Reader", value: Any, data: list[Any], depth: int) -> None:
        clear(value)
        items = [reader.items(part, depth + 1) for part in data[: len(parts)]]
        add(value, items[0] if len(parts) == 1 else zip(*items, strict=True))

    return Codec(tag, write, read, fill)


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


def _bytes_of_view(value: memoryview) -> list[str]:
    if not value.readonly or value.format != "B" or value.ndim != 1:
        raise NotPlain("a view of more than bytes, or of what can be changed")
    return [value.hex()]


_CODECS: dict[type, Codec | None] = {
    bytes: of_parts("b", lambda value: [bytes.hex(value)], bytes.fromhex),
    complex: of_parts("j", lambda value: [complex.__complex__(value).real, complex.__complex__(value).imag], complex),
    range: of_parts("r", lambda value: [hex(part) for part in (value.start, value.stop, value.step)],
                     lambda *parts: range(*(int(part, 16) for part in parts))),
    decimal.Decimal: of_parts("D", lambda value: [decimal.Decimal.__str__(value)], decimal.Decimal),
    fractions.Fraction: of_parts("F", lambda value: [hex(value.numerator), hex(value.denominator)],
                                  lambda *parts: fractions.Fraction(*(int(part, 16) for part in parts))),
    datetime.datetime: of_parts("datetime", partial(_time_parts, datetime.datetime),
                                 partial(_time_of, datetime.datetime)),
    datetime.date: of_parts("date", lambda value: [datetime.date.isoformat(value)], datetime.date.fromisoformat),
    datetime.time: of_parts("time", partial(_time_parts, datetime.time), partial(_time_of, datetime.time)),
    datetime.timedelta: of_parts("delta", lambda value: [value.days, value.seconds, value.microseconds],
                                  lambda *parts: datetime.timedelta(*parts)),
    tuple: _of_items("t", tuple.__iter__, tuple),
    frozenset: _of_items("f", frozenset.__iter__, frozenset),
    slice: _of_items("slice", lambda value: (value.start, value.stop, value.step), lambda items: slice(*items)),
    _KEYS: _of_items("K", iter, lambda items: dict.fromkeys(items).keys()),
    _VALUES: _of_items("V", iter, lambda items: dict(enumerate(items)).values()),
    _ITEMS: _of_items("I", iter, lambda items: dict(items).items()),
    list: _mutable("l", list),
    collections.Counter: _mutable("c", collections.Counter),
    collections.OrderedDict: _mutable("o", collections.OrderedDict),
    collections.defaultdict: _mutable("dd", collections.defaultdict, lambda value: [value.default_factory],
                                      lambda kind, factory: kind(factory)),
    dict: _mutable("d", dict),
    set: _mutable("s", set),
    collections.deque: _mutable("q", collections.deque, lambda value: [value.maxlen],
                                lambda kind, maximum: kind((), maximum)),
    bytearray: _mutable("a", bytearray),
    array.array: _mutable("y", array.array, lambda value: [value.typecode], lambda kind, typecode: kind(typecode)),
}  # fmt: skip
"""By type; None: its values do not cross."""
KINDS: tuple[type, ...] = (*_SCALARS, *_CODECS)
"""All data types; what derives from several of them crosses as the first."""
_CODECS.update({  # containers around containers, whose subclasses do not cross
    collections.UserDict: _of_items("ud", lambda value: [value.data], lambda items: collections.UserDict(*items)),
    collections.UserList: _of_items("ul", lambda value: [value.data], lambda items: collections.UserList(*items)),
    collections.UserString: of_parts("us", lambda value: [str.__str__(value.data)], collections.UserString),
    memoryview: of_parts("mv", _bytes_of_view, lambda text: memoryview(bytes.fromhex(text))),
    collections.ChainMap: _of_items("cm", lambda value: value.maps, lambda items: collections.ChainMap(*items)),
    types.MappingProxyType: _of_items("mp", lambda value: [dict(value)], lambda items: types.MappingProxyType(*items)),
})  # fmt: skip
_BY_TAG = {codec.tag: codec for codec in _CODECS.values() if codec is not None}
_BASES: dict[type, type | None] = {kind: kind for kind in (*KINDS, *_CODECS)}
_ADDED: list[type] = []
_MADE: dict[str, Any] = {"dd": collections.defaultdict, "q": collections.deque}


def free_safely() -> None:
    """Have readers make deques and defaultdicts that are freed without recursion, however long a chain of them is.

    Those of `collections` are freed by recursion in C, and a chain of 100,000 overflows the stack. Objects of a class
    made here are not.
    """
    _MADE.update({tag: type(kind.__name__, (kind,), {}) for tag, kind in _MADE.items()})


class Oversized(ValueError):
    """A frame whose values would take more memory than is available."""


def require_small(body: bytes | bytearray, memory_bytes: int) -> None:
    """Raise Oversized for a frame whose values could need more memory. Only counts, decodes nothing."""
    if len(body) > _ALWAYS_SMALL:
        containers = body.count(b"[") + body.count(b"{") + body.count(b":")
        if 6 * len(body) + 160 * containers + 60 * body.count(b",") > memory_bytes:
            raise Oversized(f"a result of {len(body)} bytes needs more than {memory_bytes >> 20} MiB")


CHANGED_BY_TAG: dict[Any, type] = {
    codec.tag: kind for kind, codec in _CODECS.items() if codec is not None and codec.fill is not None
}
CARRIED = frozenset((int, str, float, tuple, frozenset, *CHANGED_BY_TAG.values()))
"""Data types of which a subclass crosses with its data, and with what it adds to them."""


def add_kind(kind: type, codec: Codec | None) -> None:
    """Have values of a type, and of its subclasses not added before, cross by this codec; None: not at all."""
    _ADDED.append(kind)
    _BASES[kind] = kind
    _CODECS[kind] = codec
    if codec is not None:
        _BY_TAG[codec.tag] = codec


def add_name(name: str, value: Any) -> None:
    """Have a value cross by name."""
    _BY_NAME[name] = value
    _NAME_OF[id(value)] = name


def _base(kind: type) -> type | None:
    """The data type that a class is or derives from."""
    if kind not in _BASES:
        _BASES[kind] = next((base for base in (*_ADDED, *KINDS) if issubclass(kind, base)), None)
    return _BASES[kind]


def _codec(value: Any) -> Codec:
    """Of a value that is shared."""
    codec = _CODECS[_base(type(value)) or object]
    assert codec is not None
    return codec


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
            self._known[number] = _contents(self.values[number])

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


def _contents(value: Any) -> list[Any]:
    """What is in a mutable value, to compare it with what is in it later: the very items, or encoded data."""
    base: Any = _base(type(value))
    if base in _ADDED:
        return Writer(lambda other: ["h"], Shared()).contents(value)
    return [*base.keys(value), *base.values(value)] if issubclass(base, dict) else list(base.__iter__(value))


def _is_changed(value: Any, known: list[Any]) -> bool:
    now = _contents(value)
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
        if base is None or depth >= MAX_DEPTH or (base not in _SCALARS and _CODECS[base] is None):
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
        codec, mark = _CODECS[base], self._shared.mark
        assert codec is not None
        if codec.fill is not None:
            self._shared.add(value)
        try:
            return [codec.tag, *codec.write(self, value, depth)]
        except NotPlain:
            self._shared.roll_back(mark)
            return self._refer(value)

    def contents(self, value: Any) -> list[Any]:
        """What is in a value that can be changed, and what else describes it."""
        return _codec(value).write(self, value, 0)

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

    def decode(self, data: Any, depth: int = 0, *make: Callable[..., Any]) -> Any:
        """The value that encode() wrote. make: makes the empty container, if it is to be of a class of its own."""
        if not isinstance(data, list):
            if data is None or isinstance(data, (bool, int, float, str)):
                return data
            raise ValueError("not a tagged value")
        if depth > MAX_DEPTH + 20:
            raise ValueError("nested too deeply")
        tag = data[0]
        codec = _BY_TAG.get(tag)
        if codec is not None:
            value = codec.read(self, data[1:], depth, *make)
            if codec.fill is not None:
                self.shared.add(value)
                codec.fill(self, value, data[1:], depth)
            return value
        if tag == "i":
            return int(data[1], 16)
        if tag == "n":
            return _BY_NAME[data[1]]
        if tag == "@":
            return self.shared.values[data[1]]
        return self._resolve(self, data, depth)

    def follow(self, changes: list[list[Any]]) -> list[int]:
        """Carry over what Writer.changes() tells; the numbers of the values."""
        for number, data in changes:
            value = self.shared.values[number]
            fill = _codec(value).fill
            assert fill is not None
            fill(self, value, data, 0)
        return [number for number, _ in changes]

    def items(self, items: Any, depth: int) -> list[Any]:
        if not isinstance(items, list):
            raise ValueError("not a list of values")
        if _JSON_CONTAINERS.isdisjoint(map(type, items)):
            return items
        return [self.decode(item, depth) for item in items]
