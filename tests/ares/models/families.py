"""Model families for tests: published architectures at a tiny size with random weights.

Covered: the table of families, directories for `from_pretrained`, batches of rows of any length, and plain
transformers' log-probs of such rows, one at a time. Not covered: the tests (test_families.py).
"""

import atexit
import functools
import json
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from ares.config.run import ModelConfig

VOCABULARY = 320
SIZE = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 4096,
    "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0, "tie_word_embeddings": False,
}  # fmt: skip
CPU = torch.device("cpu")

torch.set_num_threads(1)


@dataclass(frozen=True)
class Family:
    """A published architecture: transformers' model type, and settings that differ from SIZE."""

    model_type: str
    settings: dict[str, Any] = field(default_factory=dict)


WINDOW = 64
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}

CAUSAL: dict[str, Family] = {
    "Llama": Family("llama"),
    "Llama 3 rope": Family("llama", {"rope_parameters": {
        "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 512}}),
    "Qwen2": Family("qwen2", {"tie_word_embeddings": True}),
    "Qwen2 with a window": Family("qwen2", {
        "use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}),
    "Qwen2 with yarn": Family("qwen2", {"rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 512}}),
    "Qwen3": Family("qwen3"),
    "Mistral": Family("mistral", {"sliding_window": WINDOW}),
    "Gemma 3": Family("gemma3_text", {"sliding_window": WINDOW, "query_pre_attn_scalar": 16, "layer_types": [
        "sliding_attention", "full_attention"], "tie_word_embeddings": True}),
    "Phi": Family("phi", {"partial_rotary_factor": 0.5}),
    "Phi-3": Family("phi3", {"sliding_window": WINDOW}),
    "OLMo": Family("olmo"),
    "OLMo 2": Family("olmo2"),
    "OLMo 3": Family("olmo3", {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}),
    "GPT-NeoX": Family("gpt_neox", {"rotary_pct": 0.25}),
    "Granite": Family("granite", {
        "logits_scaling": 8.0, "embedding_multiplier": 3.0, "residual_multiplier": 0.5, "attention_multiplier": 0.2}),
    "Cohere": Family("cohere", {"logit_scale": 0.25, "tie_word_embeddings": True}),
    "Cohere 2": Family("cohere2", {
        "logit_scale": 0.25, "sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"],
        "tie_word_embeddings": True}),
    "Qwen2-MoE": Family("qwen2_moe", EXPERTS | {"shared_expert_intermediate_size": 64, "decoder_sparse_step": 1}),
    "Qwen3-MoE": Family("qwen3_moe", EXPERTS | {"decoder_sparse_step": 1}),
    "Qwen2-MoE with a window": Family("qwen2_moe", EXPERTS | {
        "shared_expert_intermediate_size": 64, "decoder_sparse_step": 1, "use_sliding_window": True,
        "sliding_window": WINDOW, "max_window_layers": 2}),
    "Phi-MoE with a window": Family("phimoe", {
        "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": WINDOW}),
    "Phi-3 with longrope": Family("phi3", {"original_max_position_embeddings": 2048, "rope_parameters": {
        "rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0 + 0.1 * i for i in range(8)],
        "long_factor": [2.0 + i for i in range(8)], "original_max_position_embeddings": 2048}}),
    "Llama with dynamic rope": Family("llama", {"max_position_embeddings": 2048, "rope_parameters": {
        "rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}}),
    "GLM-4-MoE": Family("glm4_moe", {
        "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1,
        "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1}),
    "DeepSeek-V3": Family("deepseek_v3", {
        "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1,
        "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "q_lora_rank": 32, "kv_lora_rank": 32,
        "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 16, "num_key_value_heads": 4}),
    "Mixtral": Family("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": WINDOW}),
    "OLMoE": Family("olmoe", {"num_experts": 4, "num_experts_per_tok": 2}),
}  # fmt: skip
"""Families that must agree with plain transformers on every row."""


def build(family: Family, folder: Path, **more: Any) -> Path:
    """Write a model of random weights, large enough for positions and neighbours to matter in every logit."""
    return shutil.copytree(_built(family.model_type, json.dumps(family.settings | more)), folder, dirs_exist_ok=True)


@functools.cache
def _built(model_type: str, settings: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="ares-family-"))
    atexit.register(shutil.rmtree, folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = AutoConfig.for_model(model_type, **SIZE | json.loads(settings))
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        with torch.no_grad():
            widen(model)
    model.save_pretrained(folder)
    return folder


SHARP = ("q_proj", "k_proj", "q_norm", "k_norm", "qkv_proj", "query_key_value")
"""Weights that are scaled up so that attention is sharp, and positions matter."""


def widen(model: Any) -> None:
    """Give matrices unit gain, make attention sharp, and move vectors and persistent buffers off their defaults."""
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1:
            parameter.normal_(0, parameter.shape[-1] ** -0.5)
        else:
            parameter.add_(0.1 * torch.randn(parameter.shape))
        if any(part in name for part in SHARP):
            parameter.mul_(2.0)
    stored = model.state_dict()
    for name, buffer in model.named_buffers():
        if name in stored:
            buffer.normal_(0, 0.2)


def settings(folder: Path, **more: Any) -> ModelConfig:
    return ModelConfig(path=str(folder), **more)


def random_rows(prompts: list[int], responses: list[list[int]], seed: int = 0) -> TensorDict:
    """Rows of random tokens: prompts of these lengths, each with responses of its list of lengths."""
    generator = torch.Generator().manual_seed(seed)
    drawn = functools.partial(torch.randint, 3, VOCABULARY, generator=generator)
    width, length = max(prompts), max(map(max, responses))
    columns: dict[str, list[Tensor]] = {"prompts": [], "responses": [], "attention_mask": [], "response_mask": []}
    for prompt_length, group in zip(prompts, responses, strict=True):
        prompt = drawn((prompt_length,))
        for response_length in group:
            pad, answered = width - prompt_length, torch.arange(length) < response_length
            columns["prompts"].append(torch.nn.functional.pad(prompt, (pad, 0)))
            columns["responses"].append(torch.where(answered, drawn((length,)), 0))
            columns["attention_mask"].append(torch.cat([torch.arange(width) >= pad, answered]).long())
            columns["response_mask"].append(answered.long())
    return TensorDict({name: torch.stack(values) for name, values in columns.items()}, [len(columns["prompts"])])


def distributions(model: Any, batch: TensorDict, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probs over the vocabulary [N, V] at each response token that counts, and the tokens [N]: from the model's own
    logits, one unpadded row at a time."""
    whole, tokens = [], []
    for row in range(len(batch)):
        prompt = int(batch["attention_mask"][row, : batch["prompts"].shape[1]].sum())
        ids = torch.cat([batch["prompts"][row], batch["responses"][row]])[batch["attention_mask"][row].bool()]
        counts = batch["response_mask"][row, : len(ids) - prompt].bool()
        logits = model(input_ids=ids[None], use_cache=False).logits[0, prompt - 1 : -1].float() / temperature
        whole.append(torch.log_softmax(logits, -1)[counts])
        tokens.append(ids[prompt:][counts])
    return torch.cat(whole), torch.cat(tokens)


def naive(model: Any, batch: TensorDict, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probs and entropies of the response tokens that count, from `distributions`."""
    whole, tokens = distributions(model, batch, temperature)
    return whole.gather(-1, tokens[:, None])[:, 0], -(whole.exp() * whole).sum(-1)
