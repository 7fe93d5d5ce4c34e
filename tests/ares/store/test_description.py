"""Where a run stands, as its directory tells without its data or weights."""

from pathlib import Path

import pytest

from ares.store import RunStore, StoreError, run_status
from tests.ares.builders import config
from tests.ares.store_builders import chain

EVALUATIONS = [{"step": 1, "accuracy": 0.5, "mean_length": 6.0}]
METRICS = {"bucket/easy/acc": 0.75, "bucket/easy/alpha": 0.5, "bucket/hard/alpha": 0.25, "reward/accuracy": 0.5}


@pytest.mark.parametrize(
    ("commits", "paused_after", "state", "step"),
    [(0, None, "new", 0), (2, None, "stopped", 1), (2, 1, "paused", 1), (2, 0, "stopped", 1), (3, 2, "finished", 2)],
)
def test_a_run_tells_its_last_commit_and_whether_it_is_held(
    commits: int, paused_after: int | None, state: str, step: int, tmp_path: Path
) -> None:
    store = RunStore(tmp_path / "short")
    pauses = [] if paused_after is None else [{"step": paused_after, "why": "a wire was crossed"}]
    store.write_run({"config": config("train.steps=2").model_dump(mode="json"), "digests": {}, "pauses": pauses})
    held = {"counters": {"tokens": 64}, "evaluations": EVALUATIONS}
    chain(store, commits, lambda step: {"state": held, "metrics": METRICS})
    none, found = {"easy": {}, "medium": {}, "hard": {}}, {"easy": {"acc": 0.75, "alpha": 0.5}, "hard": {"alpha": 0.25}}
    told = {
        "run": "short", "state": state, "step": step, "steps": 2, "tokens": 64 if commits else 0,
        "evaluations": EVALUATIONS if commits else [], "buckets": none | found if commits else none,
    }  # fmt: skip
    assert run_status("short", tmp_path) == told
    with store.lock():
        assert run_status("short", tmp_path) == told | {"state": "running"}
    with pytest.raises(StoreError, match="no run 'absent'"):
        run_status("absent", tmp_path)
