"""Files of sealed lines: what the phases of a step have found, and rows as they arrive.

    steps/000012/phases.jsonl    one line for each finished phase: {"checksum", "text": {"key", "phase", "result"}}
    steps/000012/….journal       the rows of a shard that is being sampled, until its artifact is written

A result is small JSON; tables and tensors are artifacts that it refers to. A line counts from the moment it is whole,
so a killed step goes on with the phase after its last line. The key says what the result depends on (ares/runs: `key`);
under another key nothing is found and the phase runs.

Covered: a line that was being written when the process died, or was damaged later, ends the file. Not covered: whether
the artifacts are intact (RunStore.take); power failures (lines are not synced, but a damaged one is noticed); journals
of runs at a URL, which are not uploaded: other machines find artifacts only.
"""

import base64
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ares.store.commits import Ref
from ares.store.errors import told

MEMO_FILE = "phases.jsonl"


class SealedLines:
    """The lines of a file as they are; `append` adds some. Only one process at a time may append."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.texts: list[str] = []
        """Of the intact lines, up to the first damaged one."""
        self._intact = 0
        """Bytes of these lines; what follows them is cut off before something is appended."""
        for line in path.read_bytes().splitlines(keepends=True) if path.exists() else []:
            try:
                sealed = json.loads(line)
                is_whole = line.endswith(b"\n") and sealed["checksum"] == _checksum(sealed["text"])
            except (ValueError, KeyError, TypeError, AttributeError):
                break
            if not is_whole:
                break
            self.texts.append(sealed["text"])
            self._intact += len(line)

    @property
    def is_intact(self) -> bool:
        """Whether nothing follows the intact lines; a killed process may have left half of one."""
        return not self.path.exists() or self.path.stat().st_size == self._intact

    def append(self, text: str) -> None:
        """Append a text, which survives a kill from here on; makes the folder. Raises StoreError."""
        line = json.dumps({"checksum": _checksum(text), "text": text}).encode() + b"\n"
        with told(self.path, "written"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                if file.tell() > self._intact:
                    os.truncate(self.path, self._intact)
                file.write(line)
        self.texts.append(text)
        self._intact += len(line)


class Kept(NamedTuple):
    """A phase's result as it is kept."""

    key: str
    phase: str
    result: dict[str, Any]

    def refs(self) -> list[Ref]:
        """The artifacts that the result names."""
        return list(_refs_in(self.result))


class Memo(SealedLines):
    """The kept results of one step. written: called with the file after each addition."""

    def __init__(self, path: Path, written: Callable[[Path], None] = lambda path: None) -> None:
        super().__init__(path)
        self._written = written
        self._kept: dict[str, Kept] = {}
        """By key, those that were kept last at the end."""
        for text in self.texts:
            self._add(Kept(**json.loads(text)))

    def _add(self, kept: Kept) -> None:
        self._kept.pop(kept.key, None)
        self._kept[kept.key] = kept

    def find(self, key: str) -> dict[str, Any] | None:
        """The result that was kept last under a key."""
        kept = self._kept.get(key)
        return None if kept is None else kept.result

    def keep(self, kept: Kept) -> None:
        """Add a result. Raises StoreError."""
        self.append(json.dumps(kept._asdict(), sort_keys=True))
        self._add(kept)
        self._written(self.path)

    def of_phases(self, phases: Iterable[str]) -> list[Kept]:
        """The kept results of some phases, in the order in which they were found."""
        return [kept for kept in self._kept.values() if kept.phase in set(phases)]

    def last_of(self, phase: str) -> list[Kept]:
        """What a phase kept last of each shard, by the name of its first artifact.

        A step that was done again, or went on with another rounding, has kept other results before, whose files may be
        overwritten.
        """
        every = self.of_phases([phase])
        owner = every[-1].key.rpartition("-")[0] if every else ""
        last = {kept.refs()[0].path: kept for kept in every if kept.key.rpartition("-")[0] == owner}
        return [last[path] for path in sorted(last)]


class Journal(SealedLines):
    """The rows of one piece of work. key: identifies it; a file left under another key is deleted."""

    def __init__(self, path: Path, key: str) -> None:
        super().__init__(path)
        self.key = key
        if self.texts[:1] != [key]:
            self.end()
            super().__init__(path)
        self._earlier = self.texts[1:]

    def rows(self) -> pd.DataFrame | None:
        """What an earlier process added, in order; None: nothing."""
        tables = [pd.read_parquet(io.BytesIO(base64.b64decode(line))) for line in self._earlier]
        return pd.concat(tables, ignore_index=True) if tables else None

    def add(self, rows: pd.DataFrame) -> None:
        """Append rows, which survive a kill from here on. Raises StoreError."""
        if not self.texts:
            self.append(self.key)
        self.append(base64.b64encode(rows.to_parquet(index=False)).decode())

    def end(self) -> None:
        """Delete the file: the artifact is written."""
        if self.path.exists():
            self.path.unlink()


def _refs_in(value: Any) -> Iterable[Ref]:
    if isinstance(value, dict):
        if value.keys() == Ref.model_fields.keys():
            yield Ref.model_validate(value)
        else:
            for inner in value.values():
                yield from _refs_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _refs_in(inner)


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
