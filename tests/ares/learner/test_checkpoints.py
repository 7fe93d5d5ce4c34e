"""Checkpoints of a learner are read back as written; weights that are not finite are never written."""

import math
import shutil
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

from ares.config.profiles import load
from ares.learner import checkpoints
from ares.learner.learner import Learner
from tests.ares.builders import rows, shaped
from tests.ares.learner_builders import ACCURACIES, LENGTHS, equal, learner, sampled, save_in_parts, weights


@pytest.mark.parametrize("which", ["policy", "critic"])
def test_a_weight_that_is_not_finite_is_never_checkpointed(which: str, tmp_path: Path) -> None:
    trained = learner("algorithm.advantage.estimator=gae")
    model = trained.policy.model if which == "policy" else trained.critic
    assert model is not None
    next(model.parameters()).data[0, 0] = math.nan
    with pytest.raises(ValueError, match="is not finite"):
        trained.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_that_does_not_fit_is_never_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = learner()
    needed = 4 * sum(weight.numel() for weight in weights(trained).values())
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=needed - 1))
    with pytest.raises(OSError, match=f"it takes {needed:,} bytes"):
        trained.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


SETTINGS = {
    "grpo": ("learner.warmup_steps=3",),
    "gae": ("algorithm.advantage.estimator=gae", "learner.critic_lr=0.001"),
    "two steps": ("learner.global_batch_prompts=1", "algorithm.policy.epochs=2"),
    "bfloat16": ("model.dtype=bfloat16",),
    "average": ("learner.ema=0.9",),
    "adapters": ("model.lora={rank: 4}",),
    "8 bits": ("learner.optimizer=adamw_8bit",),
    "muon": ("learner.optimizer=muon", "learner.weight_decay=0.1", "learner.decay_vectors=false"),
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=list(SETTINGS))
def test_saved_loaded_and_continued_equals_continued(settings: tuple[str, ...], tmp_path: Path) -> None:
    """Bit for bit: weights, their average, optimiser and metrics."""
    if "learner.optimizer=adamw_8bit" in settings:
        pytest.importorskip("bitsandbytes")
    straight = learner(*settings)
    straight.update(shaped(straight, sampled()))
    straight.save(tmp_path)
    resumed = learner(*settings)
    resumed.update(shaped(resumed, rows([[1, 1, 0, 0], [0, 1, 0, 1]], seed=5)))  # must not matter
    resumed.load(tmp_path)
    assert resumed.version == straight.version == 1
    assert equal(weights(straight), weights(resumed))
    for seed in (1, 2):
        table = rows(ACCURACIES, LENGTHS, seed)
        batches = [shaped(each, table) for each in (straight, resumed)]
        results = [each.update(batch) for each, batch in zip((straight, resumed), batches, strict=True)]
        assert results[0] == results[1]
        assert equal(weights(straight), weights(resumed))
        assert equal(straight.average, resumed.average)


def test_a_checkpoint_before_the_first_update_is_the_model_itself(tmp_path: Path) -> None:
    fresh, other = learner(), learner()
    fresh.save(tmp_path)
    other.update(shaped(other, sampled()))
    other.load(tmp_path)
    assert other.version == other.optimizer_steps == 0
    batch = shaped(fresh, sampled())
    fresh.update(batch)
    other.update(batch)
    assert equal(weights(fresh), weights(other))


def test_a_tower_that_was_trained_stays_so_where_it_is_trained_no_more(tmp_path: Path) -> None:
    """A fork may set model.train_vision=false: its policy still has the tower that was trained."""
    trained = Learner(load("tiny-vision", ["model.train_vision=true"]))
    with torch.no_grad():
        for parameter in trained.policy.model.parameters():
            parameter.add_(0.01)
    trained.save(tmp_path)
    still = Learner(load("tiny-vision", ["model.train_vision=false"]))
    still.load(tmp_path)
    assert equal(weights(still), weights(trained))


def test_a_checkpoints_policy_is_named_as_transformers_names_it(tmp_path: Path) -> None:
    fresh = learner()
    fresh.save(tmp_path)
    assert load_file(tmp_path / "policy.safetensors").keys() == dict(fresh.policy.model.named_parameters()).keys()


def test_shards_that_ranks_of_an_earlier_version_wrote_are_read(tmp_path: Path) -> None:
    written = {"matrix": torch.randn(3, 2), "step/scale": torch.ones(())}
    target = HuggingFaceStorageWriter(str(tmp_path / "policy"), save_distributed=True)
    dcp.save(written, storage_writer=target, no_dist=True)
    assert equal(checkpoints.read(tmp_path, "policy"), written)


def test_a_checkpoint_in_parts_of_an_earlier_version_is_resumed(tmp_path: Path) -> None:
    straight, resumed = learner(), learner()
    straight.update(shaped(straight, sampled()))
    save_in_parts(straight, tmp_path)
    resumed.load(tmp_path)
    assert equal(weights(resumed), weights(straight))
    moments = [checkpoints.optimizer_tensors(each.optimizer, each.policy.model) for each in (resumed, straight)]
    assert equal(*moments)
