"""The published model of `make real` trains, is killed in an update and resumed, and ends in the same bits.

Not covered: that it learns (`make real`).
"""

from pathlib import Path

import pytest

from tests.shared_run import REPOSITORY
from tests.short_runs import ares, assert_same_commits, commits

FOLDER = "examples/smollm2/checkpoint"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (REPOSITORY / FOLDER / "config.json").exists(), reason=f"`make {FOLDER}/config.json` fetches SmolLM2"
    ),
]
SMALLER = [
    "train.steps=3", "rollout.prompts=4", "rollout.n=4", "learner.global_batch_prompts=4", "bootstrap.max_prompts=4",
    "bootstrap.n=2", "validation.max_prompts=4",
]  # fmt: skip


def test_a_published_model_is_killed_in_an_update_and_ends_in_the_same_bits(tmp_path: Path) -> None:
    def train(name: str, kill_at: str | None = None) -> int:
        return ares(tmp_path, "train", "smollm2", *SMALLER, "--run", name, kill_at=kill_at).returncode

    assert train("whole") == 0
    assert train("killed", kill_at="2:update:inside") == -9
    assert [commit.step for commit in commits(tmp_path, "killed")] == [0, 1]
    assert train("killed") == 0
    assert [commit.step for commit in commits(tmp_path, "whole")] == [0, 1, 2, 3]
    assert_same_commits(tmp_path, "whole", "killed")
