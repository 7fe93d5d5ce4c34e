"""Rows of the files, globs, folders and Hugging Face data sets that a setting names.

Covered: `name:configuration@revision`, folders of `save_to_disk`, the order of several files. Not covered: the formats
of files (ares/data/tables.py), what the columns mean (ares/data/problems.py, ares/data/code.py).
"""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from ares.config import Source, is_there, location, matches
from ares.data.tables import FORMATS, DataError, Unreadable, as_objects, format_of, read_file

_HUB = re.compile(r"(?P<name>.+?)(:(?P<configuration>[\w.+-]+))?(@(?P<revision>[\w./-]+))?")
_GLOB = re.compile(r"[*?[]")


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


def read_rows(
    source: Source, split: str, unreadable: Unreadable | None = None, limit: int | None = None
) -> pd.DataFrame:
    """The first `limit` raw rows (None: all), indexed for `place`.

    Raises DataError when there is nothing to read, and at the first line that is not a row, unless `unreadable` is
    given: then it collects what is wrong with each such line.
    """
    named = _named(source)
    frames: list[pd.DataFrame] = []
    left = limit
    for one in named:
        wrong: Unreadable | None = None if unreadable is None else {}
        frame = _rows(one, split, wrong, left)
        if len(named) > 1:
            frame.index = pd.Index([f"{one}:{row}" for row in frame.index], dtype=object)
        if unreadable is not None and wrong:
            unreadable |= {f"{one}:{row}" if len(named) > 1 else row: what for row, what in wrong.items()}
        frames.append(frame)
        if left is not None:
            left -= len(frame) + len(wrong or ())
            if left <= 0:
                break
    whole = _together(frames)
    if whole.empty and not unreadable:
        raise DataError(f"{shown(source)}: no rows")
    return whole


def _named(source: Source) -> list[str]:
    """Every file or data set of a source, in the order of its list, those of a glob by name. Raises DataError."""
    given = [source] if isinstance(source, str) else source
    if not given or not all(one.strip() for one in given):
        raise DataError("data.train or data.validation is empty: name a file or a data set")
    return [each for one in given for each in _expanded(one)]


def _expanded(one: str) -> list[str]:
    if "://" in one:
        raise DataError(f"{one}: data is read from this machine's disks or by a data set's name: copy it here first")
    if not _GLOB.search(one) or is_there(Path(location(one))):
        return [one]
    if not (files := matches(one)):
        raise DataError(f"{one}: there is no such file" + ("" if Path(one).is_absolute() else f" in {Path.cwd()}"))
    return files


def _rows(one: str, split: str, unreadable: Unreadable | None, limit: int | None) -> pd.DataFrame:
    path = Path(location(one))
    if format_of(path.name) is not None:
        return read_file(path, unreadable, limit)
    if is_there(path) and path.is_file():
        raise DataError(
            f"{one}: no kind of file that is read ({', '.join(FORMATS)}; all but parquet and arrow also .gz)"
        )
    return as_objects(_data_set(one, path, split, limit), one)


def _together(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all frames; None where a row's file does not have a column."""
    if len(frames) == 1:
        return frames[0]
    names = list(dict.fromkeys(name for frame in frames for name in frame))
    whole = [frame.assign(**{str(name): None for name in names if name not in frame})[names] for frame in frames]
    return pd.concat([frame.astype(object) for frame in whole])


def _data_set(one: str, path: Path, split: str, limit: int | None) -> pa.Table:
    try:
        data_set = _saved(path, split) if _is_saved(path) else _loaded(one, split)
    except Exception as error:  # of damaged files the library raises nothing narrower
        raise DataError(
            f"{one}: neither a file ({', '.join(FORMATS)}) nor a data set with a split {split!r}: "
            f"{' '.join(str(error).split())}"
        ) from error
    return data_set.with_format("arrow")[: len(data_set) if limit is None else limit]


def _is_saved(path: Path) -> bool:
    return any(is_there(path / name) for name in ("dataset_dict.json", "state.json"))


def _saved(path: Path, split: str) -> Any:
    """A data set written by `save_to_disk`, or the named split of one with several."""
    import datasets  # takes a second to import, and most runs read a file

    saved = datasets.load_from_disk(path)
    if isinstance(saved, datasets.DatasetDict):
        if split not in saved:
            raise ValueError(f"it has {', '.join(saved)}")
        return saved[split]
    return saved


def _loaded(one: str, split: str) -> Any:
    """A data set from the hub, its cache or a folder. Raises ValueError if the cache holds another revision."""
    import datasets

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # errors are reported once, below
    parts = _HUB.fullmatch(one)
    is_folder = is_there(Path(location(one)))
    name, configuration, revision = (
        (one, None, None) if is_folder or not parts else parts.group("name", "configuration", "revision")
    )
    if revision is not None and is_there(Path(location(name))):
        raise ValueError(f"{name} is a folder, and only a data set of the hub has revisions")
    builder = datasets.load_dataset_builder(location(name), configuration, revision=revision)
    if revision is not None and "cache" in type(builder).__module__ and not str(builder.hash).startswith(revision):
        raise ValueError(
            f"the hub cannot be reached, and what is cached here is revision {builder.hash}: name that, or load "
            f"{revision} where the hub is reached"
        )
    builder.download_and_prepare()
    return builder.as_dataset(split)
