"""A run that was killed and started again ends in the bits of the run that was not."""

import signal
from pathlib import Path

import pytest

from tests.short_runs import assert_same, is_logged, train

THOROUGH = [
    f"{step}:{phase}:{moment}"
    for step, phase in [(0, "rollout"), (0, "experience"), (0, "bootstrap"), (1, "score"), (1, "experience"),
                        (2, "evaluate"), (3, "update"), (3, "checkpoint"), (4, "update"), (4, "commit")]
    for moment in ("before", "inside", "after")
    if phase != "commit" or moment == "before"
]  # fmt: skip


def damage(artifact: Path) -> None:
    """Flip one bit of a file that a kept result names: it must be made again, not trusted."""
    content = bytearray(artifact.read_bytes())
    content[-1] ^= 1
    artifact.write_bytes(content)


def cut(kept: Path) -> None:
    """Leave half of the last kept result, as a disk that lost power does."""
    *whole, last = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join([*whole, last[: len(last) // 2]]))


def test_killed_in_an_update_with_two_files_damaged_it_ends_in_the_same_bits(runs: Path) -> None:
    assert train(runs, "killed", kill_at="2:update:inside", whole=True) == -signal.SIGKILL
    damage(runs / "killed" / "steps/000002/batch.safetensors")
    cut(runs / "killed" / "steps/000002/phases.jsonl")
    assert train(runs, "killed", whole=True) == 0
    assert is_logged(runs, "killed")
    assert_same(runs, "uninterrupted", "killed")


@pytest.mark.slow
def test_killed_again_and_again_ends_in_the_same_bits(runs: Path) -> None:
    for moment in ("1:rollout:inside", "2:update:inside", "3:shape:after", "4:checkpoint:before"):
        assert train(runs, "killed-again", kill_at=moment) == -signal.SIGKILL, f"{moment} never came"
    assert train(runs, "killed-again") == 0
    assert_same(runs, "uninterrupted", "killed-again")


@pytest.mark.slow
@pytest.mark.parametrize("moment", THOROUGH)
def test_killed_at_any_phase_ends_in_the_same_bits(runs: Path, moment: str) -> None:
    name = moment.replace(":", "-")
    assert train(runs, name, kill_at=moment) == -signal.SIGKILL
    assert train(runs, name) == 0
    assert_same(runs, "uninterrupted", name)
