"""The toys of several turns: a step calls a calculator, a run learns to call it, another learns to halve."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from transformers import AutoTokenizer

from examples.tiny import CHECKPOINTS
from tests.short_runs import ares, commits, told

SMALL = [
    "train.steps=1", "rollout.prompts=4", "rollout.n=4", "rollout.shard_prompts=4", "learner.global_batch_prompts=4",
    "bootstrap.max_prompts=4", "bootstrap.n=2", "validation.max_prompts=4", "validation.n=1",
    "train.checkpoint_every=1", "algorithm.filter.enabled=false",
]  # fmt: skip


@pytest.mark.slow
def test_a_step_calls_the_calculator_and_learns_nothing_of_what_it_said(tmp_path: Path) -> None:
    ended = told(tmp_path, "train", "tiny-tool", *SMALL, "--run", "run", "--plain")
    assert ended.returncode == 0, ended.stderr[-3000:]
    commit = commits(tmp_path, "run")[-1]
    assert commit.metrics["episode/calls/calculator"] > 0.2
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINTS / "tool")
    [rollout] = (tmp_path / "run" / "steps" / "000001").glob("rollout-rollout-*.parquet")
    rows = pd.read_parquet(rollout)
    called = rows[rows["turns"] > 1].iloc[0]
    sampled = np.asarray(called["sampled"], dtype=bool)
    heard = tokenizer.decode(np.asarray(called["token_ids"])[~sampled].tolist())
    assert heard.startswith("\n<|im_start|>tool\n")
    assert heard.endswith("<|im_end|>\n<|im_start|>assistant\n")
    assert "<tool_call>" in tokenizer.decode(np.asarray(called["token_ids"])[sampled].tolist())


@pytest.mark.slow
@pytest.mark.parametrize(("profile", "before", "after"), [("tiny-tool", 0.4, 0.75), ("tiny-game", 0.5, 0.55)])
def test_a_run_learns(tmp_path: Path, profile: str, before: float, after: float) -> None:
    ended = ares(tmp_path, "train", profile, "train.steps=40", "--run", "run")
    assert ended.returncode == 0, ended.stderr[-3000:]
    measured = [
        commit.metrics["val/accuracy"] for commit in commits(tmp_path, "run") if "val/accuracy" in commit.metrics
    ]
    assert 0.1 < measured[0] < before
    assert measured[-1] > after
