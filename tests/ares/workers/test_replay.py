"""What weights are rebuilt from."""

import logging
from pathlib import Path

import pytest

from ares.store import DamagedArtifact, RunStore
from ares.workers import latest_checkpoint, newest_checkpoint
from tests.ares.store_builders import with_checkpoints


def test_a_step_that_is_done_again_takes_no_checkpoint_of_the_past_that_it_replaces(tmp_path: Path) -> None:
    """Step 2 was redone with another result, and the commit of the old step 3 is still there."""
    store = RunStore(tmp_path / "run")
    commits = with_checkpoints(store, 4, (1, 3))
    assert newest_checkpoint(store, 3)[0] == 3
    store.write_commit(commits[2].model_copy(update={"state": {"n": 7}}))
    assert newest_checkpoint(store, 3)[0] == 1
    assert latest_checkpoint(store)[0] == 1


@pytest.mark.parametrize("damaged", ["checkpoints/000003/b.txt", "steps/000003/COMMIT.json"])
def test_older_weights_are_taken_with_a_warning_unless_the_step_is_named(
    damaged: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`ares export --step 3` wrote those of step 1, as if there were no others."""
    store = RunStore(tmp_path / "run")
    with_checkpoints(store, 4, (1, 3))
    with caplog.at_level(logging.WARNING):
        assert [latest_checkpoint(store, last)[0] for last in (None, 3, 2)] == [3, 3, 1]
    assert caplog.text == ""
    (store.directory / damaged).write_text("{}")
    with caplog.at_level(logging.WARNING):
        assert [latest_checkpoint(store, last)[0] for last in (None, 4)] == [1, 1]
    assert caplog.text.count("000003") == caplog.text.count("is damaged: the weights after step 1 are taken") == 2
    with pytest.raises(DamagedArtifact, match=r"000003.* is damaged"):
        latest_checkpoint(store, 3)
