"""Which problems a run has drawn, left out and trained on, how often and with what accuracy; pairs of its samples for
preference learning: to one prompt a better and a worse response.

Not covered: the bootstrap's pass over the train set; of the ledger second turns, which have the problem of their first;
of the pairs episodes, whose responses hold what an environment said.
"""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from ares.history.measures import open_past, read_sampling_config
from ares.runs import Run
from ares.step import GREEDY, is_second_turn
from ares.store import RunStore, StoreError, read_drawn

OF_PAIRS = ["slot", "id", "prompt", "response", "accuracy", "reward", "truncated"]
"""Columns of samples that pairs are made of."""


def draws(run: Run) -> tuple[pd.DataFrame, list[int]]:
    """One row a drawn group, in the order of drawing: step, slot, id, accuracy (NaN: no score), is_trained; and the
    steps that are left out, since what they sampled is gone."""
    tables, gone = [], []
    for number in run.store.committed_steps()[1:]:
        try:
            rows, scores = read_drawn(run.store, number)
        except StoreError:
            gone.append(number)
            continue
        rows = rows.assign(accuracy=scores["accuracy"].astype("Float64"))
        rows = rows[~is_second_turn(rows) & (rows["sample"] != GREEDY)]
        groups = rows.groupby("slot", sort=True).agg(id=("id", "first"), accuracy=("accuracy", "mean")).reset_index()
        commit = run.store.read_commit(number)
        trained = set(run.store.read_rows(commit.artifacts["samples"])["slot"])
        run.store.forget(number)
        tables.append(groups.assign(step=number, is_trained=groups["slot"].isin(trained)))
    every = ["step", "slot", "id", "accuracy", "is_trained"]
    whole = pd.concat(tables, ignore_index=True)[every] if tables else pd.DataFrame(columns=every)
    return whole, gone


def ledger(name: str, runs: Path) -> tuple[pd.DataFrame, list[int]]:
    """One row a problem of the train set: drawn and trained groups, the last step that drew it, its first, last and
    mean accuracy; and the steps that are not counted, since what they sampled is gone. Raises StoreError."""
    run = open_past(name, runs)
    groups, gone = draws(run)
    by = groups.groupby("id", sort=False)
    table = pd.DataFrame(
        {
            "drawn": by.size(), "trained": by["is_trained"].sum(), "last_step": by["step"].max(),
            "first": by["accuracy"].first(), "last": by["accuracy"].last(), "mean": by["accuracy"].mean(),
        }
    )  # fmt: skip
    table = table.reindex(run.train_set.frame["id"].rename("id")).astype({"last_step": "Int64"})
    counts = {name: table[name].fillna(0).astype(int) for name in ("drawn", "trained")}
    return table.assign(**counts), gone


def pairs(store: RunStore) -> Iterator[dict[str, object]]:
    """One pair of each prompt of a trained group whose accuracies differ: prompt (as it was sampled from), chosen,
    rejected, id (the step, a number in it, and the problem's id, as a problem may be drawn again), step, and the two
    accuracies. Of equal accuracies the higher or lower reward counts; responses that were cut off, whose end nobody
    sampled, or have no reward are left out.

    Raises StoreError.
    """
    if read_sampling_config(store).environment is not None:
        raise StoreError(f"Run {store.name!r} has episodes: a response holds what its environment said, and is no pair")
    for step in store.committed_steps()[1:]:
        rows = store.read_rows(store.read_commit(step).artifacts["samples"])[OF_PAIRS]
        rows = rows[~rows["truncated"].astype(bool)].dropna(subset=["accuracy", "reward"])
        groups = rows.sort_values(["accuracy", "reward"], kind="stable").groupby(["slot", "prompt"])
        for number, (_, group) in enumerate(groups):
            worse, better = group.iloc[0], group.iloc[-1]
            if worse["accuracy"] < better["accuracy"]:
                yield {
                    "prompt": str(better["prompt"]), "chosen": str(better["response"]),
                    "rejected": str(worse["response"]), "id": f"{step}/{number}/{better['id']}", "step": step,
                    "accuracies": [float(better["accuracy"]), float(worse["accuracy"])],
                }  # fmt: skip
        store.forget(step)
