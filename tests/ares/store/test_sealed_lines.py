"""Sealed lines: what phases have found and the rows of a shard are read back, whatever a kill or a disk did to them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ares.store import Journal, Kept, Memo, Ref, StoreError

REF = Ref(path="steps/000001/rollout.parquet", sha256="ab", bytes=7)


def kept(key: str, phase: str = "rollout", **result: object) -> Kept:
    return Kept(key, phase, dict(result))


def rows(*samples: int) -> pd.DataFrame:
    ids = [np.array([7, sample], dtype=np.int32) for sample in samples]
    log_probs = [np.array([-0.1, -1 / (3 + sample)], dtype=np.float32) for sample in samples]
    return pd.DataFrame({"sample": samples, "response": "7", "token_ids": ids, "log_probs": log_probs})


def add(kind: str, path: Path, number: int) -> None:
    """Add to the file what is known by a number."""
    if kind == "memo":
        Memo(path).keep(kept(str(number)))
    else:
        Journal(path, "key").add(rows(number))


def found(kind: str, path: Path) -> list[int]:
    """The numbers that are found."""
    if kind == "memo":
        return [int(each.key) for each in Memo(path).of_phases(["rollout"])]
    table = Journal(path, "key").rows()
    return [] if table is None else table["sample"].tolist()


def changed(content: bytes) -> bytes:
    *before, second, last = content.splitlines(keepends=True)
    return b"".join([*before, second.replace(b'"text": "', b'"text": "A', 1), last])


@pytest.mark.parametrize("kind", ["memo", "journal"])
@pytest.mark.parametrize(
    ("damage", "left"),
    [
        (lambda content: content[:-1], [0, 1]),
        (lambda content: content[:-2], [0, 1]),
        (lambda content: content[:-40], [0, 1]),
        (changed, [0]),  # nothing after a changed line is trusted
        (lambda content: content + b"[]\n", [0, 1, 2]),
        (lambda content: content + b"\xff\n", [0, 1, 2]),
    ],
)
def test_a_damaged_line_ends_a_file(
    kind: str, damage: Callable[[bytes], bytes], left: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "steps" / "file"
    for number in range(3):
        add(kind, path, number)
    path.write_bytes(damage(path.read_bytes()))
    if kind == "memo":
        assert not Memo(path).is_intact
    assert found(kind, path) == left
    add(kind, path, 3)
    assert found(kind, path) == [*left, 3]


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"rollout\.journal: cannot be written: "):
        Journal(tmp_path / "file" / "rollout.journal", "key").add(rows(0))


def test_the_last_result_under_a_key_is_found_and_those_of_phases_are_told_apart(tmp_path: Path) -> None:
    written: list[Path] = []
    memo = Memo(tmp_path / "steps" / "phases.jsonl", written.append)
    assert memo.find("a") is None
    for key, phase, number in (("a", "rollout", 1), ("b", "score", 2), ("a", "rollout", 3), ("c", "shape", 4)):
        memo.keep(kept(key, phase, rows=number))
    for read in (memo, Memo(memo.path)):
        assert [read.find(key) for key in "abcd"] == [{"rows": 3}, {"rows": 2}, {"rows": 4}, None]
        assert [each.phase for each in read.of_phases(("rollout", "shape"))] == ["rollout", "shape"]
    assert written == [memo.path] * 4


def test_a_result_names_its_artifacts_wherever_they_stand() -> None:
    ref = REF.model_dump()
    assert kept("a", batch=ref, samples=[{"rollouts": [ref, ref]}], metrics={"x": 1.0}).refs() == [REF] * 3


def test_what_was_added_is_found_to_the_bit(tmp_path: Path) -> None:
    path = tmp_path / "steps" / "rollout.journal"
    journal = Journal(path, "key")
    assert journal.rows() is None
    journal.add(rows(3, 1))
    journal.add(rows(2))
    read = Journal(path, "key").rows()
    assert read is not None
    pd.testing.assert_frame_equal(read, pd.concat([rows(3, 1), rows(2)], ignore_index=True))
    assert [values.dtype for values in (*read["token_ids"], *read["log_probs"])] == [np.int32] * 3 + [np.float32] * 3
    journal.end()
    assert not path.exists()


def test_rows_of_another_key_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "rollout.journal"
    Journal(path, "one").add(rows(0))
    assert Journal(path, "other").rows() is None
    assert found("journal", path) == []
