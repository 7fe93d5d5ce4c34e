"""Rows of several kinds in one run: each is read, and judged, as its column `grader` or its source's name says."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.config import RewardConfig
from ares.config.run import DataConfig
from ares.data import DataError, load_train
from ares.grading import load_grader
from tests.ares.builders import tokenizer
from tests.ares.data.code_rows import written

MATH = {"id": "sum", "prompt": "1+1=?", "answer": "2"}
CODE = {"id": "twice", "prompt": "Write double(x).", "test_cases": ["assert double(2) == 4"], "answer": "…"}
RIGHT = {"sum": "\\boxed{2}", "twice": "```python\ndef double(x):\n    return 2 * x\n```"}
WRONG = {"sum": "\\boxed{3}", "twice": "```python\ndef double(x):\n    return x\n```"}
OWN = "def own(completions, **columns):\n    return [7.0 for _ in completions]\n"
REWARD = RewardConfig(kind=("math", "code"), by_row=True)


def rows_in(path: Path, *rows: dict[str, Any]) -> str:
    return str(written(path, *rows))


def read(train: Any, reward: RewardConfig = REWARD) -> pd.DataFrame:
    return load_train(DataConfig(train=train), tokenizer(), reward.needs).frame


def judged(frame: pd.DataFrame, reward: RewardConfig, *tables: dict[str, str]) -> pd.DataFrame:
    """The grades of each problem's response in each table."""
    rows = pd.concat([
        frame.assign(response=[responses[name.rpartition("/")[2]] for name in frame["id"]], sample=sample)
        for sample, responses in enumerate(tables)
    ], ignore_index=True)  # fmt: skip
    grader = load_grader(reward)
    grader.expect(frame)
    grader.start()
    with contextlib.closing(grader):
        return grader.grade(rows.assign(slot=0))


def test_a_file_of_both_kinds_keeps_its_order_and_each_row_is_judged_by_its_own(tmp_path: Path) -> None:
    rows = [MATH | {"grader": "math"}, CODE | {"grader": "code"}, MATH | {"id": "also", "grader": "math"}]
    frame = read(rows_in(tmp_path / "both.jsonl", *rows))
    assert frame["id"].tolist() == ["sum", "twice", "also"]
    assert frame["answer"].tolist() == ["2", "…", "2"]
    assert [tests for tests in frame["test_cases"] if isinstance(tests, list)] == [CODE["test_cases"]]
    weighted = REWARD.model_copy(update={"weights": (1.0, 3.0)})
    table = judged(frame.head(2), weighted, RIGHT, WRONG, dict.fromkeys(RIGHT, "nothing"))
    assert table["accuracy"].tolist() == [1, 1, 0, 0, 0, 0]
    assert table["score"].tolist() == [1, 3, 0, 0, 0, 0]
    assert table["score_math"].isna().tolist() == [False, True] * 3
    endings = [json.loads(extras)["code"]["error_type"] for extras in table["extras"].dropna()]
    assert endings == ["accepted", "wrong_answer", "syntax_error"]


def test_a_program_whose_tests_it_could_forge_has_no_score(tmp_path: Path) -> None:
    """It ended the run: what it had passed could not be written."""
    forgeable = CODE | {"id": "twice", "test_cases": ["assert double(lambda: 2) == 4"], "grader": "code"}
    frame = read(rows_in(tmp_path / "both.jsonl", MATH | {"grader": "math"}, forgeable))
    table = judged(frame, REWARD.model_copy(update={"max_unscored": 1.0}), RIGHT)
    assert table["accuracy"].isna().tolist() == [False, True]


def test_sources_of_a_mixture_are_judged_by_the_kind_of_their_name(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    sources = {"math": rows_in(tmp_path / "m.jsonl", MATH), "own": rows_in(tmp_path / "o.jsonl", MATH | {"id": "any"})}
    reward = RewardConfig(kind=("math", f"{tmp_path / 'own.py'}:own"), by_row=True, accuracy=5.0)
    table = judged(read(sources, reward), reward, RIGHT | {"any": "nothing"})
    assert table["score"].tolist() == [1.0, 7.0]
    assert table["accuracy"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (MATH | {"grader": "mth"}, r"both.jsonl:2: its grader is 'mth', and reward.kind has math, code: name one"),
        (MATH | {"grader": None}, r"both.jsonl:2: its grader is None, and reward.kind"),
        (MATH | {"id": "twice", "grader": "math"}, r"both.jsonl:2: id 'twice' is a duplicate of row 1"),
    ],
)
def test_a_row_without_a_kind_is_refused_by_its_line(tmp_path: Path, row: dict[str, Any], told: str) -> None:
    with pytest.raises(DataError, match=told):
        read(rows_in(tmp_path / "both.jsonl", CODE | {"grader": "code"}, row))
    with pytest.raises(DataError, match="its grader is ''"):
        read(rows_in(tmp_path / "none.jsonl", CODE))
