"""Pairs of a run's samples for preference learning."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.history import pairs
from ares.store import Ref, RunStore
from tests.short_runs import told


def test_second_turns_of_different_first_attempts_are_no_pair(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, read = RunStore(runs / "uninterrupted"), RunStore.read_rows
    assert list(pairs(store))

    def of_two_attempts(store: RunStore, ref: Ref) -> pd.DataFrame:
        rows = read(store, ref)
        return rows.assign(prompt=rows["prompt"] + rows["accuracy"].map("; an attempt of {}".format))

    monkeypatch.setattr(RunStore, "read_rows", of_two_attempts)
    assert not list(pairs(store))


@pytest.mark.parametrize("of_cut", [{"reward": float("nan")}, {"truncated": True}])
def test_a_response_that_was_cut_off_or_has_no_reward_is_in_no_pair(
    of_cut: dict[str, Any], runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was sorted last, so it was the chosen one, and DPO learnt an end that nobody had sampled."""
    store, read = RunStore(runs / "uninterrupted"), RunStore.read_rows
    chosen = {pair["chosen"] for pair in pairs(store)}

    def with_cut_ones(store: RunStore, ref: Ref) -> pd.DataFrame:
        rows = read(store, ref)
        cut = rows.assign(**({"response": "cut off", "accuracy": 1.0, "reward": 2.0} | of_cut))
        return pd.concat([rows, cut], ignore_index=True)

    monkeypatch.setattr(RunStore, "read_rows", with_cut_ones)
    assert {pair["chosen"] for pair in pairs(store)} == chosen


def test_a_problem_that_is_drawn_again_gives_a_pair_of_another_id(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was the same, and algorithm=dpo refused the file."""
    read = RunStore.read_rows
    monkeypatch.setattr(RunStore, "read_rows", lambda store, ref: read(store, ref).assign(id="drawn again"))
    ids = [pair["id"] for pair in pairs(RunStore(runs / "uninterrupted"))]
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
    assert (again.returncode, "File exists" in again.stderr) == (2, True)
