"""A folder to which files are added: which of them count, in what order, and that none may change."""

from pathlib import Path

import pytest

from ares.config import DataConfig
from ares.data import DataError, Problems, load_problems
from ares.runs.sets import Files, GrowingSet
from tests.ares.builders import tokenizer
from tests.ares.data.code_rows import written


def write(folder: Path, name: str, *sums: str) -> None:
    written(folder / name, *({"prompt": f"{each}=?", "answer": "2"} for each in sums))


def growing(folder: Path, first: Files | None = None) -> GrowingSet:
    def read(path: str) -> Problems:
        return load_problems(path, "train", DataConfig(train=path), tokenizer())

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


def test_a_bad_row_is_named_and_a_repaired_file_is_read(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", "1+1")
    found = growing(tmp_path)
    (tmp_path / "b.jsonl").write_text('{"prompt": "1+1=?", "answer": "2"}\n{"prompt": "1+2=?"}\n')
    for _ in range(2):
        with pytest.raises(DataError, match=r"b\.jsonl:2: column 'answer' is missing"):
            found.look(found.first)
    write(tmp_path, "b.jsonl", "1+1", "1+2")
    assert found.look(found.first)["b.jsonl"]["rows"] == 2


def test_a_folder_that_is_not_there_or_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: data\.grows=true, and there is no such folder"):
        growing(tmp_path / "nowhere")
    with pytest.raises(DataError, match="there is no file to begin with"):
        growing(tmp_path)
