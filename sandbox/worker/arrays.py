"""Values of numpy and pandas as plain data: arrays and scalars, frames, series and their indexes, with dtype and shape.

Loaded with the packages, in both checker and candidate. What the checker reads is rebuilt from bytes: no subclass, no
view with odd strides, no object with the program's methods. Only listed dtypes cross; any other value (masked,
structured, sparse, periods, intervals) stays where it is, as an opaque object.
"""

import binascii
import functools
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
_EXTENSIONS = frozenset(
    [f"{kind}{bits}" for kind in ("Int", "UInt") for bits in (8, 16, 32, 64)]
    + ["Float32", "Float64", "boolean", "string", "str"]
)
_ITEMS = (type(None), bool, int, float, str)
_LAST_CHARACTER = 0x10FFFF
_TEXTS = ("<test>", "<setup>", "<solution>")  # what tests and checkers of outputs are compiled as

numpy: Any = None
pandas: Any = None
_array_class: Any = None  # of arrays that are read, if not numpy's own


def install() -> None:
    """Teach readers and writers the values of the packages that are loaded."""
    global numpy, pandas
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    if numpy is None:
        return
    for name, value in vars(numpy).items():
        if isinstance(value, type) and issubclass(value, numpy.generic):
            values.add_name(f"np.{name}", value)
    values.add_kind(numpy.ma.MaskedArray, None)
    values.add_kind(numpy.matrix, None)
    values.add_kind(numpy.generic, values.Codec("np.s", _write_scalar, _read_scalar))
    values.add_kind(numpy.ndarray, values.Codec("np", _array, _read_array, _set_array))
    values.add_kind(numpy.dtype, values.Codec("np.d", _write_dtype, _read_dtype))
    values.add_reader("np.v", _read_values)
    if pandas is None:
        return
    values.add_name("pd.NA", pandas.NA)
    values.add_name("pd.NaT", pandas.NaT)
    values.add_kind(type(pandas.NaT), None)
    values.add_kind(pandas.Timestamp, values.Codec("pd.ts", _write_time, _read_time))
    values.add_kind(pandas.Timedelta, values.Codec("pd.td", _write_span, _read_span))
    values.add_kind(pandas.Index, values.Codec("pd.i", _write_index, _read_index))
    values.add_kind(pandas.Series, values.Codec("pd.s", _series, _read_series, _set_series))
    values.add_kind(pandas.DataFrame, values.Codec("pd.f", _frame, _read_frame, _set_frame))
    values.add_reader("pd.x", _read_extension)
    values.add_reader("pd.z", _read_zoned)
    values.add_reader("pd.c", _read_categorical)


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
    for name in ("array", "asarray", "asanyarray"):
        setattr(numpy, name, for_tests(getattr(numpy, name)))
    for kind in (pandas.Series, pandas.DataFrame, pandas.Index) if pandas is not None else ():
        kind.to_numpy = for_tests(kind.to_numpy)
        kind.values = property(for_tests(kind.values.fget))


# numpy


def _array(writer: Writer, value: Any, depth: int) -> list[Any]:
    """[data, dtype, shape]: data is base64 of the bytes or, for an array of objects, a list of values."""
    value = numpy.asarray(value)
    shape = ",".join(map(str, value.shape))
    if value.nbytes > MAX_BYTES:  # by its shape: with strides of 0 it has few bytes in memory
        raise ValueError(f"an array of {value.nbytes} bytes is too large to hand over ({MAX_BYTES >> 20} MiB)")
    if value.dtype == object:
        return [writer.items(list(value.flat), depth + 1), "O", shape]
    if not _PLAIN.fullmatch(value.dtype.str):
        raise NotPlain(f"an array of {value.dtype}")
    return [binascii.b2a_base64(value.tobytes(), newline=False).decode(), value.dtype.str, shape]


def _empty(data: Any, dtype: Any, shape: Any) -> Any:
    """An array to fill with this data. Raises if the data's length does not match."""
    dimensions = tuple(map(int, shape.split(","))) if shape else ()
    if any(size < 0 for size in dimensions):
        raise ValueError("a negative shape")
    if dtype == "O":
        if not isinstance(data, list) or len(data) != math.prod(dimensions):
            raise ValueError("not as many objects as the shape says")
        return numpy.empty(dimensions, object)
    if not _PLAIN.fullmatch(dtype):
        raise ValueError("a dtype that does not cross")
    kind = numpy.dtype(dtype)
    if (
        math.prod(dimensions) * kind.itemsize > MAX_BYTES
        or len(data) != -(-math.prod(dimensions) * kind.itemsize // 3) * 4
    ):
        raise ValueError("not as many bytes as the shape says")
    return numpy.empty(dimensions, kind)


def _fill(reader: Reader, value: Any, data: Any, depth: int) -> None:
    if value.dtype == object:
        items = reader.items(data, depth + 1)
        flat = value.reshape(-1)  # a view, for the array is new
        for place, item in enumerate(items):
            flat[place] = item
        return
    raw = numpy.frombuffer(binascii.a2b_base64(data, strict_mode=True), value.dtype)
    if value.dtype.kind == "b":  # no bytes but 0 and 1 may become a truth value
        raw = raw.view("u1") != 0
    elif value.dtype.kind == "U" and raw.size:
        codes = raw.view(value.dtype.str[0] + "u4")
        if int(codes.max()) > _LAST_CHARACTER:
            raise ValueError("no characters")
    value[...] = raw.reshape(value.shape)


def _read_array(reader: Reader, data: list[Any], depth: int) -> Any:
    value = _empty(*data)
    if _array_class is not None:
        value = value.view(_array_class)
    reader.shared.add(value)  # it may hold itself
    _fill(reader, value, data[0], depth)
    return value


def _read_values(reader: Reader, data: list[Any], depth: int) -> Any:
    value = _empty(*data)
    _fill(reader, value, data[0], depth)
    return value


def _set_array(reader: Reader, value: Any, data: list[Any]) -> None:
    new = _read_values(reader, data, 0)
    if value.dtype != new.dtype:
        raise ValueError("an array has changed its dtype")
    if value.shape != new.shape:
        value.__setstate__(new.__reduce__()[2])  # resize() refuses an array that is a view, as Strict ones are
        return
    value[...] = new


def _write_scalar(writer: Writer, value: Any, depth: int) -> list[Any]:
    if value.dtype.itemsize == 0:  # an empty text
        value = numpy.asarray(value, value.dtype.char + "1")
    if not _PLAIN.fullmatch(value.dtype.str):
        raise NotPlain(f"a scalar of {value.dtype}")
    return [binascii.b2a_base64(value.tobytes(), newline=False).decode(), value.dtype.str]


def _read_scalar(reader: Reader, data: list[Any], depth: int) -> Any:
    return _read_values(reader, [data[0], data[1], ""], depth)[()]


def _write_dtype(writer: Writer, value: Any, depth: int) -> list[Any]:
    if not _PLAIN.fullmatch(value.str):
        raise NotPlain(f"dtype {value}")
    return [value.str]


def _read_dtype(reader: Reader, data: list[Any], depth: int) -> Any:
    if not _PLAIN.fullmatch(data[0]):
        raise ValueError("a dtype that does not cross")
    return numpy.dtype(data[0])


# pandas


def _values(writer: Writer, value: Any, depth: int) -> list[Any]:
    """A numpy array that is part of something else, and has no number of its own."""
    return ["np.v", *_array(writer, value, depth)]


def _column(writer: Writer, value: Any, depth: int) -> list[Any]:
    """The values of a series, of a column or of an index."""
    dtype = value.dtype
    if isinstance(dtype, numpy.dtype):
        return _values(writer, value.to_numpy(), depth)
    if isinstance(dtype, pandas.DatetimeTZDtype):
        return ["pd.z", _values(writer, value.to_numpy(dtype=f"M8[{dtype.unit}]"), depth), str(dtype.tz)]
    if isinstance(dtype, pandas.CategoricalDtype):
        array = pandas.Categorical(value)
        codes = _values(writer, numpy.asarray(array.codes), depth)
        return ["pd.c", codes, _write_whole(writer, array.categories, depth), bool(array.ordered)]
    if str(dtype) not in _EXTENSIONS:
        raise NotPlain(f"a column of {dtype}")
    items = value.to_numpy(dtype=object)
    items = [None if missing else item for item, missing in zip(items, pandas.isna(items), strict=True)]
    return ["pd.x", items, str(dtype)]


def _read_extension(reader: Reader, data: list[Any], depth: int) -> Any:
    items, dtype = data
    if dtype not in _EXTENSIONS or type(items) is not list or any(type(item) not in _ITEMS for item in items):
        raise ValueError("no column")
    return pandas.array(items, dtype=dtype)


def _read_zoned(reader: Reader, data: list[Any], depth: int) -> Any:
    return pandas.DatetimeIndex(reader.decode(data[0])).tz_localize("UTC").tz_convert(_zone(data[1])).array


def _read_categorical(reader: Reader, data: list[Any], depth: int) -> Any:
    categories = reader.decode(data[1])
    return pandas.Categorical.from_codes(reader.decode(data[0]), categories, ordered=data[2] is True)


def _zone(name: Any) -> str:
    if type(name) is not str or not re.fullmatch(r"[A-Za-z0-9_+:/-]{1,60}", name):
        raise ValueError("no time zone")
    return name


def _write_whole(writer: Writer, index: Any, depth: int) -> list[Any]:
    return ["pd.i", *_write_index(writer, index, depth)]


def _write_index(writer: Writer, index: Any, depth: int) -> list[Any]:
    """[kind, names, parts…]."""
    names = [writer.encode(name, depth + 1) for name in index.names]
    if isinstance(index, pandas.RangeIndex):
        return ["range", names, index.start, index.stop, index.step]
    if isinstance(index, pandas.MultiIndex):
        levels = [_write_whole(writer, index.get_level_values(level), depth) for level in range(index.nlevels)]
        return ["multi", names, levels]
    frequency = getattr(index, "freqstr", None)
    return ["index", names, _column(writer, index, depth), frequency]


def _read_index(reader: Reader, data: list[Any], depth: int) -> Any:
    kind, names, *parts = data
    names = [reader.decode(name, depth + 1) for name in names]
    if kind == "range":
        start, stop, step = map(int, parts)
        return pandas.RangeIndex(start, stop, step, name=names[0])
    if kind == "multi":
        return pandas.MultiIndex.from_arrays([reader.decode(level) for level in parts[0]], names=names)
    content, frequency = parts
    column = reader.decode(content)
    index = pandas.Index(column, dtype=column.dtype, name=names[0])
    if frequency is not None:
        index.freq = frequency
    return index


def _series(writer: Writer, series: Any, depth: int) -> list[Any]:
    """[index, name, values]."""
    name = writer.encode(series.name, depth + 1)
    return [_write_whole(writer, series.index, depth), name, _column(writer, series, depth)]


def _new_series(reader: Reader, data: list[Any], depth: int) -> Any:
    index, name, content = data
    series = _series_of(reader, reader.decode(index, depth + 1), content, depth)
    series.name = reader.decode(name, depth + 1)
    return series


def _series_of(reader: Reader, index: Any, content: Any, depth: int) -> Any:
    column = reader.decode(content, depth + 1)
    # Without dtype, pandas would infer one from what objects look like.
    return pandas.Series(column, index=index, dtype=column.dtype)


def _frame(writer: Writer, frame: Any, depth: int) -> list[Any]:
    """[index, columns, values of each column]."""
    parts = [_column(writer, frame.iloc[:, place], depth) for place in range(frame.shape[1])]
    return [_write_whole(writer, frame.index, depth), _write_whole(writer, frame.columns, depth), parts]


def _new_frame(reader: Reader, data: list[Any], depth: int) -> Any:
    index, columns = (reader.decode(part, depth + 1) for part in data[:2])
    frame = pandas.DataFrame(
        {place: _series_of(reader, index, part, depth) for place, part in enumerate(data[2])}, index=index
    )
    if frame.shape != (len(index), len(columns)):
        raise ValueError("a frame of another shape than it says")
    frame.columns = columns
    return frame


def _read_series(reader: Reader, data: list[Any], depth: int) -> Any:
    return _numbered(reader, _new_series, data, depth)


def _read_frame(reader: Reader, data: list[Any], depth: int) -> Any:
    return _numbered(reader, _new_frame, data, depth)


def _numbered(reader: Reader, make: Callable[[Reader, list[Any], int], Any], data: list[Any], depth: int) -> Any:
    """A new value, numbered before the values that it holds."""
    number = reader.shared.reserve()
    value = make(reader, data, depth)
    reader.shared.put(number, value)
    return value


def _set_series(reader: Reader, value: Any, data: list[Any]) -> None:
    new = _new_series(reader, data, 0)
    value._update_inplace(new)
    value.name = new.name


def _set_frame(reader: Reader, value: Any, data: list[Any]) -> None:
    value._update_inplace(_new_frame(reader, data, 0))


# Times: pandas' own classes, which are finer than Python's


def _write_time(writer: Writer, value: Any, depth: int) -> list[Any]:
    zone = None if value.tz is None else str(value.tz)
    return [*_write_scalar(writer, value.to_datetime64(), depth), zone]


def _read_time(reader: Reader, data: list[Any], depth: int) -> Any:
    time = pandas.Timestamp(_read_scalar(reader, data[:2], depth))
    return time if data[2] is None else time.tz_localize("UTC").tz_convert(_zone(data[2]))


def _write_span(writer: Writer, value: Any, depth: int) -> list[Any]:
    return _write_scalar(writer, value.to_timedelta64(), depth)


def _read_span(reader: Reader, data: list[Any], depth: int) -> Any:
    return pandas.Timedelta(_read_scalar(reader, data, depth))
