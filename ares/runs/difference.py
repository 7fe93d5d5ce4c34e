"""Where two runs first differ: step by step artifacts, controllers and metrics.

Covered: everything a resumed run must reproduce. Not covered: seconds and rates, which differ between executions; how
runs compare in quality (MLflow's UI).
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from ares.store import MEMO_FILE, Commit, RunStore, files_in

SHOWN = 8
"""Differing values of one kind that are listed."""


def first_difference(one: RunStore, other: RunStore) -> tuple[int, list[str]] | None:
    """The first step in which two runs differ, and a line for each thing that does.

    None: all steps are bit-identical in weights, controllers and metrics, and both runs end at the same one.
    """
    steps, others = one.committed_steps(), other.committed_steps()
    for step in steps[: len(others)]:
        if lines := list(_lines(one.read_commit(step), other.read_commit(step))):
            return step, [*_first_file(one, other, step), *lines]
    if len(steps) == len(others):
        return None
    (ended, shorter), (last, longer) = sorted([(len(steps) - 1, one.name), (len(others) - 1, other.name)])
    return ended + 1, [f"{shorter} ends at step {ended}, {longer} at step {last}"]


def _lines(one: Commit, other: Commit) -> Iterator[str]:
    for name in sorted(one.artifacts.keys() | other.artifacts.keys()):
        refs = one.artifacts.get(name), other.artifacts.get(name)
        if refs[0] is not None and refs[1] is not None:
            if refs[0].sha256 != refs[1].sha256:
                yield f"{'weights or optimiser (checkpoint)' if name == 'checkpoint' else name}: other content"
        elif name != "checkpoint":  # which runs may write at different steps
            yield f"{name}: in one of the two only"
    yield from _values("controllers", *(pd.json_normalize(of.state).to_dict("records")[0] for of in (one, other)))
    yield from _values("metrics", one.metrics, other.metrics)


def _values(kind: str, one: dict[Any, Any], other: dict[Any, Any]) -> Iterator[str]:
    missing = object()
    names = [name for name in sorted(one.keys() | other.keys()) if one.get(name, missing) != other.get(name, missing)]
    for name in names[:SHOWN]:
        yield f"{kind}: {name}: {one.get(name)!r} ≠ {other.get(name)!r}"
    if len(names) > SHOWN:
        yield f"{kind}: {len(names) - SHOWN} more"


def _first_file(one: RunStore, other: RunStore, step: int) -> Iterator[str]:
    """The oldest artifact of the step that both runs have and that differs: it names the phase."""
    mine, others = (store.here(store.step_path(step)) for store in (one, other))
    for file in sorted(files_in(mine), key=lambda path: (path.stat().st_mtime_ns, path)):
        twin = others / file.relative_to(mine)
        is_artifact = file.name not in ("COMMIT.json", MEMO_FILE) and twin.exists()
        if is_artifact and twin.read_bytes() != file.read_bytes():
            yield f"first file that differs: {file.relative_to(mine)}"
            return
