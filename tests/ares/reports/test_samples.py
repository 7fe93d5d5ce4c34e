"""What is shown of samples: the table in a narrow terminal. Not covered: the layout of a page."""

import io

import pandas as pd
import pytest
from rich.console import Console

from ares.reports.samples import samples_table


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
def test_an_id_like_markup_and_a_function_called_as_a_column_stay(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two columns of one title were one: the titles stood above others' cells, or folding them was a traceback."""
    row = {"id": "[/b] :smile:", "sample": 0, "score_reward": 0.25, "reward": 1.0, "tokens": 3, "truncated": False}
    monkeypatch.setattr("ares.reports.samples.step_samples", lambda run, step: pd.DataFrame([row]))
    table = samples_table("short", 1, width)
    assert [str(column.header) for column in table.columns][2:4] == ["reward", "reward"]
    assert len(table.columns) == len(row)
    file = io.StringIO()
    Console(file=file, width=200).print(table)
    assert file.getvalue().splitlines()[-1].startswith("[/b] :smile: 0")
