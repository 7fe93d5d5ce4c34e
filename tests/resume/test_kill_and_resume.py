"""A run that was killed and started again ends in the bits of the run that was not."""

import signal
from pathlib import Path

import pytest

from tests.short_runs import assert_same, train

QUICK = ["2:update:inside", "3:shape:after"]
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


def test_killed_again_and_again_ends_in_the_same_bits(runs: Path) -> None:
    for moment in QUICK:
        assert train(runs, "killed", kill_at=moment) == -signal.SIGKILL, f"{moment} never came"
        if moment == "3:shape:after":
            damage(runs / "killed" / "steps/000003/batch/tensors.safetensors")
    assert train(runs, "killed") == 0
    assert_same(runs, "uninterrupted", "killed")


@pytest.mark.slow
@pytest.mark.parametrize("moment", THOROUGH)
def test_killed_at_any_phase_ends_in_the_same_bits(runs: Path, moment: str) -> None:
    name = moment.replace(":", "-")
    assert train(runs, name, kill_at=moment) == -signal.SIGKILL
    assert train(runs, name) == 0
    assert_same(runs, "uninterrupted", name)
