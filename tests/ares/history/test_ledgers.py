"""The ledger of a run's problems, of which none is skipped or repeated, whether the run was killed or not; pairs of its
samples for preference learning."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.history import draws, ledger, open_past, pairs
from ares.step.cursor import Cursor
from ares.store import RunStore
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


@pytest.fixture
def pairs_of(runs: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """Makes the pairs of the shared run, whose samples a function changes."""
    read = RunStore.read_rows

    def make(change: Callable[[pd.DataFrame], pd.DataFrame] = lambda rows: rows) -> list[dict[str, Any]]:
        monkeypatch.setattr(RunStore, "read_rows", lambda store, ref: change(read(store, ref)))
        return list(pairs(RunStore(runs / "uninterrupted")))

    return make


def test_second_turns_of_different_first_attempts_are_no_pair(pairs_of: Callable[..., list[Any]]) -> None:
    assert pairs_of()
    attempt = "; an attempt of {}".format
    assert not pairs_of(lambda rows: rows.assign(prompt=rows["prompt"] + rows["accuracy"].map(attempt)))


@pytest.mark.parametrize("of_cut", [{"reward": float("nan")}, {"truncated": True}])
def test_a_response_that_was_cut_off_or_has_no_reward_is_in_no_pair(
    of_cut: dict[str, Any], pairs_of: Callable[..., list[Any]]
) -> None:
    """It was sorted last, so it was the chosen one, and DPO learnt an end that nobody had sampled."""
    cut = {"response": "cut off", "accuracy": 1.0, "reward": 2.0} | of_cut
    found = pairs_of(lambda rows: pd.concat([rows, rows.assign(**cut)], ignore_index=True))
    assert {pair["chosen"] for pair in found} == {pair["chosen"] for pair in pairs_of()}


def test_a_problem_that_is_drawn_again_gives_a_pair_of_another_id(pairs_of: Callable[..., list[Any]]) -> None:
    """It was the same, and algorithm=dpo refused the file."""
    ids = [pair["id"] for pair in pairs_of(lambda rows: rows.assign(id="drawn again"))]
    assert len(set(ids)) == len(ids) > 1


def test_a_pair_is_a_right_and_a_wrong_answer_of_each_trained_group_with_both(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "pairs.jsonl"
    said = told(runs, "export", "uninterrupted", "--pairs", "--out", str(out))
    assert said.returncode == 0, said.stderr
    written = [json.loads(line) for line in out.read_text().splitlines()]
    store, mixed = RunStore(runs / "uninterrupted"), 0
    for step in store.committed_steps()[1:]:
        rows = store.read_rows(store.read_commit(step).artifacts["samples"])
        mixed += int((rows.groupby("slot")["accuracy"].nunique() > 1).sum())
        said_by = set(zip(rows["prompt"], rows["response"], rows["accuracy"], strict=True))
        for pair in (each for each in written if each["step"] == step):
            assert (pair["prompt"], pair["chosen"], 1.0) in said_by
            assert (pair["prompt"], pair["rejected"], 0.0) in said_by
    assert len(written) == mixed > 0
    assert f"{mixed} pairs of samples of uninterrupted" in said.stdout.replace("\n", " ")
    again = told(runs, "export", "uninterrupted", "--pairs", "--out", str(out))
    assert (again.returncode, "is there already" in again.stderr) == (2, True)
