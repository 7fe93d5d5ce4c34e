"""Runs with a user's own rewards: their parts are stored, shown and logged; a mistake leaves nothing behind; a problem
that none can grade is left out.
"""

import json
from pathlib import Path

import pytest

from ares.store.store import RunStore
from tests.short_runs import ares, metric_history, samples, told, train

OWN = """
def right(completions, answer, **columns):
    return [1.0 if f"boxed{{{a}}}" in c else -1.0 for c, a in zip(completions, answer)]

def brief(completions, completion_ids, trainer_state, **columns):
    assert trainer_state.global_step in (0, 1, 2)
    return [None if len(ids) > 60 else 5.0 - len(ids) / 10 for ids in completion_ids]

def parity(completions, **columns):
    return [None if name == 'train-0003' else float(len(text) % 2) for name, text in zip(columns['id'], completions)]

def compute_score(data_source, solution_str, ground_truth, extra_info):
    right = f"boxed{{{ground_truth}}}" in solution_str
    return {"score": 2.0 * right - 1, "acc": right, "pred": solution_str[-5:]}
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


@pytest.mark.slow
def test_the_parts_of_several_functions_are_stored_shown_logged_and_evaluated(tmp_path: Path, own: Path) -> None:
    kinds = f"reward.kind=[{own}:right, {own}:brief, {own}:compute_score]"
    settings = [kinds, "reward.weights=[1, 0.1, 0]", f"reward.accuracy={own}:right"]
    wrong = ares(tmp_path, "train", "tiny-math", *settings, "--run", "wrong")  # −1 is no accuracy
    assert wrong.returncode == 2
    assert "gave -1.0 to problem" in wrong.stderr
    assert not (tmp_path / "wrong").exists()
    assert train(tmp_path, "added", *settings[:2], "reward.accuracy=0.6", "train.steps=2") == 0

    rows = samples(tmp_path, "added", 2)
    worth = rows["score_right"] + 0.1 * rows["score_brief"].fillna(0.0)
    assert rows["reward_score"].tolist() == pytest.approx(worth.tolist())
    assert rows["accuracy"].tolist() == (worth >= 0.6).astype(float).tolist()
    assert set(rows["score_right"]) == {-1.0, 1.0}
    store = RunStore(tmp_path / "added")
    assert {"score", "score_right"} <= set(store.read_rows(store.read_commit(2).artifacts["evaluation"]))

    listed = ares(tmp_path, "inspect", "added", "--step", "2").stdout
    assert all(title in listed for title in ("right", "brief", "score"))
    row = rows.iloc[0]
    one = told(tmp_path, "inspect", "added", "--step", "2", "--id", row["id"], "--sample", str(row["sample"])).stdout
    assert f"reward_score = 1 × right {row['score_right']:+.4f} + 0.1 × brief {row['score_brief']:+.4f}" in one

    logged = metric_history(tmp_path, "added")
    for name in ("rewards/right", "rewards/brief", "val/rewards/right", "val/rewards/brief"):
        assert (f"{name}/mean", 2) in logged
        assert (f"{name}/std", 2) in logged
    assert ("val/reward", 2) in logged
    assert ("reward/score", 2) in logged
    extras = json.loads(rows["extras"][0])["compute_score"]
    assert extras == {"acc": bool(rows["accuracy"][0]), "pred": rows["response"][0][-5:]}
    assert logged["rewards/compute_score/acc/mean", 2] == logged["reward/sampled_accuracy", 2]

    alone = [f"reward.kind={own}:compute_score", "reward.weights=null", "reward.accuracy=0.5"]
    ended = ares(tmp_path, "eval", "added", *alone, "--n", "2", "--k", "1", "--max-problems", "4")
    assert ended.returncode == 0, ended.stderr
    (summary,) = (tmp_path / "added" / "evals").glob("*/summary.json")
    estimates = json.loads(summary.read_text())["estimates"]
    assert estimates["score"]["value"] == pytest.approx(2 * estimates["pass@1"]["value"] - 1)


@pytest.mark.slow
def test_a_problem_without_any_score_is_left_out_and_counted_and_the_run_ends(tmp_path: Path, own: Path) -> None:
    data = Path("examples/tiny/checkpoints/math/train.jsonl").read_text().splitlines()[:6]
    (tmp_path / "train.jsonl").write_text("\n".join(data))
    settings = [f"reward.kind={own}:parity", f"data.train={tmp_path / 'train.jsonl'}", "train.steps=2",
                "rollout.shard_prompts=1", "reward.max_unscored=0.1", "data.validation=null"]  # fmt: skip
    assert train(tmp_path, "unscored", *settings) == 0
    store = RunStore(tmp_path / "unscored")
    last = store.read_commit(2)
    assert store.read_commit(0).metrics["bootstrap/unscored"] == 2
    assert last.state["counters"]["unscored_samples"] > 2
    assert sum(store.read_commit(step).metrics["reward/unscored_groups"] for step in (1, 2)) > 0
    rows = samples(tmp_path, "unscored", 2)
    assert "train-0003" not in set(rows["id"])
    assert rows["accuracy"].notna().all()
