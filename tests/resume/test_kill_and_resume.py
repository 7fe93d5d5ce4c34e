"""A run that was killed and started again ends in the bits of the run that was not."""

import signal
from pathlib import Path

import pytest

from ares.store import Commit, RunStore
from tests.short_runs import metric_history, train

QUICK = ["1:rollout:inside", "2:update:inside", "3:shape:after", "4:commit:before"]
THOROUGH = [
    f"{step}:{phase}:{moment}"
    for step, phase in [(0, "rollout"), (0, "experience"), (0, "bootstrap"), (1, "score"), (1, "experience"),
                        (2, "evaluate"), (3, "update"), (3, "checkpoint"), (4, "update"), (4, "commit")]
    for moment in ("before", "inside", "after")
    if phase != "commit" or moment == "before"
]  # fmt: skip


def commits(runs: Path, name: str) -> list[Commit]:
    store = RunStore(runs / name)
    return [store.read_commit(step) for step in store.committed_steps()]


def assert_same(runs: Path, one: str, other: str) -> None:
    for expected, found in zip(commits(runs, one), commits(runs, other), strict=True):
        assert found.state == expected.state
        assert found.metrics == expected.metrics
        assert found.artifacts == expected.artifacts  # the checkpoints' hashes are among them
        assert found.digest() == expected.digest()
    expected_history, found_history = metric_history(runs, one), metric_history(runs, other)
    assert all(len(values) == 1 for values in found_history.values())  # a replay adds no row
    assert found_history == expected_history


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
