"""Plain values as tagged JSON: what crosses between a checker and a candidate.

None, booleans, strings, floats and 64-bit integers stand for themselves; everything else is a list whose first element
is a tag. Only the standard library's data types cross by value, and what the checker decodes is built from its own
classes: no method of the candidate's can take part in a comparison. A subclass crosses as the data type it derives
from. Anything else crosses as a reference, which the writer's `refer` makes and the reader's `resolve` reads.

A container that occurs twice crosses once. Writer and reader count mutable containers in the same order, and
["@", number] refers to one of them; both keep theirs (`objects`), so that changes in place can be carried over.
"""

import array
import builtins
import collections
import dataclasses
import datetime
import decimal
import fractions
import math
from collections.abc import Callable, Iterable
from typing import Any

# Each level of nesting is two in JSON, whose parser shares Python's recursion limit of 1000.
MAX_DEPTH = 180
_BIG = 1 << 63
_AS_IS = {str, bool, float, type(None)}
_JSON_CONTAINERS = frozenset((list, dict))
_ALWAYS_SMALL = 1 << 20
# These of the standard library cross by name, and each side uses its own.
_BY_NAME: dict[str, Any] = {
    name: getattr(builtins, name)
    for name in (
        *("abs", "all", "any", "ascii", "bin", "bool", "bytearray", "bytes", "chr", "complex", "dict", "divmod"),
        *("enumerate", "filter", "float", "format", "frozenset", "hex", "int", "isinstance", "iter", "len", "list"),
        *("map", "max", "min", "next", "object", "oct", "ord", "pow", "print", "range", "repr", "reversed", "round"),
        *("set", "slice", "sorted", "str", "sum", "tuple", "type", "zip", "Ellipsis", "NotImplemented"),
        *(name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, Exception)),
    )
} | {f"math.{name}": value for name, value in vars(math).items() if not name.startswith("_")}
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
    datetime.datetime: ("datetime", lambda value: [datetime.datetime.isoformat(value)],
                        datetime.datetime.fromisoformat),
    datetime.date: ("date", lambda value: [datetime.date.isoformat(value)], datetime.date.fromisoformat),
    datetime.time: ("time", lambda value: [datetime.time.isoformat(value)], datetime.time.fromisoformat),
    datetime.timedelta: ("delta", lambda value: [value.days, value.seconds, value.microseconds], datetime.timedelta),
}  # fmt: skip
# Containers: type -> (tag, what describes a value besides its items).
_CONTAINERS: dict[type, tuple[str, Callable[[Any], list[Any]]]] = {
    list: ("l", lambda value: []),
    tuple: ("t", lambda value: []),
    collections.Counter: ("c", lambda value: []),
    collections.OrderedDict: ("o", lambda value: []),
    collections.defaultdict: ("dd", lambda value: [value.default_factory]),
    dict: ("d", lambda value: []),
    set: ("s", lambda value: []),
    frozenset: ("f", lambda value: []),
    collections.deque: ("q", lambda value: [value.maxlen]),
    bytearray: ("a", lambda value: []),
    array.array: ("y", lambda value: [value.typecode]),
    slice: ("slice", lambda value: []),
    _KEYS: ("K", lambda value: []),
    _VALUES: ("V", lambda value: []),
    _ITEMS: ("I", lambda value: []),
}
_MUTABLE = (list, dict, set, bytearray, collections.deque, array.array)
# How a reader makes an empty one, from that description alone; then it is filled.
_NEW: dict[str, Callable[..., Any]] = {
    "l": lambda: [], "d": lambda: {}, "s": lambda: set(), "a": lambda: bytearray(),
    "c": lambda: collections.Counter(), "o": lambda: collections.OrderedDict(),
    "dd": lambda factory: collections.defaultdict(factory), "q": lambda maximum: collections.deque(maxlen=maximum),
    "y": lambda typecode: array.array(typecode),
}  # fmt: skip
_PARTS = {"d": 2, "c": 2, "o": 2, "dd": 2}  # keys and values; all others have items
_OF_ITEMS: dict[str, Callable[[list[Any]], Any]] = {
    "t": tuple,
    "f": frozenset,
    "slice": lambda items: slice(*items),
    "K": lambda items: dict.fromkeys(items).keys(),
    "V": lambda items: dict(enumerate(items)).values(),
    "I": lambda items: dict(items).items(),
}
_OF_PARTS = {tag: make for tag, _, make in _SIMPLE.values()}


def free_safely() -> None:
    """Have readers make deques and defaultdicts that are freed without recursion, however long a chain of them is.

    Those of `collections` are freed by recursion in C, and a chain of 100,000 overflows the stack. Objects of a class
    made here are not.
    """
    deque, default = (type(kind.__name__, (kind,), {}) for kind in (collections.deque, collections.defaultdict))
    _NEW.update(dd=lambda factory: default(factory), q=lambda maximum: deque(maxlen=maximum))


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


_BASES: dict[type, type | None] = {kind: kind for kind in (*_SCALARS, *_SIMPLE, *_CONTAINERS)}


@dataclasses.dataclass(frozen=True)
class Codec:
    """How values of a package's type cross (worker/arrays.py). Types that can be changed in place have `set`."""

    tag: str
    write: Callable[["Writer", Any, int], list[Any]]
    """(writer, value, depth) -> what follows the tag. Raises ValueError for what does not cross."""
    read: Callable[["Reader", list[Any], int], Any]
    """(reader, what follows the tag, depth) -> a value, which it adds to the reader's objects if there is `set`."""
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


def add_reader(tag: str, read: Callable[["Reader", list[Any], int], Any]) -> None:
    """Teach readers a tag of what is only part of other values."""
    _READERS[tag] = read


def add_name(name: str, value: Any) -> None:
    """Have a value cross by name."""
    _BY_NAME[name] = value
    _NAME_OF[id(value)] = name


def _base(kind: type) -> type | None:
    """The data type that a class is or derives from."""
    if kind not in _BASES:
        known = (*_ADDED, *_SCALARS, *_SIMPLE, *_CONTAINERS)
        _BASES[kind] = next((base for base in known if issubclass(kind, base)), None)
    return _BASES[kind]


class Writer:
    """Encodes values; `objects` are the mutable containers so far, in the order of their numbers."""

    def __init__(self, refer: Callable[[Any], list[Any]], objects: Iterable[Any] = ()) -> None:
        self.objects = list(objects)  # kept alive, so that none of their ids is reused
        self._refer = refer
        self._numbers = {id(value): number for number, value in enumerate(self.objects)}

    def encode(self, value: Any, depth: int = 0) -> Any:
        """A value as JSON-ready data."""
        kind = type(value)
        if kind in _AS_IS:
            return value
        if kind is int:  # hexadecimal is linear in the length; decimal is quadratic, and limited to 4300 digits
            return value if -_BIG < value < _BIG else ["i", hex(value)]
        base = _base(kind)
        if base is None or depth >= MAX_DEPTH:
            name = _NAME_OF.get(id(value))
            return self._refer(value) if name is None else ["n", name]
        if base in _ADDED:
            return self._encode_added(value, base, depth)
        if base in _SCALARS:
            return self.encode(_SCALARS[base](value))
        if base in _SIMPLE:
            return [_SIMPLE[base][0], *_SIMPLE[base][1](value)]
        if issubclass(base, _MUTABLE):
            number = self._numbers.get(id(value))
            if number is not None:
                return ["@", number]
            self._numbers[id(value)] = len(self.objects)
            self.objects.append(value)
        return [_CONTAINERS[base][0], *self.contents(value, depth)]

    def _encode_added(self, value: Any, base: type, depth: int) -> Any:
        """A value of a package's type; one that cannot cross stays, and so is not among the objects."""
        codec = _ADDED[base]
        if codec is None:
            name = _NAME_OF.get(id(value))
            return self._refer(value) if name is None else ["n", name]
        if codec.set is not None and id(value) in self._numbers:
            return ["@", self._numbers[id(value)]]
        before = len(self.objects)
        if codec.set is not None:
            self._numbers[id(value)] = before
            self.objects.append(value)
        try:
            return [codec.tag, *codec.write(self, value, depth)]
        except NotPlain:
            for left in self.objects[before:]:
                del self._numbers[id(left)]
            del self.objects[before:]
            return self._refer(value)

    def contents(self, value: Any, depth: int = 0) -> list[Any]:
        """What is in a container, and what else describes it."""
        base = _base(type(value))
        assert base is not None
        codec = _ADDED.get(base)
        if codec is not None:
            return codec.write(self, value, depth)
        parts: list[Any]
        if issubclass(base, dict):
            parts = [list(base.keys(value)), list(base.values(value))]
        elif base is slice:
            parts = [[value.start, value.stop, value.step]]
        else:
            parts = [list(base.__iter__(value))]  # type: ignore[attr-defined]
        said = [self.encode(part) for part in _CONTAINERS[base][1](value)]
        return [*(self.items(part, depth + 1) for part in parts), *said]

    def items(self, values: list[Any], depth: int) -> list[Any]:
        kinds = set(map(type, values))
        if kinds <= _AS_IS or (kinds == {int} and min(values) > -_BIG and max(values) < _BIG):
            return values
        return [self.encode(value, depth) for value in values]


class Reader:
    """Decodes values into this process's own types; `objects` as the writer's.

    Data that no Writer writes can raise anything: decode what a candidate sent under a handler for Exception.
    """

    def __init__(self, resolve: Callable[[list[Any]], Any], objects: Iterable[Any] = ()) -> None:
        self.objects = list(objects)
        self._resolve = resolve

    def decode(self, data: Any, depth: int = 0) -> Any:
        """The value that encode() wrote."""
        if not isinstance(data, list):
            if data is None or isinstance(data, (bool, int, float, str)):
                return data
            raise ValueError("not a tagged value")
        if depth > MAX_DEPTH + 20:
            raise ValueError("nested too deeply")
        tag = data[0]
        if tag in _NEW:
            value = _NEW[tag](*[self.decode(part) for part in data[1 + _PARTS.get(tag, 1) :]])
            self.objects.append(value)
            self.fill(value, data[1:], depth)
            return value
        if tag in _OF_ITEMS:
            return _OF_ITEMS[tag](self.items(data[1], depth + 1))
        if tag in _READERS:
            return _READERS[tag](self, data[1:], depth)
        if tag in _OF_PARTS:
            return _OF_PARTS[tag](*data[1:])
        if tag == "i":
            return int(data[1], 16)
        if tag == "n":
            return _BY_NAME[data[1]]
        if tag == "@" and type(data[1]) is int and data[1] >= 0:
            return self.objects[data[1]]
        return self._resolve(data)

    def fill(self, value: Any, parts: list[Any], depth: int = 0) -> None:
        """Put items into an empty container."""
        first = self.items(parts[0], depth + 1)
        if isinstance(value, dict):
            update = dict.update if isinstance(value, collections.Counter) else type(value).update  # Counter's adds
            update(value, zip(first, self.items(parts[1], depth + 1), strict=True))
        elif isinstance(value, set):
            value.update(first)
        else:
            value.extend(first)

    def refill(self, value: Any, parts: list[Any]) -> None:
        """Replace the content of a container."""
        codec = _ADDED.get(_base(type(value)) or object)
        if codec is not None and codec.set is not None:
            codec.set(self, value, parts)
            return
        value.clear() if hasattr(value, "clear") else value.__delitem__(slice(None))
        self.fill(value, parts)

    def items(self, items: Any, depth: int) -> list[Any]:
        if not isinstance(items, list):
            raise ValueError("not a list of values")
        if _JSON_CONTAINERS.isdisjoint(map(type, items)):
            return items
        return [self.decode(item, depth) for item in items]
