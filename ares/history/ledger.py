"""Which problems a run has drawn, left out and trained on, how often and with what accuracy.

Not covered: the bootstrap's pass over the train set; second turns, which have the problem of their first.
"""

from pathlib import Path

import pandas as pd

from ares.history.measures import open_past
from ares.runs import Run
from ares.step import GREEDY, is_second_turn
from ares.store import StoreError, read_drawn


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
