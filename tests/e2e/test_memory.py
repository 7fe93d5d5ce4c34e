"""No process of a run grows: neither over hundreds of steps nor with rows of ever new shapes."""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.shared_run import REPOSITORY, as_a_user

pytestmark = pytest.mark.slow
FLAT = 1.03
"""By how much memory may grow after the first steps."""
UPDATES = """
import json, sys
import flows.environment
import numpy as np, psutil
from tests.ares.builders import config, rows, shaped
from ares.learner import Learner
settings = ["algorithm.kl.placement=none", "learner.micro_batch_tokens=1024"]
learner = Learner(config(f"model.path={sys.argv[1]}", *settings))
rng, held = np.random.default_rng(0), []
for step in range(20):
    lengths = rng.integers(9, 90, (2, 8)).tolist()
    learner.update(shaped(learner, rows([[0, 1] * 4] * 2, lengths, seed=step)))
    held.append(psutil.Process().memory_full_info().uss)
print(json.dumps(held))
"""


def test_the_private_memory_of_every_process_is_flat_over_300_steps(tmp_path: Path) -> None:
    environment = os.environ | as_a_user(tmp_path / "runs") | {"PREFECT_HOME": str(tmp_path / "prefect")}
    command = [str(Path(sys.executable).with_name("ares")), "train", "tiny-math", "train.steps=300", "--run", "long"]
    samples: dict[tuple[int, str], list[tuple[int, int]]] = {}
    with (tmp_path / "output").open("w") as output:
        run = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=output, stderr=output)
    try:
        while run.poll() is None:
            steps = len(list((tmp_path / "runs" / "long" / "steps").glob("*/COMMIT.json")))
            for process in [psutil.Process(run.pid), *psutil.Process(run.pid).children(recursive=True)]:
                try:
                    name = f"{process.pid} {' '.join(process.cmdline())[:80]}"
                    samples.setdefault((process.pid, name), []).append((steps, process.memory_full_info().uss))
                except psutil.Error:  # it ended meanwhile
                    continue
            time.sleep(1)
    finally:
        run.kill()
    assert run.returncode == 0, (tmp_path / "output").read_text()
    grown, compared = [], 0
    for (_, name), of_process in samples.items():
        first = [held for steps, held in of_process if 50 <= steps < 80]
        last = [held for steps, held in of_process if steps >= 270]
        if first and last:
            compared += 1
            before, after = statistics.median(first), statistics.median(last)
            if after > FLAT * before:
                grown.append(f"{name}: {before / 2**20:.0f} → {after / 2**20:.0f} MiB")
    assert compared >= 3, "the driver, a learner and an engine"
    assert grown == []


def test_a_learner_with_a_published_models_vocabulary_keeps_its_memory(tmp_path: Path) -> None:
    """SmolLM2-135M's shape with three layers; packed rows have another shape in each update. It held .9 to 2.6 GB."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaForCausalLM(
            LlamaConfig(
                vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=3, num_attention_heads=9,
                num_key_value_heads=3, tie_word_embeddings=True,
            )
        ).save_pretrained(tmp_path)  # fmt: skip
    command = [sys.executable, "-c", UPDATES, str(tmp_path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    environment["GLIBC_TUNABLES"] = subprocess.check_output(
        [sys.executable, "-c", "import flows.environment as e; print(e.DEFAULTS['GLIBC_TUNABLES'])"], text=True
    ).strip()
    ended = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    held = json.loads(ended.stdout.splitlines()[-1])
    assert max(held[10:]) <= FLAT * statistics.median(held[8:11])
