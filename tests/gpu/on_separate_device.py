"""Tests on the separate device: mixed-up devices, and how often the program would wait for a GPU."""

from pathlib import Path
from typing import Any

import pytest
import torch

from ares.config import ModelConfig
from ares.engines import SamplingSettings, TransformersEngine
from ares.models import LanguageModel
from ares.step.collate import token_batch
from tests.ares import vision_builders as vision
from tests.ares.builders import MODEL, PAD, requests, rows, shaped
from tests.ares.learner_builders import gradients, sampled
from tests.gpu.separate_device import NAME, waits
from tests.gpu.test_device import on


@pytest.fixture(autouse=True)
def _from_zero() -> None:
    waits.clear()


def test_what_lies_in_main_memory_is_not_taken() -> None:
    here, there = torch.ones(3, device=NAME), torch.ones(3)
    with pytest.raises(RuntimeError, match=r"aten.add.Tensor is given tensors on separate and of shapes \[\(3,\)\]"):
        here + there
    with pytest.raises(TypeError, match="has no array"):
        here.numpy()
    assert (here + there.to(NAME)).device.type == NAME
    assert torch.equal((here + 1).cpu(), there + 1)


def test_waits_are_counted() -> None:
    here = torch.arange(4, device=NAME)
    assert (here + here).sum().device.type == NAME
    assert not waits
    assert (int(here.sum()), here[here > 1].tolist(), here.cpu()[0]) == (6, [2, 3], 0)
    assert sum(waits.values()) == 4


def test_a_token_waits_twice() -> None:
    """Once to count the rows that continue, and once in transformers, which looks for padding."""
    weights = on("cpu").weights()
    endless = TransformersEngine(ModelConfig(path=str(MODEL)), NAME, set(), PAD)
    endless.load_weights(1, weights)
    counts = []
    for tokens in (8, 16):
        waits.clear()
        endless.generate(requests(6), SamplingSettings(1.0, 1.0, tokens))
        counts.append(sum(waits.values()))
    assert counts[1] - counts[0] == 2 * 8


@pytest.mark.parametrize("method", ["update", "experience"])
def test_a_micro_batch_waits_as_often_whatever_its_rows(method: str) -> None:
    counts = []
    for copies in (1, 4):
        lengths = [[3, 8, 5, 6], [4, 7, 1, 6]] * copies
        accuracies: list[list[float | None]] = [[1, 0, 0, 1], [0, 0, 1, 0]] * copies
        prompts = 2 * copies
        of = on(NAME, f"rollout.prompts={prompts}", f"learner.global_batch_prompts={prompts}")
        batch = shaped(on("cpu"), rows(accuracies, lengths))
        waits.clear()
        getattr(of, method)(batch)
        counts.append(sum(waits.values()))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("placement", ["colocate", "split"])
def test_an_engine_on_the_same_device_gets_gradients_and_free_memory_back(placement: str) -> None:
    batch, shared = shaped(on("cpu"), sampled()), placement == "colocate"
    of = on(NAME, f"rollout.placement={placement}")
    for calls, work in enumerate((of.update, of.experience), 2):
        work(batch)
        assert waits["empty_cache"] == calls * shared
        assert bool(gradients(of)) != shared


def test_moments_that_were_offloaded_are_waited_for() -> None:
    """They are copied asynchronously into pinned memory: a checkpoint that read them too early would hold garbage."""
    counts = []
    for offloaded in (True, False):
        of, batch = on(NAME, f"learner.offload_optimizer={offloaded}"), shaped(on("cpu"), sampled())
        waits.clear()
        of.update(batch)
        counts.append(waits["synchronize"])
        assert all((state["exp_avg"].device.type == "cpu") == offloaded for state in of.optimizer.state.values())
    assert counts[0] > counts[1]


def test_offloaded_moments_of_a_checkpoint_do_not_wait_on_the_device(tmp_path: Path) -> None:
    """A run that resumes samples before its next update, and then the engine needs their place."""
    of = on(NAME, "learner.offload_optimizer=true")
    of.update(shaped(on("cpu"), sampled()))
    of.save(tmp_path)
    again = on(NAME, "learner.offload_optimizer=true", "rollout.placement=colocate")
    before = waits["empty_cache"]
    again.load(tmp_path)
    assert again.optimizer.state
    assert all(state["exp_avg"].device.type == "cpu" for state in again.optimizer.state.values())
    assert waits["empty_cache"] == before + 1


def test_nothing_is_waited_for_between_decoder_and_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    of, batch = on(NAME), shaped(on("cpu"), sampled())
    assert isinstance(of.policy, LanguageModel)
    decode, after = of.policy.decode, []

    def noted(*inputs: Any) -> torch.Tensor:
        hidden = decode(*inputs)
        after.append(sum(waits.values()))
        return hidden

    monkeypatch.setattr(of.policy, "decode", noted)
    of.policy.token_log_probs(of.policy.on_device(batch), 1.0)
    assert after == [sum(waits.values())]


@torch.no_grad()
def test_rows_with_pictures_wait_as_often_however_many_there_are(tmp_path: Path) -> None:
    policy = vision.model(torch.device(NAME))
    counts = []
    for copies in (1, 3):
        asked = [{"prompt": "<image>How many dots?", "images": [vision.DOTS]}, {"prompt": "How many?"}] * copies
        shown = vision.problems(tmp_path, *asked).frame
        answered = shown[["prompt_token_ids", "media_references"]].assign(slot=range(len(shown)), sample=0)
        answered["token_ids"], answered["log_probs"] = [[20, 21]] * len(shown), [[0.0, 0.0]] * len(shown)
        batch = token_batch(answered, PAD)
        waits.clear()
        policy.token_log_probs(policy.on_device(batch), 1.0)
        counts.append(sum(waits.values()))
    assert counts[0] == counts[1]
