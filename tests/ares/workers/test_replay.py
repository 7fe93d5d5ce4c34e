"""What weights are rebuilt from."""

from pathlib import Path

from ares.store import Commit, RunStore
from ares.workers import newest_checkpoint
from tests.ares.store_builders import commit, fill


def test_a_step_that_is_done_again_takes_no_checkpoint_of_the_past_that_it_replaces(tmp_path: Path) -> None:
    """Step 2 was redone with another result, and the commit of the old step 3 is still there."""
    store, commits = RunStore(tmp_path / "run"), list[Commit]()
    for step in range(4):
        artifacts = {"checkpoint": store.write_folder(f"checkpoints/{step:06d}", fill)} if step in (1, 3) else {}
        commits.append(commit(step, commits[-1] if commits else None, artifacts=artifacts))
        store.write_commit(commits[-1])
    assert newest_checkpoint(store, 3)[0] == 3
    store.write_commit(commits[2].model_copy(update={"state": {"n": 7}}))
    assert newest_checkpoint(store, 3)[0] == 1
