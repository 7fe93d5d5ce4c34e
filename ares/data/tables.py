"""The rows of a data set as they are: jsonl, parquet and Hugging Face data sets, every value as Python's own object.

Covered: numbers keep their type (an int beside a float stays an int), lists and objects theirs at every depth, what is
absent or null is None; text that no tokenizer can take is refused here. Not covered: what the columns mean
(ares/data/problems.py, ares/data/code.py).
"""

import gzip
import json
import re
from pathlib import Path
from typing import Any, TextIO

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from ares.config import location
from ares.errors import UserError

_INDEX = re.compile(r"__index_level_\d+__")
"""Columns that pandas adds to a parquet file for a frame's index."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class DataError(UserError, ValueError):
    """A data set cannot be used; the message names the file, the row and the column."""


def is_missing(value: Any) -> bool:
    """Whether a row has no value there: None, or a gap of pandas'."""
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)


def read_rows(source: str, split: str, unreadable: dict[int, str] | None = None) -> pd.DataFrame:
    """The rows as they are; the index is the number by which errors name a row: its line, or its place from 1 on.

    Raises DataError when there is nothing to read, and at the first line that is no row, unless `unreadable` is given:
    then it takes what is wrong with each such line.
    """
    if not source.strip():
        raise DataError("data.train or data.validation is empty: name a file or a data set")
    if "://" in source:
        raise DataError(f"{source}: data is read from this machine's disks or by a data set's name: copy it here first")
    path = Path(location(source))
    if path.name.removesuffix(".gz").endswith((".jsonl", ".json")):
        frame = _read_jsonl(path, unreadable)
    else:
        frame = _as_objects(_read_table(path, source, split), source)
    if frame.empty and not unreadable:
        raise DataError(f"{source}: no rows")
    return frame


def _read_table(path: Path, source: str, split: str) -> pa.Table:
    if path.suffix == ".parquet":
        try:
            return pyarrow.parquet.read_table(path)
        except (OSError, ValueError) as error:
            raise DataError(f"{source}: not readable as parquet: {error}") from error
    from datasets import load_dataset  # takes a second to import, and most runs read a file

    try:
        return load_dataset(source, split=split).with_format("arrow")[:]
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(
            f"{source}: neither a .jsonl or .parquet file nor a data set with a split {split!r}: {error}"
        ) from error


def _as_objects(table: pa.Table, source: str) -> pd.DataFrame:
    try:
        columns = {name: table[name].to_pylist() for name in table.column_names if not _INDEX.fullmatch(name)}
    except UnicodeDecodeError as error:
        raise DataError(f"{source}: a text is no UTF-8: {error}") from error
    return _frame(columns, list(range(1, table.num_rows + 1)))


def _read_jsonl(path: Path, unreadable: dict[int, str] | None) -> pd.DataFrame:
    rows: dict[int, dict[str, Any]] = {}
    try:
        with _opened(path) as handle:
            for number, line in enumerate(handle, 1):
                if line.strip():
                    try:
                        rows[number] = _json_row(line)
                    except ValueError as error:
                        if unreadable is None:
                            raise DataError(f"{path}:{number}: {error}") from error
                        unreadable[number] = str(error)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    names = dict.fromkeys(name for row in rows.values() for name in row)
    return _frame({name: [row.get(name) for row in rows.values()] for name in names}, list(rows))


def _frame(columns: dict[str, list[Any]], index: list[int]) -> pd.DataFrame:
    # Of dtype object: pandas would make floats of ints that stand beside floats or gaps, and NaN of what is absent.
    return pd.DataFrame({name: pd.Series(values, index=index, dtype=object) for name, values in columns.items()}, index)


def _opened(path: Path) -> TextIO:
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")


def _json_row(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(row, dict):
        raise ValueError(f"a row is a JSON object, this is {type(row).__name__}")
    if "\\ud" in line or "\\uD" in line:
        for name, value in row.items():
            if half := _SURROGATE.search(json.dumps([name, value], ensure_ascii=False)):
                raise ValueError(
                    f"column {name!a} holds {half[0]!a}, half of a character (a lone surrogate), which is no text"
                )
    return row
