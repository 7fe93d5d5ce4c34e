"""Where two runs first differ: settings, then step by step artifacts, controllers and metrics.

Covered: everything a resumed run must reproduce. Not covered: seconds and rates, which differ between executions; how
runs compare in quality (MLflow's UI).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ares.config import differences
from ares.runs.run import read_config
from ares.store import Commit, RunStore

SHOWN = 8
"""Differing values of one kind that are listed."""


@dataclass(frozen=True)
class Difference:
    """The first step in which two runs differ, and in what."""

    step: int
    lines: list[str]


def settings_difference(one: RunStore, other: RunStore) -> list[str]:
    """Result-changing settings that differ, as `field: before → after`."""
    return differences(read_config(one), read_config(other))


def first_difference(one: RunStore, other: RunStore) -> Difference | None:
    """None if all steps are bit-identical in weights, controllers and metrics, and both runs end at the same one."""
    steps = one.committed_steps(), other.committed_steps()
    for step in steps[0][: len(steps[1])]:
        commits = one.read_commit(step), other.read_commit(step)
        lines = list(_lines(*commits))
        if lines:
            return Difference(step, [*_phases(one, other, step), *lines])
    if len(steps[0]) != len(steps[1]):
        shorter, longer = sorted((one, other), key=lambda store: len(store.committed_steps()))
        ends = [len(store.committed_steps()) - 1 for store in (shorter, longer)]
        return Difference(ends[0] + 1, [f"{shorter.name} ends at step {ends[0]}, {longer.name} at step {ends[1]}"])
    return None


def _lines(one: Commit, other: Commit) -> Iterator[str]:
    for name in sorted(one.artifacts.keys() | other.artifacts.keys()):
        refs = one.artifacts.get(name), other.artifacts.get(name)
        if None in refs:
            # Runs may write checkpoints at different steps; a missing evaluation is a difference.
            if name != "checkpoint":
                yield f"{name}: in one of the two only"
        elif refs[0] is not None and refs[1] is not None and refs[0].sha256 != refs[1].sha256:
            yield f"{'weights or optimiser (checkpoint)' if name == 'checkpoint' else name}: other content"
    yield from _values("controllers", dict(_flat(one.state)), dict(_flat(other.state)))
    yield from _values("metrics", one.metrics, other.metrics)


def _values(kind: str, one: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    missing = object()
    names = [name for name in sorted(one.keys() | other.keys()) if one.get(name, missing) != other.get(name, missing)]
    for name in names[:SHOWN]:
        yield f"{kind}: {name}: {one.get(name)!r} ≠ {other.get(name)!r}"
    if len(names) > SHOWN:
        yield f"{kind}: {len(names) - SHOWN} more"


def _phases(one: RunStore, other: RunStore, step: int) -> Iterator[str]:
    """The oldest file of the step that both runs have and that differs: it names the phase."""
    folders = [store.here(store.step_path(step)) for store in (one, other)]
    files = {file for file in folders[0].rglob("*") if file.is_file() and file.name != "COMMIT.json"}
    for file in sorted(files, key=lambda path: (path.stat().st_mtime_ns, path)):
        name = file.relative_to(folders[0])
        twin = folders[1] / name
        if twin.exists() and twin.read_bytes() != file.read_bytes():
            yield f"first file that differs: {name}"
            return


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _flat(inner, f"{prefix}.{name}" if prefix else str(name))
    else:
        yield prefix, value
