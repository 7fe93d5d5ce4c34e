"""What the page shows of whole runs: the tree of forks with their settings, and the curves.

A run that cannot be read, and files that are gone, are told in one line each. Not covered: samples (samples.py).
"""

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd

from ares.store import Commit, RunStore, StoreError

TABLES = ("samples", "evaluation")
"""A step's tables of samples: those trained on, and the held-out ones."""
WITHOUT = {
    "samples": "its trained samples cannot be shown, curves can",
    "evaluation": "its held-out samples cannot be shown, curves can",
    "batch": "tokens have no colours there, texts and rewards can be shown",
}
"""What is missing where an artifact is."""


def describe(store: RunStore) -> dict[str, Any]:
    """A run in the tree: name, fork, flat settings, newest step, last held-out accuracy; or name and `problem`."""
    try:
        described = store.read_run()
        commit = store.read_commit(_newest(store))
        fork = store.fork()
    except StoreError as error:
        return {"name": store.name, "problem": str(error)}
    evaluations = commit.state.get("evaluations") or [{}]
    return {
        "name": store.name,
        "fork": None if fork is None else {"run": fork.run, "at": fork.at, "phase": fork.phase},
        "settings": pd.json_normalize(described.get("config", {})).to_dict("records")[0],
        "step": commit.step,
        "accuracy": evaluations[-1].get("accuracy"),
    }


def curves(store: RunStore) -> dict[str, Any]:
    """Steps, metrics by name (null where a step has none), the steps that have each table, what is missing, and what
    was judged again."""
    steps = store.committed_steps()
    commits = [store.read_commit(step) for step in steps]
    names = sorted({name for commit in commits for name in commit.metrics})
    files = {
        table: {one.step: one.artifacts[table].path for one in commits if table in one.artifacts}
        for table in (*TABLES, "batch")
    }
    there = {table: [step for step, path in of.items() if _is_there(store, path)] for table, of in files.items()}
    return {
        "steps": steps,
        "metrics": {name: [commit.metrics.get(name) for commit in commits] for name in names},
        "tables": {table: there[table] for table in TABLES},
        "missing": list(_missing(store, commits, files, there)),
        "rescores": [_rescore(store, folder) for folder in sorted(path.name for path in store.children("rescores"))],
    }


def _rescore(store: RunStore, name: str) -> dict[str, Any]:
    """Samples that were judged again (ares/history/rescore.py): by which settings, and the counts of each step."""
    folder = f"rescores/{name}"
    there = sorted(path.name for path in store.children(folder) if path.suffix == ".json")
    read = {file: json.loads(store.here(f"{folder}/{file}").read_bytes()) for file in there}
    judged = [counts for file, counts in read.items() if file[:-5].isdigit()]
    steps = [counts for counts in judged if counts.get("commit") == store.digest(counts["step"])]  # else it was redone
    return {"name": name, "overrides": read.get("asked.json", []), "steps": steps}


def _is_there(store: RunStore, path: str) -> bool:
    """Whether a file is there; of a run at a URL, whether it was written: it is fetched when it is shown."""
    return store.mirror is not None or (store.directory / path).exists()


def _missing(
    store: RunStore, commits: list[Commit], files: dict[str, dict[int, str]], there: dict[str, list[int]]
) -> Iterator[str]:
    for table, of in files.items():
        if gone := [step for step in of if step not in there[table]]:
            file = of[gone[0]].rpartition("/")[2]
            steps = f"step {gone[0]}" if len(gone) == 1 else f"{len(gone)} steps ({gone[0]} to {gone[-1]})"
            yield f"{steps}: {file} is gone (`ares gc` deletes some): {WITHOUT[table]}"
    if not commits:
        yield "no step is finished yet: there is nothing to show"
    elif _newest(store) > commits[-1].step:
        yield f"step {commits[-1].step + 1}: its commit is damaged; steps up to {commits[-1].step} can be shown"


def _newest(store: RunStore) -> int:
    """The last step that has a commit, intact or not."""
    return max((int(path.name) for path in store.children("steps") if (path / "COMMIT.json").exists()), default=0)
