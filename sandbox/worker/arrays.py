"""Values of numpy as plain data: arrays and scalars, with dtype and shape.

Loaded with the packages, in both checker and candidate. What the checker reads is rebuilt from bytes: no subclass, no
view with odd strides, no object with the program's methods. Only listed dtypes cross; any other value (masked,
structured, a frame of pandas) stays where it is, as an opaque object.
"""

import functools
import importlib
import math
import re
import sys
from collections.abc import Callable
from typing import Any

from . import values
from .values import NotPlain, Reader, Writer

MAX_BYTES = 40 << 20
"""Of one array; its frame is a third longer."""
_PLAIN = re.compile(r"[<>|=](?:[biufc][1-9][0-9]?|[mM]8(?:\[[1-9]?[0-9]{0,5}[a-zA-Z]{1,2}\])?|[SU][1-9][0-9]{0,6})")
_MAKERS = str.split(
    "arange array asanyarray asarray ascontiguousarray asfortranarray empty eye frombuffer fromiter fromstring full "
    "linspace ones zeros"
)
_LAST_CHARACTER = 0x10FFFF
_TEXTS = ("<test>", "<setup>", "<solution>")  # what tests and checkers of outputs are compiled as

numpy: Any = None
binascii: Any = None  # which brings zlib: each of its mappings makes every fork more expensive
_array_class: Any = None  # of arrays that are read, if not numpy's own


def install() -> None:
    """Teach readers and writers the values of the packages that are loaded."""
    global numpy, binascii
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return
    binascii = importlib.import_module("binascii")
    for name, value in vars(numpy).items():
        if isinstance(value, type) and issubclass(value, numpy.generic):
            values.add_name(f"np.{name}", value)
    if "pandas" in sys.modules:
        values.add_kind(type(sys.modules["pandas"].NaT), None)  # which derives from datetime
    values.add_kind(numpy.ma.MaskedArray, None)
    values.add_kind(numpy.matrix, None)
    values.add_kind(numpy.generic, values.Codec("np.s", _array, lambda *given: _read(*given)[()]))
    values.add_kind(numpy.ndarray, values.Codec("np", _array, _empty, _fill))
    of_dtypes = values.of_parts("np.d", lambda value: [_named(value.str)], lambda name: numpy.dtype(_named(name)))
    values.add_kind(numpy.dtype, of_dtypes)


def compare_strictly() -> None:
    """Where answers are judged: empty arrays no longer broadcast against arrays that are not.

    Nothing would be left to compare: (numpy.zeros((0, 3)) == [1, 2, 3]).all() is true.
    """
    global _array_class
    if numpy is None:
        return

    class Strict(numpy.ndarray):
        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
            if method == "__call__" and ufunc.signature is None:  # elementwise
                sizes = [numpy.size(each) for each in inputs if numpy.ndim(each)]
                if 0 in sizes and any(sizes):
                    raise ValueError("operands could not be broadcast together: one is empty")
            out = kwargs.get("out")
            if out is not None:
                kwargs["out"] = tuple(map(_plain, out))
            result = getattr(ufunc, method)(*map(_plain, inputs), **kwargs)
            if out is not None:
                return out[0] if len(out) == 1 else out
            return tuple(map(_strict, result)) if isinstance(result, tuple) else _strict(result)

        def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
            result = super().__array_function__(function, types, args, kwargs)
            return type(result)(map(_strict, result)) if type(result) in (list, tuple) else _strict(result)

    def _plain(value: Any) -> Any:
        return value.view(numpy.ndarray) if isinstance(value, Strict) else value

    def _strict(value: Any) -> Any:
        return value.view(Strict) if type(value) is numpy.ndarray else value

    def for_tests(make: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(make)
        def made(*args: Any, **kwargs: Any) -> Any:
            value = make(*args, **kwargs)
            return _strict(value) if sys._getframe(1).f_code.co_filename in _TEXTS else value

        return made

    Strict.__name__ = "array"  # with which its repr begins
    _array_class = Strict
    for name in _MAKERS:
        setattr(numpy, name, for_tests(getattr(numpy, name)))


# numpy


def _array(writer: Writer, value: Any, depth: int) -> list[Any]:
    """[data, dtype, shape]: data is base64 of the bytes or, for an array of objects, a list of values."""
    value = numpy.asarray(value)
    if value.dtype.itemsize == 0:  # an empty text
        value = value.astype(value.dtype.char + "1")
    shape = ",".join(map(str, value.shape))
    if value.nbytes > MAX_BYTES:  # by its shape: with strides of 0 it has few bytes in memory
        raise ValueError(f"an array of {value.nbytes} bytes is too large to hand over ({MAX_BYTES >> 20} MiB)")
    if value.dtype == object:
        return [writer.items(list(value.flat), depth + 1), "O", shape]
    name = _named(value.dtype.str)
    return [binascii.b2a_base64(value.tobytes(), newline=False).decode(), name, shape]


def _named(dtype: Any) -> Any:
    """The name of a dtype, as numpy writes it. Raises NotPlain for one whose values do not cross."""
    if not _PLAIN.fullmatch(dtype):
        raise NotPlain(f"dtype {dtype}")
    return dtype


def _form(data: Any, dtype: Any, shape: Any) -> tuple[tuple[int, ...], Any]:
    """(dimensions, dtype) of an array with this data. Raises if the data's length does not match."""
    dimensions = tuple(map(int, shape.split(","))) if shape else ()
    if any(size < 0 for size in dimensions):
        raise ValueError("a negative shape")
    if dtype == "O":
        if not isinstance(data, list) or len(data) != math.prod(dimensions):
            raise ValueError("not as many objects as the shape says")
        return dimensions, numpy.dtype(object)
    kind = numpy.dtype(_named(dtype))
    size = math.prod(dimensions) * kind.itemsize
    if size > MAX_BYTES or len(data) != -(-size // 3) * 4:
        raise ValueError("not as many bytes as the shape says")
    return dimensions, kind


def _empty(reader: Reader, data: list[Any], depth: int) -> Any:
    value = numpy.empty(*_form(*data))
    return value if _array_class is None else value.view(_array_class)


def _read(reader: Reader, data: list[Any], depth: int) -> Any:
    """An array of this data, perhaps read-only."""
    dimensions, kind = _form(*data)
    if kind.kind == "O":
        value = numpy.empty(math.prod(dimensions), object)
        for place, item in enumerate(reader.items(data[0], depth + 1)):
            value[place] = item
        return value.reshape(dimensions)
    raw = numpy.frombuffer(binascii.a2b_base64(data[0], strict_mode=True), kind)
    if kind.kind == "b":  # no bytes but 0 and 1 may become a truth value
        raw = raw.view("u1") != 0
    elif kind.kind == "U" and raw.size:
        codes = raw.view(kind.str[0] + "u4")
        if int(codes.max()) > _LAST_CHARACTER:
            raise ValueError("no characters")
    return raw.reshape(dimensions)


def _fill(reader: Reader, value: Any, data: list[Any], depth: int) -> None:
    new = _read(reader, data, depth)
    if value.dtype != new.dtype:
        raise ValueError("an array has changed its dtype")
    if value.shape != new.shape:
        value.__setstate__(new.__reduce__()[2])  # resize() refuses an array that is a view, as Strict ones are
        return
    value[...] = new
