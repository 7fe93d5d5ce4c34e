"""A run under Prefect, Ray and MLflow that was killed and started again ends in the bits of the run that was not."""

import signal
from pathlib import Path

from tests.short_runs import assert_same, is_logged, train


def test_killed_in_an_update_with_two_files_damaged_it_ends_in_the_same_bits(runs: Path) -> None:
    assert train(runs, "killed", kill_at="2:update:inside", whole=True) == -signal.SIGKILL
    batch, kept = (runs / "killed/steps/000002" / name for name in ("batch.safetensors", "phases.jsonl"))
    content = bytearray(batch.read_bytes())
    content[-1] ^= 1
    batch.write_bytes(content)
    *whole, last = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join([*whole, last[: len(last) // 2]]))  # as a disk that lost power leaves it
    assert train(runs, "killed", whole=True) == 0
    assert is_logged(runs, "killed")
    assert_same(runs, "uninterrupted", "killed")
