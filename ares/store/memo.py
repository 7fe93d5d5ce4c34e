"""What the phases of a step have found, kept under keys beside the step's artifacts.

    steps/000012/phases.jsonl    one sealed line for each finished phase: {"key", "phase", "result"}

A result is small JSON; tables and tensors are artifacts that it refers to. A line counts from the moment it is whole,
so a killed step goes on with the phase after its last line. The key says what the result depends on (ares/runs: `key`);
under another key nothing is found and the phase runs. Not covered: whether the artifacts are intact (RunStore.kept).
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from ares.store.commits import Ref
from ares.store.sealed_lines import SealedLines

FILE = "phases.jsonl"


class Kept(NamedTuple):
    """A phase's result as it is kept."""

    key: str
    phase: str
    result: dict[str, Any]

    def refs(self) -> list[Ref]:
        """The artifacts that the result names."""
        return list(_refs_in(self.result))


class Memo:
    """The kept results of one step. written: called with the file after each addition."""

    def __init__(self, path: Path, written: Callable[[Path], None] = lambda path: None) -> None:
        self.path = path
        self._written = written
        self._lines = SealedLines(path)
        self._kept = {kept.key: kept for kept in map(_parse, self._lines.texts)}

    @property
    def is_intact(self) -> bool:
        """Whether every line is what was written; a killed process may have left half of one."""
        return self._lines.is_intact

    def find(self, key: str) -> dict[str, Any] | None:
        """The result that was kept last under a key."""
        kept = self._kept.get(key)
        return None if kept is None else kept.result

    def keep(self, kept: Kept) -> None:
        """Add a result. Raises StoreError."""
        self._lines.append(json.dumps(kept._asdict(), sort_keys=True))
        self._kept[kept.key] = kept
        self._written(self.path)

    def of_phases(self, phases: Iterable[str]) -> list[Kept]:
        """The kept results of some phases, in the order in which they were found."""
        return [kept for kept in self._kept.values() if kept.phase in set(phases)]


def _parse(line: str) -> Kept:
    return Kept(**json.loads(line))


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
