"""The memo: what a phase has found is found again under its key, whatever a kill or a disk did to the file."""

from pathlib import Path

import pytest

from ares.store import Kept, Memo, Ref

REF = Ref(path="steps/000001/rollout.parquet", sha256="ab", bytes=7)


def kept(key: str, phase: str = "rollout", **result: object) -> Kept:
    return Kept(key, phase, dict(result))


def test_a_result_is_found_under_its_key_alone(tmp_path: Path) -> None:
    memo = Memo(tmp_path / "steps" / "phases.jsonl")
    assert memo.find("a") is None
    memo.keep(kept("a", rows=1))
    memo.keep(kept("b", rows=2))
    for read in (memo, Memo(memo.path)):
        assert [read.find(key) for key in "abc"] == [{"rows": 1}, {"rows": 2}, None]


def test_a_result_that_was_found_again_replaces_the_first(tmp_path: Path) -> None:
    memo = Memo(tmp_path / "phases.jsonl")
    for rows in (1, 2):
        memo.keep(kept("a", rows=rows))
    assert Memo(memo.path).find("a") == {"rows": 2}
    assert len(Memo(memo.path).of_phases(["rollout"])) == 1


@pytest.mark.parametrize("lost", [1, 2, 40])
def test_a_line_cut_off_is_dropped_and_the_next_one_is_found(lost: int, tmp_path: Path) -> None:
    memo = Memo(tmp_path / "phases.jsonl")
    memo.keep(kept("a"))
    memo.keep(kept("b"))
    memo.path.write_bytes(memo.path.read_bytes()[:-lost])
    after = Memo(memo.path)
    after.keep(kept("c"))
    assert [Memo(memo.path).find(key) for key in "abc"] == [{}, None, {}]


def test_nothing_after_a_changed_line_is_trusted(tmp_path: Path) -> None:
    memo = Memo(tmp_path / "phases.jsonl")
    for key in "abc":
        memo.keep(kept(key, rows=1))
    memo.path.write_bytes(memo.path.read_bytes().replace(b"b", b"d", 1))
    assert Memo(memo.path).of_phases(["rollout"]) == []


def test_a_result_names_its_artifacts_wherever_they_stand() -> None:
    ref = REF.model_dump()
    assert kept("a", batch=ref, samples=[{"rollouts": [ref, ref]}], metrics={"x": 1.0}).refs() == [REF] * 3


def test_results_are_told_apart_by_phase(tmp_path: Path) -> None:
    written: list[Path] = []
    memo = Memo(tmp_path / "phases.jsonl", written.append)
    for phase in ("rollout", "score", "shape"):
        memo.keep(kept(f"key of {phase}", phase))
    assert [each.phase for each in memo.of_phases(("rollout", "shape"))] == ["rollout", "shape"]
    assert written == [memo.path] * 3
