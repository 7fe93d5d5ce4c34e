"""Our half of the benchmark against TRL."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from benchmarks.models import random_qwen


@pytest.mark.slow
def test_our_half_trains_and_prints_a_mark_a_step(tmp_path: Path) -> None:
    model = random_qwen(tmp_path / "model", end_logit=2.05)
    few = ["rollout.prompts=2", "rollout.n=2", "learner.global_batch_prompts=2"]
    with tempfile.TemporaryDirectory() as folder:  # pytest's has a name too long for Ray's sockets
        ended = subprocess.run(
            [sys.executable, "-m", "benchmarks.trl_step", "ours", str(model), "skewed", "2", *few],
            env=os.environ | {"TMPDIR": folder}, capture_output=True, text=True,
        )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    *_, first, second = json.loads(ended.stdout.strip().splitlines()[-1])
    assert all(before < after for before, after in zip(first[:2], second[:2], strict=True))
    assert second[2] > 0
