"""Learner against plain transformers, and engine against learner, for the families of docs/models.md.

Rows of up to 2,048 tokens with shared prompts, random weights of the published architectures. `make test` tries two
families, `make test-all` all. Refused models are in test_architecture.py.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from algorithms.keys import derive_seed
from ares.config.run import LoraConfig
from ares.engines.engine import Request, SamplingSettings
from ares.engines.transformers import TransformersEngine
from ares.models.causal import LanguageModel
from ares.models.lora import add_adapters, merged_weights, without_adapters
from ares.models.packing import share_rows
from ares.models.weights import persistent_buffers, stored_tensors
from tests.ares.models.families import CAUSAL, CPU, build, naive, random_rows, settings

ROWS: dict[str, Any] = {"prompts": [40, 500], "responses": [[100, 30], [300, 1548]]}
FAST = ("Mistral", "GLM-4-MoE")
EVERY = [
    pytest.param(name, marks=() if name in FAST else pytest.mark.slow)
    for name in CAUSAL
    if not name.startswith("Phi-MoE")  # refused
]
LORA = LoraConfig(rank=4, targets=("q_proj", "v_proj", "o_proj", "down_proj", "qkv_proj", "query_key_value", "dense"))
ROUNDING = 0.1
"""Bound on the mean |difference| of log-probs in bfloat16 (nats): attention is sharp; rounded angles make .2."""


def gradients(model: Any, log_probs: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    (log_probs * torch.linspace(-1, 1, len(log_probs))).mean().backward()
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


def assert_close(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name, gradient in expected.items():
        scale = float(gradient.abs().max())
        torch.testing.assert_close(actual[name], gradient, atol=1e-4 * scale + 1e-8, rtol=1e-3)


def plain(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@pytest.mark.parametrize("name", EVERY)
def test_log_probs_entropies_and_gradients_are_those_of_plain_transformers(name: str, tmp_path: Path) -> None:
    """Row by row in float32 against packed rows, with and without gradient checkpointing."""
    folder, batch = build(CAUSAL[name], tmp_path), random_rows(**ROWS)
    model = plain(folder)
    log_probs, entropies = naive(model, batch, 0.8)
    expected = gradients(model, log_probs)
    for checkpointing in (False, True):
        policy = LanguageModel.load(settings(folder, gradient_checkpointing=checkpointing), CPU)
        assert policy.packs
        tokens = policy.token_log_probs(batch, 0.8)
        torch.testing.assert_close(tokens.log_probs, log_probs, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(tokens.entropies, entropies, atol=1e-4, rtol=1e-4)
        assert_close(gradients(policy.model, tokens.log_probs), expected)


@pytest.mark.parametrize("name", EVERY)
def test_in_bfloat16_policy_and_reference_are_the_model_but_for_rounding(name: str, tmp_path: Path) -> None:
    folder, batch = build(CAUSAL[name], tmp_path), random_rows(**ROWS)
    policy = LanguageModel.load(settings(folder, dtype="bfloat16"), CPU)
    with torch.no_grad():
        expected, _ = naive(plain(folder), batch, 1.0)
        own = policy.token_log_probs(batch, 1.0).log_probs
        theirs = policy.frozen().token_log_probs(batch, 1.0).log_probs
    weights = list(policy.model.parameters())  # and no buffer: rounded rotary ones would make wrong angles
    matrices = (each for name, each in policy.model.named_parameters() if each.ndim > 1 and "embed" not in name)
    assert {each.dtype for each in matrices} == {torch.bfloat16}
    assert not any(each.requires_grad for each in weights)
    for actual in (own, theirs):
        assert float((actual - expected).abs().mean()) < ROUNDING
    assert float((own - theirs).abs().mean()) < ROUNDING


@pytest.mark.parametrize("name", EVERY)
def test_adapters_start_as_no_change_and_merged_they_are_the_plain_model(name: str, tmp_path: Path) -> None:
    folder, batch = build(CAUSAL[name], tmp_path), random_rows([30], [[90, 1900]])
    policy = LanguageModel.load(settings(folder, lora=LORA), CPU)
    add_adapters(policy.model, settings(folder, lora=LORA))
    model = plain(folder)
    with torch.no_grad():
        expected, _ = naive(model, batch, 1.0)
        torch.testing.assert_close(policy.token_log_probs(batch, 1.0).log_probs, expected, atol=1e-4, rtol=1e-4)
        for parameter_name, parameter in policy.model.named_parameters():
            if "lora_" in parameter_name:
                parameter.normal_(0, 0.05, generator=torch.Generator().manual_seed(0))
        reference = without_adapters(policy).token_log_probs(batch, 1.0).log_probs
        torch.testing.assert_close(reference, expected, atol=1e-4, rtol=1e-4)
        model.load_state_dict(dict(merged_weights(policy.model)), strict=False)
        moved, _ = naive(model, batch, 1.0)
        assert float((moved - expected).abs().mean()) > 0.01
        torch.testing.assert_close(policy.token_log_probs(batch, 1.0).log_probs, moved, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("name", EVERY)
def test_the_gradients_of_two_ranks_add_up_to_that_of_the_whole_batch(name: str, tmp_path: Path) -> None:
    def summed(part: Any) -> dict[str, Tensor]:
        policy.model.zero_grad()
        policy.token_log_probs(part, 1.0).log_probs.sum().backward()
        return {name: value.grad for name, value in policy.model.named_parameters() if value.grad is not None}

    policy = LanguageModel.load(settings(build(CAUSAL[name], tmp_path)), CPU)
    batch = random_rows([30, 400], [[90, 20, 1600], [1500, 10]])
    whole, first, second = (summed(batch[rows]) for rows in (slice(None), *share_rows(policy.row_sizes(batch), 2)))
    zero = {key: torch.zeros_like(value) for key, value in whole.items()}
    assert_close({key: first.get(key, zero[key]) + second.get(key, zero[key]) for key in whole}, whole)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", EVERY)
def test_the_engine_samples_with_the_learners_log_probs(name: str, dtype: str, tmp_path: Path) -> None:
    """Prompts of very different lengths, one beyond every window; weights are handed over as after a step."""
    folder = build(CAUSAL[name], tmp_path)
    policy = LanguageModel.load(settings(folder, dtype=dtype), CPU)
    engine = TransformersEngine(settings(folder, dtype=dtype), "cpu", {1}, 0)
    engine.load_weights(0, {key: value.detach() for key, value in stored_tensors(policy.model).items()})
    batch = random_rows([40, 700, 1900], [[120, 120], [120], [120]])
    shown = batch["attention_mask"][:, : batch["prompts"].shape[1]].bool()
    prompts = [row[seen].tolist() for row, seen in zip(batch["prompts"], shown, strict=True)]
    asked = [Request(prompt, derive_seed(0, name, row)) for row, prompt in enumerate(prompts)]
    answers = engine.generate(asked, SamplingSettings(1.0, 1.0, 120))
    batch["responses"].zero_()
    batch["response_mask"].zero_()
    for row, answer in enumerate(answers):
        batch["responses"][row, : len(answer.token_ids)] = torch.from_numpy(answer.token_ids).long()
        batch["response_mask"][row, : len(answer.token_ids)] = 1
    batch["attention_mask"][:, batch["prompts"].shape[1] :] = batch["response_mask"]
    with torch.no_grad():
        learner = policy.token_log_probs(batch, 1.0).log_probs
    sampled = torch.cat([torch.from_numpy(answer.log_probs) for answer in answers])
    difference = (learner - sampled).abs()
    if dtype == "float32":
        assert float(difference.max()) < 1e-3
    else:
        assert float(difference.mean()) < ROUNDING


def test_buffers_that_decide_reach_the_engine_and_computed_ones_do_not(tmp_path: Path) -> None:
    """GLM-4-MoE chooses experts by a persistent buffer."""
    policy = LanguageModel.load(settings(build(CAUSAL["GLM-4-MoE"], tmp_path)), CPU)
    ((name, bias),) = persistent_buffers(policy.model)
    assert name.endswith("e_score_correction_bias")
    weights = {key: value.detach() for key, value in stored_tensors(policy.model).items()}
    engine = TransformersEngine(settings(tmp_path), "cpu", {1}, 0)
    engine.load_weights(0, weights)
    torch.testing.assert_close(dict(engine.model.named_buffers())[name], bias)
    del weights[name]
    with pytest.raises(ValueError, match="e_score_correction_bias"):
        engine.load_weights(1, weights)
