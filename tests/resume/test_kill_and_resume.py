"""A run that was killed and started again under Prefect, Ray and MLflow ends in the bits of the run that was not."""

import signal
from pathlib import Path

import pytest

from tests.short_runs import assert_same, is_logged, train


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_killed_in_an_update_with_two_files_damaged_it_ends_in_the_same_bits(runs: Path, whole: bool) -> None:
    """Killed as a plain run, which is cheaper; or under all of them, too."""
    name = f"killed-{whole}"
    assert train(runs, name, kill_at="2:update:inside", whole=whole) == -signal.SIGKILL
    batch, kept = (runs / name / "steps/000002" / file for file in ("batch.safetensors", "phases.jsonl"))
    content = bytearray(batch.read_bytes())
    content[-1] ^= 1
    batch.write_bytes(content)
    *lines, last = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join([*lines, last[: len(last) // 2]]))  # as a disk that lost power leaves it
    assert train(runs, name, whole=True) == 0
    assert is_logged(runs, name)
    assert_same(runs, "uninterrupted", name)
