"""A masked-diffusion run through the real command line: sandbox verdicts, buckets from denoising entropies.

Not covered: its resume (tests/resume/test_kill_anywhere.py).
"""

import json
from functools import partial
from pathlib import Path

import pytest
from safetensors.torch import load_file

from ares.history import replay
from ares.store import RunStore
from tests import short_runs
from tests.ares.models.test_llada import CONFIG, directory, tensors

pytestmark = pytest.mark.slow
SHORTER = [
    "train.steps=2", "train.checkpoint_every=2", "learner.global_batch_prompts=4", "bootstrap.max_prompts=6",
    "algorithm.aepo.enabled=true", "algorithm.kl.reference_sync=1", "validation.few_steps=3",
]  # fmt: skip
train = partial(short_runs.train, profile="tiny-diffusion")


@pytest.fixture(scope="module")
def diffusion_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("diffusion")
    assert train(runs, "whole", *SHORTER) == 0
    return runs


def test_a_masked_diffusion_model_goes_through_the_same_steps(diffusion_runs: Path) -> None:
    store = RunStore(diffusion_runs / "whole")
    assert store.committed_steps() == [0, 1, 2]
    commit = store.read_commit(2)
    rows = short_runs.samples(diffusion_runs, "whole", 2)
    assert len(rows) == 16
    assert rows["accuracy"].between(0, 1).all()
    assert rows["reward_entropy_score"].notna().all()
    metrics = commit.metrics
    assert metrics["reward/format"] > 0.3  # warm-started: most responses are one fenced block
    assert metrics["actor/optimizer_steps"] == 4  # two steps of two iterations
    assert metrics["entropy/mean"] > 0
    assert 0 <= metrics["val/few_steps/accuracy"] <= 1
    assert metrics["rollout/denoising_passes"] == metrics["val/denoising_passes"] == 7
    assert len(store.read_rows(commit.artifacts["evaluation"])) == 16  # in as many passes as in training
    assert {name for name in metrics if name.startswith("bucket/")} >= {"bucket/hard/target", "bucket/hard/alpha"}


def test_an_update_is_made_again_under_the_masks_that_it_was_made_with(diffusion_runs: Path) -> None:
    with replay("whole", 2, ["learner.lr=8e-4"], diffusion_runs) as again:
        own, faster = again.updates()
        assert again.find_not_finite() is None
    kept = RunStore(diffusion_runs / "whole").read_commit(2).metrics
    assert own.metrics == {name: kept[name] for name in own.metrics}
    assert faster.moved > 1.5 * own.moved
    assert own.raised > own.lowered


def test_llada_is_trained_in_blocks_and_exported_in_its_own_layout(tmp_path: Path) -> None:
    model = directory(tmp_path / "llada", max_sequence_length=256)
    blocks = ("rollout.diffusion.block=7", "rollout.diffusion.steps=14", "rollout.diffusion.threshold=0.01")
    settings = (f"model.path={model}", "model.trust_remote_code=false", "model.mask_estimate=masked_prompt", *blocks)
    assert train(tmp_path, "llada-run", *SHORTER[:-1], *settings) == 0
    assert 1 < RunStore(tmp_path / "llada-run").read_commit(2).metrics["rollout/denoising_passes"] < 14
    assert short_runs.told(tmp_path, "export", "llada-run", "--out", str(tmp_path / "out")).returncode == 0
    written = load_file(tmp_path / "out" / "model.safetensors")
    assert written.keys() == tensors().keys()
    assert not any(written[name].equal(tensor) for name, tensor in tensors().items())
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert {name: config[name] for name in ("d_model", "rope_theta", "auto_map")} == {
        name: CONFIG[name] for name in ("d_model", "rope_theta", "auto_map")
    }
