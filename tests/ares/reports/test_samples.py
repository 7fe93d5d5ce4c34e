"""What is shown of samples: the table, and a report of one."""

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from algorithms.groups import SECOND_TURN_SLOT
from ares.learner import Learner
from ares.reports.samples import sample_report, samples_table
from ares.step import readable_rows
from ares.store import RunStore, StoreError
from tests.ares.builders import config, rows, shaped
from tests.ares.store_builders import commit


def test_an_id_like_markup_and_a_function_called_as_a_column_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two columns of one title were one: the titles stood above others' cells."""
    row = {"id": "[/b] :smile:", "sample": 0, "score_reward": 0.25, "reward": 1.0, "tokens": 3, "truncated": False}
    monkeypatch.setattr("ares.reports.samples.step_samples", lambda run, step: pd.DataFrame([row]))
    table = samples_table("short", 1)
    assert [str(column.header) for column in table.columns][2:4] == ["reward", "reward"]
    assert len(table.columns) == len(row)
    file = io.StringIO()
    Console(file=file, width=200).print(table)
    assert file.getvalue().splitlines()[-1].startswith("[/b] :smile: 0")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunStore:
    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    made = RunStore(tmp_path / "short")
    made.write_run({"config": config().model_dump(mode="json"), "digests": {}})
    return made


def write_samples(store: RunStore, rows: list[dict[str, Any]]) -> None:
    sample = {"id": "p", "slot": 0, "sample": 0, "prompt": "Q", "response": "A", "accuracy": 1.0, "reward": 1.0}
    table = pd.DataFrame([sample | {"truncated": False, "tokens": 1} | row for row in rows])
    store.write_commit(commit(0, None, artifacts={"samples": store.write_rows("bootstrap/samples.parquet", table)}))


def test_a_second_turn_is_shown_behind_the_first_with_its_own_prompt(store: RunStore) -> None:
    """They have one id and number: the first turn alone was shown, and the list did not tell them apart."""
    second = {"slot": SECOND_TURN_SLOT, "prompt": "Q A That is wrong.", "response": "B"}
    write_samples(store, [{"accuracy": 0.0}, second, {"id": "q", "slot": 1}])
    lines = sample_report("short", 0, "p", 0).splitlines()
    heads = [place for place, line in enumerate(lines) if line.startswith("problem ")]
    assert [lines[place : place + 4] for place in heads] == [
        ["problem p, sample 0, step 0, turn 1", "", "Q", "A"],
        ["problem p, sample 0, step 0, turn 2", "", "Q A That is wrong.", "B"],
    ]
    columns = {str(column.header): list(column.cells) for column in samples_table("short", 0).columns}
    assert [str(cell) for cell in columns["turn"]] == ["1", "2", "1"]


@pytest.mark.parametrize(
    ("tests", "lines"),
    [
        (["t1", "t2", "t3"], ["wrong_answer     t1", "accepted         t2", "–                t3"]),
        (["t1"], ["wrong_answer     t1", "accepted         –"]),
    ],
)
def test_a_program_is_shown_also_if_its_row_has_other_tests_now(
    tests: list[str], lines: list[str], store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a ValueError of zip's."""
    monkeypatch.setattr("ares.reports.samples.list_tests", lambda *_, **__: tests)
    write_samples(store, [{"test_outcomes": ["wrong_answer", "accepted"]}])
    shown = sample_report("short", 0, "p", 0)
    assert "turn" not in shown
    assert shown.splitlines()[5 : 5 + len(lines)] == lines


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """The samples of a shaped batch of two groups; one of them has no score."""
    learner = Learner(config("algorithm.overlong.soft_punish_cache=4"))
    answers = {"prompt": "a question", "response": [f"answer {i}" for i in range(8)]}
    return readable_rows(shaped(learner, rows([[1, 1, 1, 0], [1, 0, None, 0]], **answers)))


@pytest.fixture
def of_table(store: RunStore, table: pd.DataFrame) -> RunStore:
    """A run with these samples."""
    store.write_commit(commit(0, None, artifacts={"samples": store.write_rows("bootstrap/samples.parquet", table)}))
    return store


def test_the_table_has_a_line_for_every_sample_with_its_rewards_parts_and_looking_writes_nothing(
    of_table: RunStore,
) -> None:
    def listing() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in of_table.directory.parent.rglob("*")}

    before = listing()
    console = Console(width=250, file=io.StringIO())
    with console.capture() as printed:
        console.print(samples_table("short", 0))
    sample_report("short", 0, "p0", 0)
    assert listing() == before
    shown = printed.get()
    assert "short, step 0: 8 samples" in shown
    assert sum(line.count("p0") + line.count("p1") for line in shown.splitlines()) == 8
    for column in ("acc", "entropy", "overlong", "reward", "bucket"):
        assert column in shown


def test_a_report_explains_the_reward_by_its_parts(of_table: RunStore, table: pd.DataFrame) -> None:
    row = table[(table["id"] == "p0") & (table["sample"] == 3)].iloc[0]
    shown = sample_report("short", 0, "p0", 3)
    assert "answer 3" in shown
    parts = [row["accuracy"], row["reward_entropy_score"], row["reward_overlong"]]
    assert shown.splitlines()[-1] == (
        "reward {:+.4f} = accuracy {:+.4f} + reward_entropy_score {:+.4f} + reward_overlong {:+.4f}".format(
            row["reward"], *parts
        )
    )
    assert row["reward"] == pytest.approx(sum(parts))
    unscored = sample_report("short", 0, "p1", 2)
    assert "answer 6" in unscored
    assert "no reward" in unscored.splitlines()[-1]


def test_what_is_missing_is_an_error_that_names_it(of_table: RunStore) -> None:
    for call, said in (
        (lambda: samples_table("absent", 0), "no run 'absent'"),
        (lambda: samples_table("short", 9), "no committed step 9"),
        (lambda: sample_report("short", 0, "p7", 0), "no sample 0 of problem 'p7' in step 0"),
    ):
        with pytest.raises(StoreError, match=said):
            call()
