"""Learner and engine give the same results on a device as on a CPU in float32, up to rounding."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import algorithms.logprobs
from algorithms.logprobs import logprobs_and_entropy
from ares.config import DiffusionConfig, ModelConfig
from ares.engines import Request, SamplingSettings, TransformersEngine
from ares.engines.diffusion import DiffusionEngine
from ares.learner import Learner
from ares.step.collate import token_batch
from benchmarks.gpu.updates import naive
from tests.ares import masked_builders as masked
from tests.ares import vision_builders as vision
from tests.ares.builders import END, MODEL, PAD, requests, shaped, to_batch
from tests.ares.learner_builders import gradients, learner, mean_apart, sampled, weights

BFLOAT16 = "model.dtype=bfloat16"
PARTS = {
    "policy": [],
    "critic": ["algorithm.advantage.estimator=gae"],
    "reference": ["algorithm.kl={placement: loss, penalty: full}"],
    "adapters": ["model.lora={rank: 4, alpha: 8}"],
}
PARTS["together"] = [setting for settings in PARTS.values() for setting in settings]


def learns_on(device: str) -> str:
    return f"learner.device={'cpu' if device == 'cpu' else 'cuda'}"


def on(device: str, *overrides: str) -> Learner:
    """A learner that has its device to itself."""
    return learner(learns_on(device), "rollout.placement=split", *overrides)


@pytest.fixture
def _gradients_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an update, too."""
    monkeypatch.setattr(Learner, "_release_memory", lambda self: None)


def distance(one: list[Tensor], other: list[Tensor]) -> float:
    """Distance of two lists of tensors relative to the second's norm."""
    pairs = [(a.float().cpu(), b.float().cpu()) for a, b in zip(one, other, strict=True)]
    return float(sum((a - b).square().sum() for a, b in pairs) / sum(b.square().sum() for _, b in pairs)) ** 0.5


def engine(device: str, given: dict[str, Tensor], **settings: Any) -> TransformersEngine:
    made = TransformersEngine(ModelConfig(path=str(MODEL), **settings), device, {END}, PAD)
    made.load_weights(1, given)
    return made


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 3e-2)])
def test_log_probs_and_entropy_agree_with_a_plain_softmax(
    other_device: str, dtype: torch.dtype, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens, width, vocabulary = (1024, 896, 151936) if other_device == "cuda" else (48, 32, 1000)
    monkeypatch.setattr(algorithms.logprobs, "PLAIN_LIMIT", 0)
    monkeypatch.setattr(algorithms.logprobs, "CPU_TILE", (32, 256))
    generator = torch.Generator().manual_seed(0)
    hidden = (0.5 * torch.randn(tokens, width, generator=generator)).to(other_device, dtype).requires_grad_()
    weight = (0.1 * torch.randn(vocabulary, width, generator=generator)).to(other_device, dtype).requires_grad_()
    targets = torch.randint(0, vocabulary, (tokens,), generator=generator).to(other_device)
    results = {}
    for name, form, inputs in (
        ("tiled", logprobs_and_entropy, (hidden, weight)),
        ("plain", naive, (hidden.detach().float().requires_grad_(), weight.detach().float().requires_grad_())),
    ):
        log_probs, entropies = form(*inputs, targets)
        log_probs.mean().backward()
        results[name] = [log_probs.detach(), entropies.detach(), *(each.grad for each in inputs)]
    for tiled, plain in zip(results["tiled"], results["plain"], strict=True):
        assert distance([tiled], [plain]) < tolerance


@pytest.mark.usefixtures("_gradients_stay")
def test_an_update_in_bfloat16_has_the_gradients_of_float32_on_a_cpu(device: str) -> None:
    plain = on("cpu")
    batch = shaped(plain, sampled())
    other = on(device, BFLOAT16)
    before = weights(other)
    results = [each.update(batch) for each in (plain, other)]
    assert distance(gradients(other), gradients(plain)) < 0.1
    norms = [result.metrics["actor/grad_norm"] for result in results]
    assert norms[1] == pytest.approx(norms[0], rel=0.1)
    assert distance([*weights(other).values()], [*before.values()]) > 1e-4


@pytest.mark.parametrize("part", PARTS)
def test_updates_in_float32_are_those_of_a_cpu(other_device: str, part: str) -> None:
    plain, other = on("cpu", *PARTS[part]), on(other_device, *PARTS[part])
    before = weights(plain)
    for each in (plain, other):
        batch = shaped(each, sampled())
        each.update(batch)
        each.update(batch)
    moved = [weights(plain)[name] - tensor for name, tensor in before.items()]
    assert distance([weights(other)[name] - tensor for name, tensor in before.items()], moved) < 0.02


def test_a_masked_model_learns_and_samples_as_on_a_cpu(other_device: str) -> None:
    moved = []
    for where in ("cpu", other_device):
        of = Learner(masked.config("reward.kind=math", learns_on(where)))
        before = weights(of)
        of.update(masked.shaped(of))
        moved.append([weights(of)[name] - tensor for name, tensor in before.items()])
    assert distance(moved[1], moved[0]) < 0.02
    end, padding = masked.tokenizer().eos_token_id, masked.tokenizer().pad_token_id
    answers = {}
    for where in ("cpu", other_device):
        made = DiffusionEngine(of.config.model, DiffusionConfig(steps=1), where, {end}, padding)
        made.load_weights(1, before)
        answers[where] = made.generate(masked.requests(3), SamplingSettings(1.0, 1.0, masked.PLACES))
    for one, other in zip(answers["cpu"], answers[other_device], strict=True):
        if other_device != "cuda":  # another kernel's rounding may draw another token
            assert one.token_ids.tolist() == other.token_ids.tolist()
        assert np.allclose(one.entropies[:1], other.entropies[:1], atol=1e-3)


def test_pictures_are_answered_and_read_alike(device: str, tmp_path: Path) -> None:
    """Engine and learner agree on log-probs, and gradients reach the tower."""
    shown = vision.problems(
        tmp_path,
        {"prompt": "<image>How many dots?", "images": [vision.DOTS]},
        {"prompt": "How many dots?"},
        {"prompt": "<image>How many red dots?", "images": [vision.DOTS]},
    ).frame
    policy = vision.model(torch.device(device), train_vision=True)
    made = TransformersEngine(vision.settings(), device, set(), PAD, data=vision.data())
    made.load_weights(1, dict(policy.model.named_parameters()))
    media = [tuple(each) for each in shown["media_references"]]
    asked = [Request(ids, 7, pictures) for ids, pictures in zip(shown["prompt_token_ids"], media, strict=True)]
    answers = made.generate(asked, SamplingSettings(1.0, 1.0, 8))
    rows = shown[["prompt_token_ids", "media_references"]].assign(slot=range(len(shown)), sample=0)
    rows["token_ids"] = [answer.token_ids for answer in answers]
    rows["log_probs"] = [answer.log_probs for answer in answers]
    batch = token_batch(rows, PAD)
    own = policy.token_log_probs(policy.on_device(batch), 1.0).log_probs
    expected = batch.tensor("engine_log_probs")[batch.tensor("response_mask").bool()]
    assert torch.allclose(own.detach().cpu(), expected, atol=1e-3)
    own.sum().backward()
    tower = [each.grad for name, each in policy.model.named_parameters() if "visual" in name]
    assert any(gradient is not None and float(gradient.abs().sum()) > 0 for gradient in tower)


@pytest.mark.usefixtures("_gradients_stay")
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("bfloat16", 0.1)])
def test_packed_rows_have_the_gradients_of_padded_ones(device: str, dtype: str, tolerance: float) -> None:
    results = []
    for packs in (True, False):
        of = on(device, f"model.dtype={dtype}")
        assert of.policy.packs
        of.policy.packs = packs
        of.update(shaped(on("cpu"), sampled()))
        results.append(gradients(of))
    assert distance(*results) < tolerance


def test_the_engine_has_the_log_probs_of_the_learner(device: str) -> None:
    of = on(device, BFLOAT16)
    made = engine(device, of.weights(), dtype="bfloat16")
    asked = requests(6)
    rows = sampled().head(6).reset_index(drop=True)
    answers = made.generate(asked, SamplingSettings(1.0, 1.0, 8))
    rows["prompt_token_ids"] = [request.prompt_token_ids for request in asked]
    rows["token_ids"] = [answer.token_ids for answer in answers]
    rows["log_probs"] = [answer.log_probs for answer in answers]
    rows["finish_reason"] = [answer.finish_reason for answer in answers]
    batch = to_batch(rows, PAD)
    assert mean_apart(of.log_probs(batch, 1.0), batch) < 0.02


def test_new_weights_reach_an_engine(device: str) -> None:
    of = on(device)
    made = engine(device, of.weights())
    of.update(shaped(on("cpu"), sampled()))
    request, settings = [Request(requests(1)[0].prompt_token_ids, 7)], SamplingSettings(1.0, 1.0, 8)
    before = made.generate(request, settings)[0].log_probs
    given = of.weights()
    made.load_weights(2, given)
    own = dict(made.model.named_parameters())
    assert all(torch.equal(own[name].cpu(), each) for name, each in given.items())
    after = made.generate(request, settings)[0].log_probs
    assert len(after) != len(before) or (after != before).any()


def test_an_update_after_a_checkpoint_is_the_update_without_one(device: str, tmp_path: Path) -> None:
    of = on(device, "learner.offload_optimizer=true")
    batch = shaped(on("cpu"), sampled())
    of.update(batch)
    of.save(tmp_path)
    again = on(device)
    again.load(tmp_path)
    for each in (of, again):
        each.update(batch)
    assert distance([*weights(again).values()], [*weights(of).values()]) < 1e-6
