"""Rows of the files, globs, folders and Hugging Face data sets that a setting names, as plain Python objects.

Covered: JSON lines or an array, CSV, parquet, Arrow; `name:configuration@revision`, folders of `save_to_disk`, the
order of several files. Values keep their types at every depth (an int beside a float stays an int), missing and null
values are None, every cell of a CSV is text; text that no tokenizer accepts is refused here. Not covered: what the
columns mean (ares/data/problems.py, ares/data/code.py).
"""

import csv
import gzip
import json
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from ares.config import Source, location, matches, seen_from
from ares.data.procedural import is_procedural, read_procedural
from ares.errors import UserError

_HUB = re.compile(r"(?P<name>.+?)(:(?P<configuration>[\w.+-]+))?(@(?P<revision>[\w./-]+))?")
_GLOB = re.compile(r"[*?[]")
_INDEX = re.compile(r"__index_level_\d+__")
"""Columns that pandas adds to a parquet file for a frame's index."""
Unreadable = dict[int | str, str]
"""What is wrong with lines that are not rows, by line number."""


class DataError(UserError, ValueError):
    """A data set cannot be used; the message names the file, the row and the column."""


def is_missing(value: Any) -> bool:
    """Whether a value is missing: None, or pandas' NA or NaN."""
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)


def shown(source: Source) -> str:
    """A source as messages show it."""
    return source if isinstance(source, str) else ", ".join(source)


def place(source: Source, row: int | str) -> str:
    """How errors name a row: file and line, or file and row number from 1. With several files the row says which."""
    return row if isinstance(row, str) else f"{shown(source)}:{row}"


def folder_of(source: Source) -> Path:
    """The folder of the files that a source names; the working directory where they have no common one."""
    folders = {Path(location(one)).parent for one in _named(source) if Path(location(one)).is_file()}
    return folders.pop() if len(folders) == 1 else Path()


def read_rows(source: Source, split: str, limit: int | None = None, held_out: bool = False) -> pd.DataFrame:
    """The first `limit` raw rows (None: all), indexed for `place`. held_out: of procedural tasks other questions.

    Raises DataError when there is nothing to read, and at the first line that is not a row.
    """
    rows, unreadable = read_readable(source, split, limit, held_out)
    for row, what in unreadable.items():
        raise DataError(f"{place(source, row)}: {what}")
    return rows


def read_readable(
    source: Source, split: str, limit: int | None = None, held_out: bool = False
) -> tuple[pd.DataFrame, Unreadable]:
    """The rows among the first `limit` (None: all), indexed for `place`, and what is wrong with the others.

    Raises DataError when there is nothing to read.
    """
    named = _named(source)
    frames: list[pd.DataFrame] = []
    unreadable: Unreadable = {}
    left = limit
    for one in named:
        frame, wrong = _rows(one, split, left, held_out)
        if len(named) > 1:
            frame.index = pd.Index([f"{one}:{row}" for row in frame.index], dtype=object)
            wrong = {f"{one}:{row}": what for row, what in wrong.items()}
        frames.append(frame)
        unreadable |= wrong
        if left is not None and (left := left - len(frame) - len(wrong)) <= 0:
            break
    whole = together(frames)
    if whole.empty and not unreadable:
        raise DataError(f"{shown(source)}: no rows")
    return whole, unreadable


def _named(source: Source) -> list[str]:
    """Every file or data set of a source, in the order of its list, those of a glob by name. Raises DataError."""
    given = [source] if isinstance(source, str) else source
    if not given or not all(one.strip() for one in given):
        raise DataError("data.train or data.validation is empty: name a file or a data set")
    return list(dict.fromkeys(each for one in given for each in _expanded(one)))


def _expanded(one: str) -> list[str]:
    if is_procedural(one):
        return [one]
    if "://" in one:
        raise DataError(f"{one}: data is read from this machine's disks or by a data set's name: copy it here first")
    if not _GLOB.search(one) or os.path.exists(location(one)):
        return [one]
    if not (files := matches(one)):
        raise DataError(f"{one}: there is no such file{seen_from(one)}")
    return files


def _rows(one: str, split: str, limit: int | None, held_out: bool) -> tuple[pd.DataFrame, Unreadable]:
    if is_procedural(one):
        try:
            return read_procedural(one, limit, held_out), {}
        except ValueError as error:
            raise DataError(f"{one}: {error}") from error
    path = Path(location(one))
    if format_of(path.name) is not None:
        return read_file(path, limit)
    try:
        data_set = _loaded(one, split)
        table = data_set.with_format("arrow")[: len(data_set) if limit is None else limit]
        return as_objects(table), {}
    except Exception as error:  # of damaged files the library raises nothing narrower
        raise DataError(
            f"{one}: neither a file ({', '.join(FORMATS)}) nor a data set with a split {split!r}: "
            f"{' '.join(str(error).split())}"
        ) from error


def together(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all frames; None where a row's own frame does not have a column."""
    if len(frames) == 1:
        return frames[0]
    names = list(dict.fromkeys(name for frame in frames for name in frame))
    whole = [frame.assign(**{str(name): None for name in names if name not in frame})[names] for frame in frames]
    return pd.concat([frame.astype(object) for frame in whole])


def _loaded(one: str, split: str) -> Any:
    """A data set that was written by `save_to_disk`, or one from the hub, its cache or a folder.

    Raises ValueError if the cache holds another revision, and what the library raises.
    """
    import datasets  # takes a second to import, and most runs read a file

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # errors are reported once, by the caller
    folder = Path(location(one))
    if any(os.path.exists(folder / name) for name in ("dataset_dict.json", "state.json")):
        saved = datasets.load_from_disk(folder)
        return saved[split] if isinstance(saved, datasets.DatasetDict) else saved
    parts = None if os.path.exists(folder) else _HUB.fullmatch(one)
    name, configuration, revision = parts.group("name", "configuration", "revision") if parts else (one, None, None)
    if revision is not None and os.path.exists(location(name)):
        raise ValueError(f"{name} is a folder, and only a data set of the hub has revisions")
    builder = datasets.load_dataset_builder(location(name), configuration, revision=revision)
    if revision is not None and "cache" in type(builder).__module__ and not str(builder.hash).startswith(revision):
        raise ValueError(f"the hub cannot be reached, and what is cached here is revision {builder.hash}: name that")
    builder.download_and_prepare()
    return builder.as_dataset(split)


# ---- files ---------------------------------------------------------------------------------------------------------


def format_of(name: str) -> str | None:
    """The extension that decides how a file is read, without .gz; None if it is not supported."""
    name = name.removesuffix(".gz") if not name.endswith((".parquet.gz", ".arrow.gz")) else name
    return next((ending for ending in FORMATS if name.endswith(ending)), None)


def read_file(path: Path, limit: int | None) -> tuple[pd.DataFrame, Unreadable]:
    """The first `limit` rows of a file (None: all), indexed by line (JSON lines) or row number, from 1; and what is
    wrong with lines that are not rows. Raises DataError when it cannot be read."""
    kind = str(format_of(path.name))
    try:
        if kind in TABLES:
            return as_objects(TABLES[kind](path).slice(0, limit)), {}
        opened = gzip.open if path.suffix == ".gz" else open
        # utf-8-sig: Windows' programs begin a file with a byte order mark.
        with opened(path, "rt", encoding="utf-8-sig", newline="") as handle:
            return _table(islice(TEXTS[kind](handle), limit))
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text: {error}") from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot be read{seen_from(path)}: {reason}") from error
    except (ValueError, LookupError, OverflowError, RecursionError, csv.Error, pa.ArrowException) as error:
        raise DataError(f"{path}: not readable as {kind[1:]}: {' '.join(str(error).split())}") from error


def as_objects(table: pa.Table) -> pd.DataFrame:
    """The rows of an Arrow table, numbered from 1. Raises ValueError, LookupError or OverflowError: for bytes that are
    not UTF-8, two columns of a name, dates that Python does not know."""
    columns: dict[str, list[Any]] = {}
    for name in [name for name in table.column_names if not _INDEX.fullmatch(name)]:
        values, kind = table[name].to_pylist(), table[name].type
        if "float" in str(kind):
            values = [_shortest(value, kind) for value in values]
        columns[name] = list(map(_as_called, values)) if "tool_calls" in str(kind) else values
    return _frame(columns, list(range(1, table.num_rows + 1)))


def _shortest(value: Any, kind: pa.DataType) -> Any:
    """A value with its float16 and float32 numbers as the shortest decimals: 0.1, not 0.10000000149011612."""
    if isinstance(value, dict) and isinstance(kind, pa.StructType):
        return {field.name: _shortest(value[field.name], field.type) for field in kind}
    if isinstance(value, list) and isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
        return [_shortest(each, kind.value_type) for each in value]
    narrow = isinstance(value, float) and kind in (pa.float16(), pa.float32())
    return float(str(kind.to_pandas_dtype()(value))) if narrow else value


def _as_called(chat: Any) -> Any:
    """A chat without the nulls that Arrow puts into its tool calls, since all structs of a column have the same keys:
    a template would show them as arguments. One that was meant is lost too."""
    return [
        {**message, "tool_calls": without_nulls(message["tool_calls"])}
        if isinstance(message, dict) and "tool_calls" in message
        else message
        for message in chat
    ] if isinstance(chat, list) else chat  # fmt: skip


def without_nulls(value: Any) -> Any:
    """A value without the keys that Arrow gives every object of a column, as null where a row's own has none."""
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return list(map(without_nulls, value)) if isinstance(value, list) else value


def _json_rows(handle: TextIO) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """The objects of a JSON array, by position, or of JSON lines, by line; or what is wrong with each."""
    is_array = next((line for line in handle if line.strip()), "").lstrip().startswith("[")
    handle.seek(0)
    if is_array:
        yield from enumerate(map(_row, _from_json(handle.read())), 1)
    for number, line in enumerate(handle, 1):
        if line.strip():
            try:
                yield number, _row(_from_json(line))
            except (ValueError, RecursionError) as error:
                yield number, f"not JSON: {error}"


def _from_json(text: str) -> Any:
    value = json.loads(text)
    if "\\ud" in text or "\\uD" in text:
        json.dumps(value, ensure_ascii=False).encode()  # raises for half of a character (a lone surrogate)
    return value


def _row(value: Any) -> dict[str, Any] | str:
    return value if isinstance(value, dict) else f"a row is a JSON object, this is {type(value).__name__}"


def _csv_rows(handle: TextIO) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """The rows after the header, every cell as text, empty ones as None; or what is wrong with each."""
    csv.field_size_limit(sys.maxsize)  # a program's tests may fill more than the usual 128 KiB
    reader = csv.DictReader(handle, strict=True)
    names = list(reader.fieldnames or ())
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two columns are called {twice!r}")
    for number, row in enumerate(reader, 1):
        if None in row or None in row.values():
            yield number, f"it has not as many cells as there are columns ({len(names)})"
        else:
            yield number, {name: cell or None for name, cell in row.items()}


TEXTS = {".jsonl": _json_rows, ".json": _json_rows, ".csv": _csv_rows}
"""Readers of text, which may be compressed, by extension."""
TABLES: dict[str, Callable[[Path], pa.Table]] = {
    ".parquet": lambda path: pyarrow.parquet.read_table(path),
    ".arrow": lambda path: pa.ipc.open_stream(pa.memory_map(str(path))).read_all(),
}
"""Readers of files that hold whole tables, by extension."""
FORMATS = (*TEXTS, *TABLES)
"""Extensions of files that are read; texts may also end with .gz."""


def _table(numbered: Iterable[tuple[int, dict[str, Any] | str]]) -> tuple[pd.DataFrame, Unreadable]:
    rows: dict[int, dict[str, Any]] = {}
    unreadable: Unreadable = {}
    for number, row in numbered:
        if isinstance(row, dict):
            rows[number] = row
        else:
            unreadable[number] = row
    names = dict.fromkeys(name for row in rows.values() for name in row)
    return _frame({name: [row.get(name) for row in rows.values()] for name in names}, list(rows)), unreadable


def _frame(columns: dict[str, list[Any]], index: list[int]) -> pd.DataFrame:
    # dtype object: pandas would turn ints beside floats or gaps into floats, and missing values into NaN.
    return pd.DataFrame({name: pd.Series(values, index=index, dtype=object) for name, values in columns.items()}, index)
