"""A problem that no grader can grade: its groups are left out and counted, and the run continues."""

from pathlib import Path

import pytest

from ares.store.store import RunStore
from tests.short_runs import train

REWARD = """
def f(completions, **columns):
    return [None if name == 'train-0003' else float(len(text) % 2) for name, text in zip(columns['id'], completions)]
"""


@pytest.mark.slow
def test_a_problem_without_any_score_is_left_out_and_counted_and_the_run_ends(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(REWARD)
    data = Path("examples/tiny/checkpoints/math/train.jsonl").read_text().splitlines()[:6]
    (tmp_path / "train.jsonl").write_text("\n".join(data))
    settings = [f"reward.kind={tmp_path / 'own.py'}:f", f"data.train={tmp_path / 'train.jsonl'}", "train.steps=2",
                "rollout.shard_prompts=1", "reward.max_unscored=0.1", "data.validation=null"]  # fmt: skip
    assert train(tmp_path, "unscored", *settings) == 0
    store = RunStore(tmp_path / "unscored")
    last = store.read_commit(2)
    assert store.read_commit(0).metrics["bootstrap/unscored"] == 2
    assert last.state["counters"]["unscored_samples"] > 2
    assert sum(store.read_commit(step).metrics["reward/unscored_groups"] for step in (1, 2)) > 0
    samples = store.read_rows(last.artifacts["samples"])
    assert "train-0003" not in set(samples["id"])
    assert samples["accuracy"].notna().all()
