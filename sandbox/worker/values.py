"""Plain values as tagged JSON: what crosses between a checker and a candidate.

None, booleans, strings, floats and 64-bit integers stand for themselves; everything else is a list whose first element
is a tag. Only exact built-in types and a few of the standard library cross by value: what the checker decodes is built
from its own classes, so no method of the candidate's can take part in a comparison. Anything else crosses as a
reference that the `opaque` function of the caller makes, and is resolved by its `resolve` function.
"""

import builtins
import collections
import datetime
import decimal
import fractions
import math
from collections.abc import Callable
from typing import Any

# Each level of nesting is two in JSON, whose parser shares Python's recursion limit of 1000.
MAX_DEPTH = 180
_BIG = 1 << 63
_AS_IS = {str, bool, float, type(None)}

Opaque = Callable[[Any], list[Any]]
Resolve = Callable[[list[Any]], Any]

# Names of the standard library that may cross by name; each side uses its own object.
BY_NAME: dict[tuple[str, str], Any] = {
    ("builtins", name): getattr(builtins, name)
    for name in (
        *[
            "abs",
            "all",
            "any",
            "ascii",
            "bin",
            "bool",
            "bytearray",
            "bytes",
            "callable",
            "chr",
            "complex",
            "dict",
            "divmod",
            "enumerate",
            "filter",
            "float",
        ],
        *[
            "format",
            "frozenset",
            "hash",
            "hex",
            "int",
            "isinstance",
            "issubclass",
            "iter",
            "len",
            "list",
            "map",
            "max",
            "min",
            "next",
            "object",
            "oct",
            "ord",
        ],
        *[
            "pow",
            "print",
            "range",
            "repr",
            "reversed",
            "round",
            "set",
            "slice",
            "sorted",
            "str",
            "sum",
            "tuple",
            "type",
            "zip",
        ],
        *(name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, Exception)),
    )
}
BY_NAME |= {
    ("collections", name): getattr(collections, name)
    for name in ("Counter", "OrderedDict", "defaultdict", "deque", "namedtuple", "ChainMap")
}
BY_NAME |= {("math", name): value for name, value in vars(math).items() if callable(value) and not name.startswith("_")}
BY_NAME |= {("datetime", name): getattr(datetime, name) for name in ("date", "datetime", "time", "timedelta")}
BY_NAME |= {("decimal", "Decimal"): decimal.Decimal, ("fractions", "Fraction"): fractions.Fraction}
# Types whose in-place changes travel back to the test.
MUTABLE = (list, dict, set, bytearray, collections.deque, collections.OrderedDict, collections.Counter)
_NAME_OF = {id(value): key for key, value in BY_NAME.items()}


def _integer(value: int) -> Any:
    # Hexadecimal: linear in the length, where decimal is quadratic and limited to 4300 digits.
    return value if -_BIG < value < _BIG else ["i", hex(value)]


def _items(values: Any, opaque: Opaque, depth: int) -> list[Any]:
    values = list(values)
    kinds = set(map(type, values))
    if kinds <= _AS_IS or (kinds == {int} and min(values) > -_BIG and max(values) < _BIG):
        return values
    return [encode(value, opaque, depth) for value in values]


def encode(value: Any, opaque: Opaque, depth: int = 0) -> Any:
    """A value as JSON-ready data; `opaque` makes the reference for what cannot cross by value."""
    kind = type(value)
    if kind in _AS_IS:
        return value
    if kind is int:
        return _integer(value)
    if depth >= MAX_DEPTH:
        return opaque(value)
    if kind is slice:
        return ["slice", *_items((value.start, value.stop, value.step), opaque, depth + 1)]
    tag = _SEQUENCE_TAGS.get(kind)
    if tag is not None:
        return [tag, _items(value, opaque, depth + 1)]
    tag = _MAPPING_TAGS.get(kind)
    if tag is not None:
        return [tag, _items(value.keys(), opaque, depth + 1), _items(value.values(), opaque, depth + 1)]
    encoder = _ENCODERS.get(kind)
    if encoder is not None:
        return encoder(value)
    name = _NAME_OF.get(id(value))
    if name is not None:
        return ["n", *name]
    # A subclass of a scalar is the scalar: whatever it overrides stays behind.
    for base, plain in _SCALAR_OF.items():
        if issubclass(kind, base):
            return encode(plain(value), opaque, depth)
    return opaque(value)


_SEQUENCE_TAGS: dict[type, str] = {list: "l", tuple: "t", set: "s", frozenset: "f", collections.deque: "q"}
_MAPPING_TAGS: dict[type, str] = {
    dict: "d",
    collections.OrderedDict: "o",
    collections.Counter: "c",
    collections.defaultdict: "d",
}
_ENCODERS: dict[type, Callable[[Any], list[Any]]] = {
    bytes: lambda value: ["b", value.hex()],
    bytearray: lambda value: ["a", value.hex()],
    complex: lambda value: ["j", value.real, value.imag],
    range: lambda value: ["r", *map(_integer, (value.start, value.stop, value.step))],
    decimal.Decimal: lambda value: ["D", str(value)],
    fractions.Fraction: lambda value: ["F", _integer(value.numerator), _integer(value.denominator)],
    datetime.date: lambda value: ["date", value.isoformat()],
    datetime.datetime: lambda value: ["datetime", value.isoformat()],
    datetime.time: lambda value: ["time", value.isoformat()],
    datetime.timedelta: lambda value: ["delta", value.days, value.seconds, value.microseconds],
    type(NotImplemented): lambda value: ["const", "NotImplemented"],
    type(...): lambda value: ["const", "Ellipsis"],
}
_SCALAR_OF: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    complex: complex.__complex__,
}


def decode(data: Any, resolve: Resolve, depth: int = 0) -> Any:
    """The value that encode() wrote; `resolve` turns references into objects.

    Raises ValueError or TypeError (among others) on data that encode() does not write: decode whatever a candidate
    sent under a handler for Exception.
    """
    if not isinstance(data, list):
        if data is None or isinstance(data, (bool, int, float, str)):
            return data
        raise ValueError("not a tagged value")
    if depth > MAX_DEPTH + 20:
        raise ValueError("nested too deeply")
    tag = data[0]
    if tag in _SEQUENCES:
        return _SEQUENCES[tag](_decode_items(data[1], resolve, depth + 1))
    if tag in _MAPPINGS:
        keys, values = (_decode_items(part, resolve, depth + 1) for part in data[1:3])
        return _MAPPINGS[tag](zip(keys, values, strict=True))
    if tag == "slice":
        return slice(*_decode_items(data[1:], resolve, depth + 1))
    if tag in _DECODERS:
        return _DECODERS[tag](*data[1:])
    return resolve(data)


def _decode_items(items: Any, resolve: Resolve, depth: int) -> list[Any]:
    if not isinstance(items, list):
        raise ValueError("not a list of values")
    if not any(type(item) is list or type(item) is dict for item in items):
        return items
    return [decode(item, resolve, depth) for item in items]


def _whole(data: Any) -> int:
    return int(data[1], 16) if isinstance(data, list) else int(data)


_SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {
    "l": list,
    "t": tuple,
    "s": set,
    "f": frozenset,
    "q": collections.deque,
}
_MAPPINGS: dict[str, Callable[[Any], Any]] = {
    "d": dict,
    "o": collections.OrderedDict,
    "c": lambda pairs: collections.Counter(dict(pairs)),
}
_DECODERS: dict[str, Callable[..., Any]] = {
    "i": lambda text: int(text, 16),
    "b": bytes.fromhex,
    "a": bytearray.fromhex,
    "j": complex,
    "r": lambda *parts: range(*map(_whole, parts)),
    "D": decimal.Decimal,
    "F": lambda numerator, denominator: fractions.Fraction(_whole(numerator), _whole(denominator)),
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
    "time": datetime.time.fromisoformat,
    "delta": datetime.timedelta,
    "n": lambda module, name: BY_NAME[module, name],
    "const": lambda name: {"NotImplemented": NotImplemented, "Ellipsis": ...}[name],
}
