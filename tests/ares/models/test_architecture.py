"""Windows, ropes and caps in a configuration are honoured, or refused by name before anything is sampled."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

import ares.models.architecture as architecture
from ares.models import checked_model
from ares.models.architecture import ModelError, check_architecture
from ares.models.causal import Critic, LanguageModel
from ares.runs.run import Run
from tests.ares.builders import MODEL, config
from tests.ares.models.families import CAUSAL, CPU, Family, build, naive, random_rows, settings

GEMMA_2 = Family("gemma2", {"query_pre_attn_scalar": 16, "sliding_window": 64})


@pytest.mark.parametrize("name", ["Qwen2-MoE with a window", "Phi-MoE with a window", "Qwen2 with a window"])
def test_a_window_counts_in_a_line_wherever_the_model_keeps_it(name: str, tmp_path: Path) -> None:
    folder = build(CAUSAL[name], tmp_path)
    policy = LanguageModel.load(settings(folder), CPU)
    assert policy.packs
    batch = random_rows([30, 100], [[90, 20], [150, 10]])
    with torch.no_grad():
        plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        expected, _ = naive(plain, batch, 1.0)
        torch.testing.assert_close(policy.token_log_probs(batch, 1.0).log_probs, expected, atol=1e-4, rtol=1e-4)
    assert policy.model.config.sliding_window == 64  # restored after the trial


def test_a_window_that_attention_is_not_told_of_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.models.packed_attention.window_of", lambda module: None)
    assert not LanguageModel.load(settings(build(CAUSAL["Phi-MoE with a window"], tmp_path)), CPU).packs


@pytest.mark.parametrize(
    ("caps", "named"),
    [
        ({}, "final_logit_softcapping=30.0"),
        ({"final_logit_softcapping": None}, "attn_logit_softcapping=50.0"),
        ({"final_logit_softcapping": 1e4, "attn_logit_softcapping": None}, "final_logit_softcapping=10000"),
    ],
)
def test_a_soft_cap_is_refused_by_name(caps: dict[str, float | None], named: str, tmp_path: Path) -> None:
    folder = build(GEMMA_2, tmp_path, **caps)
    for load in (LanguageModel.load, Critic):
        with pytest.raises(ModelError, match=f"gemma2 caps its logits .{named}"):
            load(settings(folder), CPU)


def test_a_cap_that_no_setting_names_shows_in_large_logits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(architecture, "SOFTCAPS", ())
    with pytest.raises(ModelError, match="Gemma2ForCausalLM transforms its logits"):
        LanguageModel.load(settings(build(GEMMA_2, tmp_path)), CPU)


@pytest.mark.parametrize("name", ["Granite", "Cohere"])
def test_logits_of_an_unknown_scale_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build(CAUSAL[name], tmp_path)
    assert LanguageModel.load(settings(folder), CPU).logit_scale in (1 / 8, 1 / 4)
    monkeypatch.setattr(architecture, "SCALES", {})
    with pytest.raises(ModelError, match="ForCausalLM transforms its logits after the output head"):
        LanguageModel.load(settings(folder), CPU)


def test_without_caps_the_same_architecture_is_taken(tmp_path: Path) -> None:
    caps = {"final_logit_softcapping": None, "attn_logit_softcapping": None}
    assert LanguageModel.load(settings(build(GEMMA_2, tmp_path, **caps)), CPU).packs


@pytest.mark.parametrize(
    ("name", "kind"), [("Phi-3 with longrope", "longrope"), ("Llama with dynamic rope", "dynamic")]
)
def test_a_rope_of_the_longest_row_is_refused_beyond_its_window(name: str, kind: str, tmp_path: Path) -> None:
    model = f"model.path={build(CAUSAL[name], tmp_path / 'model')}"
    check_architecture(config(model, "data.max_prompt_length=1024", "rollout.max_response_length=1024"))
    beyond = config(model, "data.max_prompt_length=1025", "rollout.max_response_length=1024")
    with pytest.raises(ModelError, match=rf"beyond 2048 tokens .*{kind}.*come to 2049: stay within 2048"):
        check_architecture(beyond)
    with pytest.raises(ModelError, match="beyond 2048 tokens"):
        Run.check(beyond, "run", tmp_path)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("family", "settings"), [
    ("gpt2", {"n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4}),
    ("opt", {"max_position_embeddings": 64, "word_embed_proj_dim": 64, "ffn_dim": 128}),
])  # fmt: skip
def test_more_tokens_than_learned_positions_are_refused(family: str, settings: dict[str, Any], tmp_path: Path) -> None:
    """They ended the bootstrap, or a later step with a longer response, with an IndexError."""
    model = f"model.path={build(Family(family, settings | {'max_position_embeddings': 64}), tmp_path)}"
    checked_model(config(model, "data.max_prompt_length=32", "rollout.max_response_length=32"))
    with pytest.raises(ModelError, match=r"learned 64 positions, and .* come to 65: stay within 64"):
        checked_model(config(model, "data.max_prompt_length=32", "rollout.max_response_length=33"))


def test_a_router_that_draws_at_random_is_refused_before_anything_is_sampled(tmp_path: Path) -> None:
    model = f"model.path={build(CAUSAL['Phi-MoE with a window'], tmp_path / 'model')}"
    with pytest.raises(ModelError, match="phimoe trains with a router that draws its experts at random"):
        Run.check(config(model), "run", tmp_path)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_a_router_with_noise_is_refused_where_layers_work_as_in_training(noise: float, tmp_path: Path) -> None:
    mixtral = Family("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2, "router_jitter_noise": noise})
    model = f"model.path={build(mixtral, tmp_path)}"
    check_architecture(config(model))
    checkpointed = config(model, "model.gradient_checkpointing=true")
    if noise:
        with pytest.raises(ModelError, match=r"router adds noise \(router_jitter_noise=0.01\)"):
            check_architecture(checkpointed)
    else:
        check_architecture(checkpointed)


def test_a_model_that_cannot_recompute_activations_is_refused_where_that_is_asked_for(tmp_path: Path) -> None:
    """It ended in a traceback after the bootstrap."""
    model = f"model.path={build(Family('ctrl', {'n_embd': 64, 'n_layer': 1, 'n_head': 4, 'dff': 64}), tmp_path)}"
    checked_model(config(model))
    with pytest.raises(ModelError, match=r"CTRLLMHeadModel cannot .*: set model.gradient_checkpointing=false"):
        checked_model(config(model, "model.gradient_checkpointing=true"))


@pytest.mark.parametrize("name", ["GLM-4-MoE", "Qwen3-MoE", "Qwen2-MoE with a window"])
def test_experts_are_refused_with_vllm(name: str, tmp_path: Path) -> None:
    model = f"model.path={build(CAUSAL[name], tmp_path)}"
    checked_model(config(model))
    with pytest.raises(ModelError, match=r"is a mixture of experts.*use rollout.engine=transformers"):
        checked_model(config(model, "rollout.engine=vllm"))


MAMBA = Family("mamba", {"state_size": 4})
BART = {"d_model": 64, "decoder_layers": 1, "decoder_attention_heads": 4, "decoder_ffn_dim": 64, "encoder_layers": 1,
        "encoder_ffn_dim": 64}  # fmt: skip


@pytest.mark.parametrize(("family", "ignored"), [
    (MAMBA, "past_key_values and position_ids"), (Family("bart", BART), "position_ids"),
    (Family("bloom"), None), (Family("whisper", BART), None),
])  # fmt: skip
def test_a_model_that_ignores_the_cache_or_positions_is_not_sampled_with_it(
    family: Family, ignored: str | None, tmp_path: Path
) -> None:
    """`ares serve` drew each token from a model that had seen one token, or had its prompt shifted by padding."""
    model = f"model.path={build(family, tmp_path)}"
    checked_model(config(model, "rollout.engine=vllm"))
    if ignored is None:
        checked_model(config(model))
    else:
        with pytest.raises(ModelError, match=f"ForCausalLM ignores {ignored}, so that rollout.engine=transformers"):
            checked_model(config(model))


@pytest.mark.parametrize(("family", "settings"), [
    (CAUSAL["Qwen3-MoE"], ["algorithm=distill", "model.reference={}", "rollout.engine=vllm"]),
    (MAMBA, ["algorithm=sft", "model.path={}", "data.train={}/chats.jsonl", "data.validation=null"]),
])  # fmt: skip
def test_a_model_that_is_not_sampled_is_refused_for_nothing_that_only_sampling_needs(
    family: Family, settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares.runs.run.check_engine", lambda config: "vllm")
    folder = build(family, tmp_path)
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(MODEL / file, folder)
    (folder / "chats.jsonl").write_text(2 * '{"prompt": "1+1=", "answer": "2"}\n')
    Run.check(config(*(setting.format(folder) for setting in settings)), "run", tmp_path)


def test_an_ordinary_rope_has_no_such_bound() -> None:
    check_architecture(config(f"model.path={MODEL}", "rollout.max_response_length=100000"))
