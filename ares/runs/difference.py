"""Where two runs first differ: settings, then step by step artifacts, controllers and metrics.

Covered: everything a resumed run must reproduce. Not covered: seconds and rates, which differ between executions; how
runs compare in quality (MLflow's UI).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ares.config import differences
from ares.runs.run import read_config
from ares.store import MEMO_FILE, Commit, RunStore, files_in

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
        if lines := list(_lines(one.read_commit(step), other.read_commit(step))):
            return Difference(step, [*_first_file(one, other, step), *lines])
    if len(steps[0]) == len(steps[1]):
        return None
    (shorter, ended), (longer, last) = sorted(
        ((store.name, len(its) - 1) for store, its in zip((one, other), steps, strict=True)), key=lambda run: run[1]
    )
    return Difference(ended + 1, [f"{shorter} ends at step {ended}, {longer} at step {last}"])


def _lines(one: Commit, other: Commit) -> Iterator[str]:
    for name in sorted(one.artifacts.keys() | other.artifacts.keys()):
        refs = one.artifacts.get(name), other.artifacts.get(name)
        if refs[0] is not None and refs[1] is not None:
            if refs[0].sha256 != refs[1].sha256:
                yield f"{'weights or optimiser (checkpoint)' if name == 'checkpoint' else name}: other content"
        elif name != "checkpoint":  # which runs may write at different steps
            yield f"{name}: in one of the two only"
    yield from _values("controllers", dict(_flat(one.state)), dict(_flat(other.state)))
    yield from _values("metrics", one.metrics, other.metrics)


def _values(kind: str, one: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    missing = object()
    names = [name for name in sorted(one.keys() | other.keys()) if one.get(name, missing) != other.get(name, missing)]
    for name in names[:SHOWN]:
        yield f"{kind}: {name}: {one.get(name)!r} ≠ {other.get(name)!r}"
    if len(names) > SHOWN:
        yield f"{kind}: {len(names) - SHOWN} more"


def _first_file(one: RunStore, other: RunStore, step: int) -> Iterator[str]:
    """The oldest artifact of the step that both runs have and that differs: it names the phase."""
    mine, others = (store.here(store.step_path(step)) for store in (one, other))
    files = [file for file in files_in(mine) if file.name not in ("COMMIT.json", MEMO_FILE)]
    for file in sorted(files, key=lambda path: (path.stat().st_mtime_ns, path)):
        twin = others / file.relative_to(mine)
        if twin.exists() and twin.read_bytes() != file.read_bytes():
            yield f"first file that differs: {file.relative_to(mine)}"
            return


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _flat(inner, f"{prefix}.{name}" if prefix else str(name))
    else:
        yield prefix, value
