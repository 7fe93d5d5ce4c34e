"""The journal: whole lines are read back, whatever a kill or a disk did to the last one."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ares.store import Journal, StoreError


def rows(*samples: int) -> pd.DataFrame:
    ids = [np.array([7, sample], dtype=np.int32) for sample in samples]
    log_probs = [np.array([-0.1, -1 / (3 + sample)], dtype=np.float32) for sample in samples]
    return pd.DataFrame({"sample": samples, "response": "7", "token_ids": ids, "log_probs": log_probs})


def samples(journal: Journal) -> list[int]:
    found = journal.rows()
    return [] if found is None else found["sample"].tolist()


def test_what_was_added_is_found_to_the_bit(tmp_path: Path) -> None:
    path = tmp_path / "steps" / "rollout.journal"
    journal = Journal(path, "key")
    assert journal.rows() is None
    journal.add(rows(3, 1))
    journal.add(rows(2))
    found = Journal(path, "key").rows()
    assert found is not None
    pd.testing.assert_frame_equal(found, pd.concat([rows(3, 1), rows(2)], ignore_index=True))
    assert [values.dtype for values in (*found["token_ids"], *found["log_probs"])] == [np.int32] * 3 + [np.float32] * 3
    journal.end()
    assert not path.exists()


@pytest.mark.parametrize("lost", [1, 2, 40])
def test_a_line_cut_off_is_dropped_and_the_next_one_is_found(lost: int, tmp_path: Path) -> None:
    path = tmp_path / "rollout.journal"
    before = Journal(path, "key")
    before.add(rows(0))
    before.add(rows(1))
    path.write_bytes(path.read_bytes()[:-lost])
    after = Journal(path, "key")
    assert samples(after) == [0]
    after.add(rows(2))
    assert samples(Journal(path, "key")) == [0, 2]


def test_nothing_after_a_changed_line_is_trusted(tmp_path: Path) -> None:
    path = tmp_path / "rollout.journal"
    for sample in range(3):
        Journal(path, "key").add(rows(sample))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b'"text": "', b'"text": "A', 1)
    path.write_bytes(b"".join(lines))
    assert samples(Journal(path, "key")) == [0]


def test_rows_of_another_key_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "rollout.journal"
    Journal(path, "one").add(rows(0))
    other = Journal(path, "other")
    assert samples(other) == []
    other.add(rows(1))
    assert samples(Journal(path, "other")) == [1]


def test_an_unwritable_journal_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"rollout\.journal: cannot be written: "):
        Journal(tmp_path / "file" / "rollout.journal", "key").add(rows(0))
