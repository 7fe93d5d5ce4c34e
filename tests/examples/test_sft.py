"""`ares sft` makes of random weights what the toy's own warm start makes of them."""

import json
import random
from pathlib import Path

import pytest
import torch

from examples.tiny import CHECKPOINTS, models
from examples.tiny.tasks import TASKS, CausalTask, save
from tests.short_runs import ares, commits

LIKE_THE_WARM_START = [
    "learner.lr=0.005", "learner.warmup_steps=20", "learner.schedule=cosine", "learner.decay_steps=1000",
    "learner.final_lr=0.05", "learner.weight_decay=0.01", "rollout.prompts=64", "learner.global_batch_prompts=64",
    "train.steps=1000", "train.checkpoint_every=500", "validation.every=1000",
]  # fmt: skip


def write_base(folder: Path) -> None:
    """tiny-math's model with random weights, and its worked examples, worked.jsonl."""
    task, rng = TASKS["tiny-math"], random.Random(0)
    assert isinstance(task, CausalTask)
    split = task.split(rng, task.steps * task.batch_size)
    tokenizer = models.build_tokenizer(task.texts(split), task.vocab_size, whole_words=task.whole_words)
    save(folder, models.build_causal(tokenizer, torch.Generator().manual_seed(0)), tokenizer)
    rows = [{"prompt": chat, "answer": response} for chat, response in task.conversations(split.examples, rng)]
    (folder / "worked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.slow
def test_random_weights_reach_the_accuracy_of_the_toys_own_warm_start(tmp_path: Path) -> None:
    write_base(tmp_path / "base")
    data = [f"model.path={tmp_path / 'base'}", f"data.train={tmp_path / 'base' / 'worked.jsonl'}"]
    ended = ares(tmp_path, "sft", "tiny-math", *data, *LIKE_THE_WARM_START, "--run", "warm", "--plain")
    assert ended.returncode == 0, ended.stderr
    own = json.loads((CHECKPOINTS / "math" / "warmstart.json").read_text())["heldout"]["accuracy"]
    before, after = (commit.metrics["val/accuracy"] for commit in commits(tmp_path, "warm")[::1000])
    assert (before, after) == (pytest.approx(0.0, abs=0.02), pytest.approx(own, abs=0.06))
