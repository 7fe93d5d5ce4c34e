"""No run grows: neither over hundreds of steps nor with a published model's vocabulary and rows of ever new shapes."""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ares.builders import MODEL
from tests.shared_run import REPOSITORY, as_a_user

pytestmark = pytest.mark.slow
FLAT = 1.03
"""By how much memory may grow after the first steps."""
STEPS = """
import asyncio, gc, json
import flows.environment, psutil
from ares.models import return_free_memory
from ares.runs import Conductor
from flows.start import held, open_run
from flows.train import train
kept = []
def note():
    gc.collect()
    return_free_memory()  # freed pages that the C library keeps come and go by a tenth
    kept.append(psutil.Process().memory_full_info().uss)
# Without filtering: after 250 steps the policy solves nearly everything.
run = open_run("tiny-math", ["train.steps=300", "algorithm.filter.enabled=false"], "long")
with held(run, with_mlflow=False):
    asyncio.run(train(run, Conductor(), note))
print(json.dumps(kept))
"""
UPDATES = """
import json, sys
import flows.environment
import numpy as np, psutil
from tests.ares.builders import config, rows, shaped
from ares.learner import Learner
settings = ["algorithm.kl.placement=none", "learner.micro_batch_tokens=1024"]
learner = Learner(config(f"model.path={sys.argv[1]}", *settings))
rng, kept = np.random.default_rng(0), []
for step in range(int(sys.argv[2])):
    lengths = rng.integers(9, 90, (2, 8)).tolist()
    learner.update(shaped(learner, rows([[0, 1] * 4] * 2, lengths, seed=step)))
    kept.append(psutil.Process().memory_full_info().uss)
print(json.dumps(kept))
"""


def private_memory(program: str, folder: Path, *arguments: str) -> list[int]:
    """What a program prints of its private memory, with the allocator's settings of `ares`."""
    told = "import flows.environment as e; print(e.DEFAULTS['GLIBC_TUNABLES'])"
    tunables = subprocess.check_output([sys.executable, "-c", told], text=True, cwd=REPOSITORY).strip()
    environment = os.environ | as_a_user(folder / "runs") | {"OMP_NUM_THREADS": "1", "GLIBC_TUNABLES": tunables}
    command = [sys.executable, "-c", program, *arguments]
    ended = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    kept: list[int] = json.loads(ended.stdout.splitlines()[-1])
    return kept


def test_the_private_memory_of_a_run_is_flat_over_300_steps(tmp_path: Path) -> None:
    """Loop, learner, engine and graders in one process, after each commit: what Ray and Prefect keep is theirs."""
    kept = private_memory(STEPS, tmp_path)
    assert len(kept) == 301
    assert statistics.median(kept[-30:]) <= FLAT * statistics.median(kept[50:80]), [each >> 20 for each in kept[::25]]


def published_shape(folder: Path) -> Path:
    """A model of SmolLM2-135M's shape with three layers."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = {"vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 3}
    shape |= {"num_attention_heads": 9, "num_key_value_heads": 3}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaForCausalLM(LlamaConfig(**shape, tie_word_embeddings=True)).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(("is_published", "updates", "settled"), [(False, 150, 50), (True, 20, 10)])
def test_a_learners_memory_is_flat_over_shapes(is_published: bool, updates: int, settled: int, tmp_path: Path) -> None:
    """Caches by shape (oneDNN's, for products) made a learner of the published shape grow from .9 to 2.6 GB."""
    model = published_shape(tmp_path) if is_published else MODEL
    kept = private_memory(UPDATES, tmp_path, str(model), str(updates))
    assert len(kept) == updates
    assert max(kept[settled:]) <= FLAT * statistics.median(kept[settled - 2 : settled + 1])
