"""A run whose train set grows: what a commit holds of it, and what a resume, a fork and a look back make of that."""

import json
from pathlib import Path

import pytest

from ares.config import Config
from ares.data import DataError
from ares.history import open_past
from ares.runs import Run, all_files, fork
from ares.store import RunStore
from tests.ares import builders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file of five problems."""
    (tmp_path / "problems").mkdir()
    add(tmp_path / "problems" / "first.jsonl", 0)
    return tmp_path / "problems"


def add(path: Path, number: int) -> None:
    lines = (builders.MODEL / "train.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[5 * number : 5 * number + 5]), encoding="utf-8")


def settings(folder: Path, *overrides: str) -> Config:
    return builders.config(f"data.train={folder}", "data.limit=null", "data.grows=true", *overrides)


def opened(folder: Path, name: str = "grows") -> Run:
    return Run.open(settings(folder, "data.validation=null"), name, folder.parent)


def commit(run: Run) -> None:
    """End step 0, as flows/commit.py does."""
    step = run.step(0)
    run.look_for_files(step.state)
    step.commit({}, {})


def names(run: Run) -> list[str]:
    return run.train_set.frame["id"].str.partition("/")[0].unique().tolist()


def test_a_file_that_comes_in_a_step_is_in_its_commit_and_seen_by_all_that_follows(folder: Path) -> None:
    run = opened(folder)
    state = run.state
    assert len(run.next_prompts(state, 2, 1)) == 2
    add(folder / "second.jsonl", 1)
    assert set(names(opened(folder))) == {"first.jsonl"}  # killed before the first commit
    commit(run)
    add(folder / "third.jsonl", 2)
    assert run.state.cursor.size == 10
    held = json.loads((folder.parent / "grows" / "bootstrap" / "COMMIT.json").read_text())["state"]
    assert {name: noted["rows"] for name, noted in held["files"].items()} == {"second.jsonl": 5}
    expected = run.next_prompts(run.restored(run.state.state_dict()), 10, 1)
    assert {name.partition("/")[0] for name in expected} == {"first.jsonl", "second.jsonl"}
    fork("grows", 0, None, ["train.steps=9"], "forked", folder.parent)
    for name in ("grows", "forked"):
        again = opened(folder) if name == "grows" else Run.open(run.config.model_copy(), "grows", folder.parent)
        again.restore()
        assert names(again) == ["first.jsonl", "second.jsonl"]
        assert again.next_prompts(again.state, 10, 1) == expected
    assert names(open_past("grows", folder.parent)) == ["first.jsonl", "second.jsonl"]
    assert list(all_files(RunStore(folder.parent / "grows")) or ()) == ["first.jsonl", "second.jsonl"]


def test_a_bad_or_changed_file_ends_the_step_without_a_commit_and_a_repaired_one_is_seen(folder: Path) -> None:
    run = opened(folder)
    (folder / "second.jsonl").write_text("{half")
    with pytest.raises(DataError, match=r"second\.jsonl:1: not JSON"):
        commit(run)
    assert run.store.committed_steps() == []
    add(folder / "second.jsonl", 1)
    commit(opened(folder))
    add(folder / "second.jsonl", 2)
    with pytest.raises(DataError, match=r"second\.jsonl: changed since the run saw it"):
        opened(folder)


def test_problems_that_are_held_out_too_are_left_out_of_what_comes(folder: Path) -> None:
    held_out = folder.parent / "held-out.jsonl"
    held_out.write_text((folder / "first.jsonl").read_text().splitlines()[0] + "\n")
    run = Run.open(settings(folder, f"data.validation={held_out}", "data.drop_shared=true"), "apart", folder.parent)
    assert len(run.train_set) == 4
    (folder / "second.jsonl").write_text((folder / "first.jsonl").read_text())
    commit(run)
    assert len(run.train_set) == 8
