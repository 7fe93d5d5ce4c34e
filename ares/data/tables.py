"""The raw rows of a file (JSON lines or an array, CSV, parquet, Arrow) as plain Python objects.

Covered: values keep their types at every depth (an int beside a float stays an int), missing and null values are None,
every cell of a CSV is text; text that no tokenizer accepts is refused here. Not covered: which
files a setting names (ares/data/sources.py), what the columns mean (ares/data/problems.py, ares/data/code.py).
"""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from ares.errors import UserError

_INDEX = re.compile(r"__index_level_\d+__")
"""Columns that pandas adds to a parquet file for a frame's index."""
LONGEST_CSV_ROW = 1 << 26
"""Bytes; a program's tests may fill a few."""
_SURROGATE = re.compile("[\ud800-\udfff]")
Unreadable = dict[int | str, str]
"""What is wrong with lines that are not rows, by line number."""


class DataError(UserError, ValueError):
    """A data set cannot be used; the message names the file, the row and the column."""


def is_missing(value: Any) -> bool:
    """Whether a value is missing: None, or pandas' NA or NaN."""
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)


def format_of(name: str) -> str | None:
    """The extension that decides how a file is read, without .gz; None if it is not supported."""
    name = name.removesuffix(".gz") if not name.endswith((".parquet.gz", ".arrow.gz")) else name
    return next((ending for ending in FORMATS if name.endswith(ending)), None)


def read_file(path: Path, unreadable: Unreadable | None, limit: int | None) -> pd.DataFrame:
    """The first `limit` rows of a file (None: all), indexed by line (JSON lines) or row number, from 1.

    Raises DataError when it cannot be read, and at the first line that is not a row, unless `unreadable` is given: then
    it collects what is wrong with each such line.
    """
    try:
        return FORMATS[str(format_of(path.name))](path, unreadable, limit)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: not UTF-8 text; convert it, as with iconv -f WINDOWS-1252 -t UTF-8: {error}"
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def as_objects(table: pa.Table, source: str) -> pd.DataFrame:
    """The rows of an Arrow table, numbered from 1. Raises DataError."""
    names = [name for name in table.column_names if not _INDEX.fullmatch(name)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{source}: two columns are called {twice!r}")
    columns: dict[str, list[Any]] = {}
    for name in names:
        try:
            columns[name] = table[name].to_pylist()
        except (ValueError, OverflowError) as error:  # bytes that are not UTF-8, dates that Python does not know
            raise DataError(f"{source}: column {name!r} cannot be read: {error}") from error
    return _frame(columns, list(range(1, table.num_rows + 1)))


def _reader(kind: str, read: Callable[[Path], pa.Table]) -> "Reader":
    """A reader of files that hold whole tables."""

    def rows_of(path: Path, _: Unreadable | None, limit: int | None) -> pd.DataFrame:
        try:
            table = read(path)
        except (ValueError, pa.ArrowException) as error:
            raise DataError(f"{path}: not readable as {kind}: {' '.join(str(error).split())}") from error
        return as_objects(table.slice(0, limit), str(path))

    return rows_of


def _arrow(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as content:
        return pa.ipc.open_stream(content).read_all()


def _csv(path: Path) -> pa.Table:
    """Every cell as text, empty ones as null."""
    how = pyarrow.csv.ParseOptions(newlines_in_values=True)
    blocks = pyarrow.csv.ReadOptions(block_size=LONGEST_CSV_ROW)
    names = pyarrow.csv.open_csv(path, read_options=blocks, parse_options=how).schema.names
    text = dict.fromkeys(names, pa.string())
    convert = pyarrow.csv.ConvertOptions(column_types=text, null_values=[""], strings_can_be_null=True)
    return pyarrow.csv.read_csv(path, read_options=blocks, parse_options=how, convert_options=convert)


def _read_json(path: Path, unreadable: Unreadable | None, limit: int | None) -> pd.DataFrame:
    rows: dict[int, dict[str, Any]] = {}
    with _opened(path) as handle:
        for number, row in islice(_json_rows(handle, path), limit):
            if isinstance(row, dict):
                rows[number] = row
            elif unreadable is None:
                raise DataError(f"{path}:{number}: {row}")
            else:
                unreadable[number] = row
    names = dict.fromkeys(name for row in rows.values() for name in row)
    return _frame({name: [row.get(name) for row in rows.values()] for name in names}, list(rows))


def _json_rows(handle: TextIO, path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Each row with its number, or what is wrong with it."""
    lines = ((number, line) for number, line in enumerate(handle, 1) if line.strip())
    for number, line in lines:
        if line.lstrip().startswith("["):  # an array: rows are numbered by position
            yield from enumerate(_array(line + handle.read(), path), 1)
            return
        yield number, _json_row(line)
        for further, text in lines:
            yield further, _json_row(text)


def _array(text: str, path: Path) -> list[dict[str, Any] | str]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON: {error}") from error
    may_be_half = _escapes_surrogates(text)
    return [_checked(value, may_be_half) for value in values]


def _json_row(line: str) -> dict[str, Any] | str:
    try:
        return _checked(json.loads(line), _escapes_surrogates(line))
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"


def _escapes_surrogates(text: str) -> bool:
    return "\\ud" in text or "\\uD" in text


def _checked(row: Any, may_be_half: bool) -> dict[str, Any] | str:
    """A row, or what is wrong with it. may_be_half: whether its JSON escapes surrogates, alone or in pairs."""
    if not isinstance(row, dict):
        return f"a row is a JSON object, this is {type(row).__name__}"
    if may_be_half:
        for name, value in row.items():
            if half := _SURROGATE.search(json.dumps([name, value], ensure_ascii=False)):
                return f"column {name!a} holds {half[0]!a}, half of a character (a lone surrogate), which is no text"
    return row


Reader = Callable[[Path, Unreadable | None, int | None], pd.DataFrame]
FORMATS: dict[str, Reader] = {
    ".jsonl": _read_json,
    ".json": _read_json,
    ".csv": _reader("CSV", _csv),
    ".parquet": _reader("parquet", lambda path: pyarrow.parquet.read_table(path)),
    ".arrow": _reader("an Arrow stream", _arrow),
}
"""Readers by file extension; all but parquet and arrow may also end with .gz."""


def _frame(columns: dict[str, list[Any]], index: list[int]) -> pd.DataFrame:
    # dtype object: pandas would turn ints beside floats or gaps into floats, and missing values into NaN.
    return pd.DataFrame({name: pd.Series(values, index=index, dtype=object) for name, values in columns.items()}, index)


def _opened(path: Path) -> TextIO:
    # utf-8-sig: Windows' programs begin a file with a byte order mark.
    return gzip.open(path, "rt", encoding="utf-8-sig") if path.suffix == ".gz" else path.open(encoding="utf-8-sig")
