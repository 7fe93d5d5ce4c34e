"""What is told of one sample. Not covered: the layout of a table or a page."""

from pathlib import Path

import pandas as pd

from ares.reports.samples import _seconds
from ares.runs.exec_times import COLUMNS, exec_times_name
from ares.store import RunStore


def test_the_seconds_of_a_sample_are_none_of_an_evaluations(tmp_path: Path) -> None:
    """An evaluation in the same step has samples of the same slots and numbers."""
    store = RunStore(tmp_path / "run")
    step = tmp_path / "run" / store.step_path(2)
    step.mkdir(parents=True)
    for purpose, seconds in [("rollout", 0.25), ("second-turn", 0.75), ("validation", 0.5)]:
        slot = 1_000_000_000 if purpose == "second-turn" else 0
        times = pd.DataFrame([(slot, 1, seconds)], columns=COLUMNS)
        times.to_parquet(step / exec_times_name(purpose, 0))
    assert _seconds(store, 2, pd.Series({"slot": 0, "sample": 1})) == [0.25]
    assert _seconds(store, 2, pd.Series({"slot": 1_000_000_000, "sample": 1})) == [0.75]
