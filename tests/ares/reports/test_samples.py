"""What is shown of samples: the table in a narrow terminal, the seconds of one. Not covered: the layout of a page."""

import io
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from ares.reports.samples import _seconds, samples_table
from ares.store import Kept, RunStore


def test_the_seconds_of_a_sample_are_none_of_an_evaluations(tmp_path: Path) -> None:
    """An evaluation in the same step has samples with the same slots and numbers."""
    store = RunStore(tmp_path / "run")
    for purpose, seconds in [("rollout", 0.25), ("second-turn", 0.75), ("validation", 0.5)]:
        slot = 1_000_000_000 if purpose == "second-turn" else 0
        rows = pd.DataFrame({"slot": [slot, slot], "sample": [0, 1]})
        scores = store.write_rows(f"{store.step_path(2)}/score-{purpose}-0000.parquet", rows)
        store.memo(2).keep(Kept(purpose, "score", {"rows": scores.model_dump(), "cpu_seconds": [9.0, seconds]}))
    assert _seconds(store, 2, pd.Series({"slot": 0, "sample": 1})) == [0.25]
    assert _seconds(store, 2, pd.Series({"slot": 1_000_000_000, "sample": 1})) == [0.75]


def test_in_eighty_columns_every_title_and_every_cell_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {
        "id": "train-0123", "sample": 7, "difficulty": "medium", "pass_ratio": 0.5, "error_type": "wrong_answer",
        "score_brief": 4.75, "reward_code": 0.35, "reward_entropy_score": -0.125, "reward_overlong": -0.25,
        "reward": -0.025, "tokens": 128, "truncated": False,
    }  # fmt: skip
    monkeypatch.setattr("ares.reports.samples.step_samples", lambda name, step: pd.DataFrame([row, row]))
    file = io.StringIO()
    Console(file=file, width=1000).print(samples_table("short", 1, width=80), crop=False)
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    assert max(map(len, lines)) <= 80
    rule = next(place for place, line in enumerate(lines) if "───" in line)
    assert [line.split() for line in lines[rule + 1 :] if line] == [
        ["train-0123", "7", "medium", "0.500", "wrong_answer", "4.750", "0.350", "-0.125", "-0.250", "-0.025", "128"]
    ] * 2
    titles = "".join(sorted("".join(lines[1:rule]).replace(" ", "")))
    whole = "id k bucket passed ended brief code entropy score overlong reward tokens cut"
    assert titles == "".join(sorted(whole.replace(" ", "")))  # folded, and no letter lost


@pytest.mark.parametrize("width", [40, 200])
def test_an_id_that_looks_like_markup_and_a_function_called_as_a_column_are_shown_as_they_are(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two columns of one title were one: the titles stood above others' cells, or folding them was a traceback."""
    row = {"id": "[/b] :smile:", "sample": 0, "score_reward": 0.25, "reward": 1.0, "tokens": 3, "truncated": False}
    monkeypatch.setattr("ares.reports.samples.step_samples", lambda run, step: pd.DataFrame([row]))
    table = samples_table("short", 1, width)
    assert [str(column.header) for column in table.columns][2:4] == ["reward", "reward"]
    assert len(table.columns) == len(row)
    file = io.StringIO()
    Console(file=file, width=200).print(table)
    assert file.getvalue().splitlines()[-1].startswith("[/b] :smile: 0")
