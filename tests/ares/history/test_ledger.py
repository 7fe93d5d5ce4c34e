"""The ledger of a run's problems: none is skipped or repeated, whether the run was killed or not."""

import shutil
from pathlib import Path

import pytest

from ares.history import draws, ledger, open_past
from ares.step import Cursor
from tests.in_process import train_here
from tests.short_runs import told


def test_problems_are_drawn_in_the_order_of_the_seed_and_none_is_skipped_or_repeated(runs: Path) -> None:
    (groups, _), (table, gone) = draws(open_past("uninterrupted", runs)), ledger("uninterrupted", runs)
    assert gone == []
    walk = Cursor(0, len(table)).take(len(groups))
    assert groups["id"].tolist() == table.index[walk].tolist()
    assert (table["drawn"].sum(), table["trained"].sum()) == (len(groups), 4 * 4)
    assert table["drawn"].max() == 1
    once = table[table["drawn"] == 1]
    assert (once["first"] == once["mean"]).all()
    assert sorted(once["last_step"].unique()) == [1, 2, 3, 4]


def test_a_run_that_was_killed_has_the_same_ledger(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In step 3, with half of its results kept."""
    shutil.copytree(runs / "uninterrupted", tmp_path / "killed")
    steps = tmp_path / "killed" / "steps"
    shutil.rmtree(steps / "000004")
    (steps / "000003" / "COMMIT.json").unlink()
    kept = (steps / "000003" / "phases.jsonl").read_bytes().splitlines(keepends=True)
    (steps / "000003" / "phases.jsonl").write_bytes(b"".join(kept[: len(kept) // 2]))
    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    assert train_here(None, [], "killed").committed_steps() == [0, 1, 2, 3, 4]
    (killed, gone), (whole, _) = draws(open_past("killed", tmp_path)), draws(open_past("uninterrupted", runs))
    assert killed.equals(whole)
    assert gone == []


def test_the_command_counts_them_and_writes_the_table(runs: Path, tmp_path: Path) -> None:
    said = told(runs, "data", "used", "uninterrupted", "--out", str(tmp_path / "used.csv"))
    assert said.returncode == 0, said.stderr
    groups = len(draws(open_past("uninterrupted", runs))[0])
    assert f"{1000 - groups} never drawn, {groups} once, 0 more often" in said.stdout
    assert f"{groups} groups drawn, 16 trained on" in said.stdout
    assert (tmp_path / "used.csv").read_text().startswith("id,drawn,trained,last_step,first,last,mean")


def test_after_gc_the_steps_that_are_left_are_counted_and_the_others_named(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "uninterrupted", tmp_path / "uninterrupted")
    for step in (1, 2):
        (tmp_path / "uninterrupted" / "steps" / f"{step:06d}" / "phases.jsonl").unlink()
    said = told(tmp_path, "data", "used", "uninterrupted")
    assert said.returncode == 0, said.stderr
    assert "2 steps up to 2 are not counted: what they sampled is gone" in said.stdout
    assert ", 8 trained on" in said.stdout
    judged = told(tmp_path, "rescore", "uninterrupted")
    assert judged.returncode == 2
    assert "what step 2 sampled is gone, as after `ares gc`; --steps 3: can be judged again" in judged.stderr
