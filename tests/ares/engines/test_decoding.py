"""Decoding rows that share prompts against transformers' own generate without a cache (log-probs: test_families.py)."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from ares.engines.engine import Request, SamplingSettings
from ares.engines.transformers import TransformersEngine
from ares.models.weights import stored_tensors
from tests.ares.models.families import CAUSAL, VOCABULARY, Family, build, settings

CARRYING = {
    "LFM2": Family("lfm2", {"layer_types": ["conv", "full_attention"]}),
    "Qwen3-Next": Family("qwen3_next", {
        "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 64,
        "layer_types": ["linear_attention", "full_attention"], "linear_num_value_heads": 4,
        "linear_num_key_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16}),
}  # fmt: skip
"""Families that carry a state along the sequence."""
STRAY = {"Llama with a Mistral's window": Family("llama", {"sliding_window": 16})}
"""transformers' cache drops keys that attention, which knows no such setting, is to see."""


@pytest.mark.parametrize("family", [
    *CARRYING, *STRAY, "Qwen2", "Llama", "Phi", "GLM-4-MoE", "Gemma 3", "Qwen2 with a window",
])  # fmt: skip
def test_greedy_answers_are_those_of_transformers_generate(family: str, tmp_path: Path) -> None:
    folder = build((CAUSAL | CARRYING | STRAY)[family], tmp_path)
    engine = TransformersEngine(settings(folder), "cpu", {1}, 0)
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    weights = plain.state_dict()
    engine.load_weights(0, {name: weights[name] for name in stored_tensors(engine.model)})
    drawn = np.random.default_rng(0).integers(3, VOCABULARY, (3, 73)).tolist()
    prompts = [tokens[dropped:] for dropped, tokens in enumerate(drawn)]  # of three lengths: two are padded
    asked = [Request(prompts[prompt], seed) for seed, prompt in enumerate([0, 1, 0, 2, 1, 1, 0])]
    for request, answer in zip(asked, engine.generate(asked, SamplingSettings(0.0, 1.0, 12)), strict=True):
        ids = torch.tensor([request.prompt_token_ids])
        with torch.no_grad():
            whole = plain.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=12,
                do_sample=False,
                use_cache=False,
                eos_token_id=1,
                pad_token_id=0,
            )
        assert answer.token_ids.tolist() == whole[0, ids.shape[1] :].tolist()
