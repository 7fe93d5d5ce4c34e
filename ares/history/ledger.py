"""Which problems a run has drawn, left out and trained on, how often and with what accuracy.

Not covered: the bootstrap's pass over the train set; second turns, which have the problem of their first.
"""

from pathlib import Path

import pandas as pd

from ares.history.measures import drawn_samples, open_past
from ares.runs import Run
from ares.step import GREEDY, is_second_turn


def draws(run: Run) -> pd.DataFrame:
    """One row a drawn group, in the order of drawing: step, slot, id, accuracy (NaN: no score), is_trained.

    Raises StoreError where a step's samples are gone.
    """
    tables = []
    for number in run.store.committed_steps()[1:]:
        rows, scores = drawn_samples(run.step(number))
        rows = rows.assign(accuracy=scores["accuracy"].astype("Float64"))
        rows = rows[~is_second_turn(rows) & (rows["sample"] != GREEDY)]
        groups = rows.groupby("slot", sort=True).agg(id=("id", "first"), accuracy=("accuracy", "mean")).reset_index()
        commit = run.store.read_commit(number)
        trained = set(run.store.read_rows(commit.artifacts["samples"])["slot"])
        run.store.forget(number)
        tables.append(groups.assign(step=number, is_trained=groups["slot"].isin(trained)))
    every = ["step", "slot", "id", "accuracy", "is_trained"]
    return pd.concat(tables, ignore_index=True)[every] if tables else pd.DataFrame(columns=every)


def ledger(name: str, runs: Path) -> pd.DataFrame:
    """One row a problem of the train set: drawn and trained groups, the last step that drew it, its first, last and
    mean accuracy. Raises StoreError."""
    run = open_past(name, runs)
    groups = draws(run)
    by = groups.groupby("id", sort=False)
    table = pd.DataFrame(
        {
            "drawn": by.size(), "trained": by["is_trained"].sum(), "last_step": by["step"].max(),
            "first": by["accuracy"].first(), "last": by["accuracy"].last(), "mean": by["accuracy"].mean(),
        }
    )  # fmt: skip
    table = table.reindex(run.train_set.frame["id"].rename("id")).astype({"last_step": "Int64"})
    return table.assign(drawn=table["drawn"].fillna(0).astype(int), trained=table["trained"].fillna(0).astype(int))
