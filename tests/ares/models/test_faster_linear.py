"""On processors where oneDNN is faster, models compute through it: the same numbers but for rounding."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn
from transformers import Qwen2Config, Qwen2ForCausalLM

import algorithms.linear
import ares.models.faster_layers
from ares.models.faster_layers import FasterLinear, speed_up_linear

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")


@pytest.fixture
def model() -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        settings = Qwen2Config(
            vocab_size=128, hidden_size=64, intermediate_size=192, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=512, tie_word_embeddings=False,
        )  # fmt: skip
        return Qwen2ForCausalLM(settings).eval()


def prefer(monkeypatch: pytest.MonkeyPatch, onednn: bool) -> None:
    monkeypatch.setattr(algorithms.linear, "prefers_onednn", lambda: onednn)
    monkeypatch.setattr(ares.models.faster_layers, "prefers_onednn", lambda: onednn)


def test_logits_and_gradients_stay_the_same(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = torch.arange(2 * 400).view(2, 400) % 128
    plain = deepcopy(model)
    prefer(monkeypatch, True)
    speed_up_linear(model)
    results = []
    for each in (plain, model):
        logits = each(ids).logits
        logits.logsumexp(-1).mean().backward()
        results.append((logits, {name: weight.grad for name, weight in each.named_parameters()}))
    (expected, gradients), (made, own) = results
    torch.testing.assert_close(made, expected, atol=1e-5, rtol=1e-4)
    assert own.keys() == gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(own[name], gradient, atol=1e-6, rtol=1e-3, msg=name)
    assert "_Linear" in type(made.grad_fn).__name__, "the head did not go through oneDNN"


def test_layers_keep_their_parameters_and_what_they_are(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    prefer(monkeypatch, True)
    before = dict(model.named_parameters())
    speed_up_linear(model)
    assert all(weight is before[name] for name, weight in model.named_parameters())
    assert {type(layer) for layer in model.modules() if isinstance(layer, nn.Linear)} == {FasterLinear}


def test_other_processors_keep_torchs_layers(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    prefer(monkeypatch, False)
    speed_up_linear(model)
    assert {type(layer) for layer in model.modules() if isinstance(layer, nn.Linear)} == {nn.Linear}
