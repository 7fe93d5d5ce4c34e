"""run.json and the chain of commits: which step a resume trusts, which checkpoints stay."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from ares.store.store import Ref, RunStore, StoreError
from tests.ares.store_builders import chain, commit, with_checkpoints


def test_run_json_round_trip_and_its_absence(store: RunStore) -> None:
    assert (store.exists(), store.last_commit(), store.committed_steps()) == (False, None, [])
    with pytest.raises(StoreError, match="There is no run 'run'"):
        store.read_run()
    store.write_run({"run": "run"})
    assert store.exists()
    assert store.read_run() == {"run": "run"}
    (store.directory / "run.json").write_text("{")
    with pytest.raises(StoreError, match=r"run\.json: not readable as JSON"):
        store.read_run()


@pytest.mark.parametrize(
    ("step", "content", "last"),
    [(4, b"", 3), (3, b"", 2), (3, b"{", 2), (3, b"[]", 2), (3, b'{"step": 3}', 2), (1, None, 0), (0, b"{", None)],
)
def test_a_damaged_commit_ends_the_chain(step: int, content: bytes | None, last: int | None, store: RunStore) -> None:
    commits = chain(store, 4)
    path = store.directory / store.step_path(step) / "COMMIT.json"
    path.parent.mkdir(exist_ok=True)
    path.unlink() if content is None else path.write_bytes(content)
    assert store.last_commit() == (None if last is None else commits[last])
    assert store.committed_steps() == list(range(0 if last is None else last + 1))


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("metrics", {"m": 0.6}),
        ("state", {"n": 2}),
        ("artifacts", {"batch": Ref(path="x", sha256="0", bytes=1)}),
    ],
)
def test_a_commits_digest_covers_what_a_resume_must_reproduce(field: str, other: Any) -> None:
    assert commit(1, None).digest() != commit(1, None, **{field: other}).digest()
    assert commit(1, None).digest() != commit(2, None, state={"n": 1}).digest()
    assert commit(1, None).digest() != commit(1, commit(0, None)).digest()
    assert commit(1, None).digest() == commit(1, None, timings={"t": 2.0}, timestamp=2).digest()  # not how fast


def test_a_commits_digest_survives_the_disk(store: RunStore) -> None:
    before = commit(0, None, metrics={"a": 0.1 + 0.2, "b": 1e-300}, state={"deep": {"é": [1, None, 2.0]}})
    store.write_commit(before)
    assert store.read_commit(0).digest() == before.digest()


def checkpoints(store: RunStore) -> list[int]:
    return sorted(int(name) for name in os.listdir(store.directory / "checkpoints"))


@pytest.mark.parametrize(
    ("keep", "needed", "kept"),
    [(2, 8, [6, 8]), (1, 8, [8]), (1, 7, [6, 8]), (1, 6, [6, 8]), (1, 3, [2, 4, 6, 8]), (1, -1, [0, 2, 4, 6, 8])],
)
def test_pruning_keeps_the_newest_checkpoints_and_the_one_that_an_old_policy_needs(
    keep: int, needed: int, kept: list[int], store: RunStore
) -> None:
    with_checkpoints(store, 9, range(0, 9, 2))
    for more in (keep, 5):  # what is gone stays so
        store.prune_checkpoints(8, more, needed)
        assert checkpoints(store) == kept


def test_a_new_checkpoint_outlives_those_of_a_past_that_is_repeated(store: RunStore) -> None:
    commits = with_checkpoints(store, 7, range(7))
    again = commit(3, commits[2], artifacts=commits[3].artifacts, metrics={"m": 0.75})
    store.write_commit(again)
    store.prune_checkpoints(3, 2, 3)
    assert checkpoints(store)[:2] == [2, 3]


# ---- checksums -----------------------------------------------------------------------------------------------------


def test_a_stale_tail_after_a_repeated_step_is_left_out(store: RunStore) -> None:
    commits = chain(store, 6)
    again = commit(2, commits[1], metrics={"m": 0.75})
    store.write_commit(again)
    assert store.last_commit() == again
    assert store.committed_steps() == [0, 1, 2]
    store.write_commit(commits[2])  # the very same result again: what followed from it still does
    assert store.last_commit() == commits[5]


def flips(content: bytes) -> Iterator[bytes]:
    """The content with one bit of each byte flipped."""
    for place in range(len(content)):
        yield content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :]


def test_no_flipped_bit_of_a_commit_or_of_run_json_is_believed(store: RunStore) -> None:
    description = {"run": "run", "config": {"lr": 4e-4, "steps": 6}, "fingerprint": "1d6ffc3fc0bd9777"}
    commits = chain(store, 3)
    store.write_run(description)
    for path in (store.directory / "steps/000001/COMMIT.json", store.directory / "run.json"):
        content = path.read_bytes()
        for flipped in flips(content):
            path.write_bytes(flipped)
            assert RunStore(store.directory).last_commit() in (commits[0], commits[2])
            with suppress(StoreError):  # in the white space between values
                assert store.read_commit(1) == commits[1]
                assert store.read_run() == description
        path.write_bytes(content)


def test_a_run_of_the_first_format_is_read(store: RunStore) -> None:
    store.write_run({"run": "run"})
    commits = chain(store, 3)
    for path in [*store.directory.rglob("COMMIT.json"), store.directory / "run.json"]:
        body = json.loads(path.read_text())
        path.write_text(json.dumps({name: value for name, value in body.items() if name not in ("format", "checksum")}))
    old = RunStore(store.directory)
    assert old.read_run() == {"run": "run"}
    assert old.last_commit() == commits[-1]


def test_a_later_format_is_refused_with_the_reason(store: RunStore) -> None:
    store.write_run({"run": "run"})
    path = store.directory / "run.json"
    body = json.loads(path.read_text()) | {"format": 3}
    del body["checksum"]
    body["checksum"] = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(body))
    with pytest.raises(StoreError, match="format 3 is of another version"):
        RunStore(store.directory).read_run()
