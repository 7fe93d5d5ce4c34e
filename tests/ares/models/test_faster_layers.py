import sys
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import torch
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PhiConfig,
    PhiForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as rotated_in_llama

from ares.models.faster_layers import ROTATE, RMSNorm, Rotation, shorten_backward

SIZES = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0,
}  # fmt: skip
SHORTENED = {
    "Llama": (LlamaForCausalLM, LlamaConfig),
    "Qwen2": (Qwen2ForCausalLM, Qwen2Config),
    "Qwen3, with norms of queries and keys": (Qwen3ForCausalLM, Qwen3Config),
}
ROTATED_ONLY = {
    "Gemma 3, whose norms add one to their weights": (Gemma3ForCausalLM, Gemma3TextConfig),
    "Phi, which turns a part of each head": (PhiForCausalLM, PhiConfig),
}


@pytest.fixture(autouse=True)
def functions_of_transformers_come_back() -> Iterator[None]:
    kept = {name: getattr(module, ROTATE) for name, module in sys.modules.items() if _rotates(name, module)}
    for name, function in kept.items():
        while isinstance(function, partial):  # another test's
            function = function.args[0]
        setattr(sys.modules[name], ROTATE, function)
    yield
    for name, function in kept.items():
        setattr(sys.modules[name], ROTATE, function)


def _rotates(name: str, module: Any) -> bool:
    return name.startswith("transformers.models") and ROTATE in vars(module)


def random_model(kind: Any, settings: Any) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = kind(settings(**SIZES)).eval()
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.data.normal_()
    return model


def logits_and_gradients(model: Any, autocast: bool) -> list[torch.Tensor]:
    model.zero_grad()
    ids = torch.arange(18).view(2, 9) % 64
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        logits = model(input_ids=ids, use_cache=False).logits.float()
    (logits * torch.linspace(-1, 1, logits.numel()).view_as(logits)).sum().backward()
    return [logits.detach(), *(parameter.grad.clone() for parameter in model.parameters())]


def has_short_norms(model: Any) -> bool:
    norms = [module for module in model.modules() if type(module).__name__.endswith("RMSNorm")]
    short = [isinstance(norm.forward, partial) for norm in norms]
    assert len(set(short)) <= 1
    return any(short)


def has_short_rotation(model: Any) -> bool:
    return isinstance(getattr(sys.modules[type(model).__module__], ROTATE), partial)


@pytest.mark.parametrize("name", SHORTENED | ROTATED_ONLY)
def test_a_model_computes_what_it_did_and_has_the_gradients_it_had(name: str) -> None:
    model = random_model(*(SHORTENED | ROTATED_ONLY)[name])
    before = logits_and_gradients(model, False)
    shorten_backward(model)
    assert has_short_rotation(model)
    assert has_short_norms(model) == (name in SHORTENED)
    for actual, expected in zip(logits_and_gradients(model, False), before, strict=True):
        torch.testing.assert_close(actual, expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("name", SHORTENED)
def test_in_bfloat16_the_two_are_as_close_as_bfloat16_is(name: str) -> None:
    model = random_model(*SHORTENED[name])
    exact = logits_and_gradients(model, False)
    before = logits_and_gradients(model, True)
    shorten_backward(model)
    for actual, expected, of_float32 in zip(logits_and_gradients(model, True), before, exact, strict=True):
        rounding = float((expected - of_float32).abs().max())
        assert float((actual - of_float32).abs().max()) <= 1.5 * rounding


def test_neighbours_that_are_turned_and_norms_with_a_mean_stay_as_they_are() -> None:
    model = random_model(CohereForCausalLM, CohereConfig)
    before = logits_and_gradients(model, False)
    shorten_backward(model)
    assert not has_short_rotation(model)
    assert not has_short_norms(model)
    for actual, expected in zip(logits_and_gradients(model, False), before, strict=True):
        assert torch.equal(actual, expected)


@pytest.mark.parametrize(
    "other",
    [
        lambda x, cos, sin: x * cos,
        lambda x, cos, sin, positions: x * cos,
        lambda q, k, cos, sin: (q * cos, k * cos),
        lambda q, k, cos, sin: (q.flatten(1), k.flatten(1)),
        lambda q, k, cos, positions: (q[positions.long()], k),
        lambda q, k, cos, sin: tuple(x.type_as(q) for x in rotated_in_llama(q.float(), k.float(), cos, sin)),
    ],
)
def test_functions_of_the_same_name_that_do_something_else_stay(other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(*SHORTENED["Llama"])
    monkeypatch.setattr(sys.modules[type(model).__module__], ROTATE, other)
    shorten_backward(model)
    assert getattr(sys.modules[type(model).__module__], ROTATE) is other


def test_a_norm_gives_the_same_bits_and_leaves_a_frozen_weight_alone() -> None:
    norm = LlamaRMSNorm(16)
    x = torch.linspace(-2, 3, 64).view(1, 4, 16).requires_grad_()
    norm.weight.requires_grad_(False)
    expected = norm(x)
    shorten_backward(norm)
    output = norm(x)
    assert torch.equal(output, expected)
    output.sum().backward()
    assert x.grad is not None
    assert norm.weight.grad is None


def test_a_norm_in_another_type_is_transformers_own() -> None:
    norm = LlamaRMSNorm(16)
    x = torch.linspace(-2, 3, 64, dtype=torch.bfloat16).view(4, 16)
    expected = norm.to(torch.bfloat16)(x)
    norm.float()
    shorten_backward(norm)
    assert torch.equal(norm.to(torch.bfloat16)(x), expected)


def test_gradients_are_the_derivatives() -> None:
    numbers = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(*shape, dtype=torch.float64, generator=numbers) for shape in ((2, 3, 8), (8,)))
    cos, sin = torch.randn(2, 2, 3, 8, dtype=torch.float64, generator=numbers)
    assert torch.autograd.gradcheck(
        RMSNorm.apply, (x.requires_grad_(), weight.requires_grad_(), 1e-6), check_batched_grad=False
    )
    assert torch.autograd.gradcheck(Rotation.apply, (x, cos, sin))


def test_a_second_time_changes_nothing() -> None:
    model = random_model(*SHORTENED["Llama"])
    shorten_backward(model)
    first = [model.model.norm.forward, getattr(sys.modules[type(model).__module__], ROTATE)]
    shorten_backward(model)
    assert [model.model.norm.forward, getattr(sys.modules[type(model).__module__], ROTATE)] == first


def test_a_copy_of_a_model_has_norms_of_its_own() -> None:
    model = random_model(*SHORTENED["Llama"])
    shorten_backward(model)
    copied = deepcopy(model)
    copied.model.norm.weight.data.zero_()
    x = torch.ones(1, 32)
    assert float(copied.model.norm(x).abs().max()) == 0.0
    assert float(model.model.norm(x).abs().max()) > 0.0
