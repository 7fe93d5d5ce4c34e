"""A train set that grows: which files count and that none may change, what a commit holds of them, and what a resume, a
fork and a look back make of that."""

import json
from pathlib import Path

import pytest

from ares.config import Config, DataConfig
from ares.data import DataError, Problems, load_problems
from ares.history import open_past
from ares.runs import Run, all_files, fork
from ares.runs.sets import Files, GrowingSet
from ares.store import RunStore
from tests.ares import builders
from tests.ares.data.code_rows import written


def write(folder: Path, name: str, *sums: str) -> None:
    written(folder / name, *({"prompt": f"{each}=?", "answer": "2"} for each in sums))


def growing(folder: Path, first: Files | None = None) -> GrowingSet:
    def read(path: str) -> Problems:
        return load_problems(path, "train", DataConfig(train=path), builders.tokenizer())

    return GrowingSet(str(folder), read, first)


def test_files_are_seen_by_name_once_they_have_one_and_rows_are_named_after_them(tmp_path: Path) -> None:
    write(tmp_path, "b.jsonl", "1+1", "1+2")
    write(tmp_path, "a.jsonl", "2+2")
    write(tmp_path, ".c.jsonl", "3+3")
    write(tmp_path, "c.jsonl.tmp", "3+3")
    (tmp_path / "README.md").write_text("no rows")
    found = growing(tmp_path)
    assert {name: noted["rows"] for name, noted in found.first.items()} == {"a.jsonl": 1, "b.jsonl": 2}
    assert found.problems(found.first).frame["id"].tolist() == ["a.jsonl/0", "b.jsonl/0", "b.jsonl/1"]
    assert found.look(found.first) == {}
    (tmp_path / ".c.jsonl").rename(tmp_path / "0.jsonl")
    new = found.look(found.first)
    assert list(new) == ["0.jsonl"]
    again = growing(tmp_path)
    both = {**found.first, **new}
    assert again.problems(both).frame["id"].tolist() == ["a.jsonl/0", "b.jsonl/0", "b.jsonl/1", "0.jsonl/0"]


@pytest.mark.parametrize("resumes", [True, False])
def test_a_file_that_changes_or_vanishes_is_named_until_it_is_put_back(tmp_path: Path, resumes: bool) -> None:
    write(tmp_path, "a.jsonl", "1+1", "1+2")
    found = growing(tmp_path)
    first, kept = found.first, (tmp_path / "a.jsonl").read_bytes()
    found = growing(tmp_path, first) if resumes else found
    (tmp_path / "a.jsonl").write_text("{half")
    for ask in (found.look, found.problems):
        with pytest.raises(DataError, match=r"a\.jsonl: changed since the run saw it: put back what it was"):
            ask(first)
    (tmp_path / "a.jsonl").unlink()
    for ask in (found.look, found.problems):
        with pytest.raises(DataError, match=r"a\.jsonl: the run draws from this file, and it is gone: put it back"):
            ask(first)
    (tmp_path / "a.jsonl").write_bytes(kept)
    assert found.problems(first).frame["id"].tolist() == ["a.jsonl/0", "a.jsonl/1"]


def test_a_folder_that_is_not_there_or_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: data\.grows=true, and there is no such folder"):
        growing(tmp_path / "nowhere")
    with pytest.raises(DataError, match="there is no file to begin with"):
        growing(tmp_path)


# ---- a run ---------------------------------------------------------------------------------------------------------


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


def opened(folder: Path, name: str = "grows", *overrides: str) -> Run:
    return Run.open(settings(folder, "data.validation=null", *overrides), name, folder.parent)


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
    for again in (opened(folder), opened(folder, "forked", "train.steps=9")):
        assert names(again) == ["first.jsonl", "second.jsonl"]
        assert again.next_prompts(again.state, 10, 1) == expected
    assert names(open_past("grows", folder.parent)) == ["first.jsonl", "second.jsonl"]
    assert list(all_files(RunStore(folder.parent / "grows")) or ()) == ["first.jsonl", "second.jsonl"]


def test_a_bad_or_changed_file_ends_the_step_without_a_commit_and_a_repaired_one_is_seen(folder: Path) -> None:
    run = opened(folder)
    lacking = '{"prompt": "1+1=?", "answer": "2"}\n{"prompt": "1+2=?"}'
    for bad, told in (("{half", ":1: not JSON"), (lacking, ":2: column 'answer' is missing")):
        (folder / "second.jsonl").write_text(bad)
        with pytest.raises(DataError, match=rf"second\.jsonl{told}"):
            commit(run)
    assert run.store.committed_steps() == []
    add(folder / "second.jsonl", 1)
    commit(run)
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
