"""Windows, ropes and caps in a configuration are honoured, or refused by name before anything is sampled."""

import shutil
from pathlib import Path

import pytest

import ares.models.architecture as architecture
from ares.models import checked_model
from ares.models.architecture import ModelError
from ares.models.causal import Critic, LanguageModel
from ares.runs.run import Run
from tests.ares.builders import MODEL, config
from tests.ares.models.families import CAUSAL, CPU, Family, build, settings

GEMMA_2 = Family("gemma2", {"query_pre_attn_scalar": 16, "sliding_window": 64})


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
    uncapped = build(GEMMA_2, tmp_path, final_logit_softcapping=None, attn_logit_softcapping=None)
    assert LanguageModel.load(settings(uncapped), CPU).packs


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


MAMBA = Family("mamba", {"state_size": 4})
BART = {"d_model": 64, "decoder_layers": 1, "decoder_attention_heads": 4, "decoder_ffn_dim": 64, "encoder_layers": 1,
        "encoder_ffn_dim": 64}  # fmt: skip
SMALL_GPT2 = {"n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4, "max_position_embeddings": 64}
SMALL_OPT = {"max_position_embeddings": 64, "word_embed_proj_dim": 64, "ffn_dim": 128}
OF_2048, OF_2049 = ([f"data.max_prompt_length={n}", "rollout.max_response_length=1024"] for n in (1024, 1025))
OF_64, OF_65 = (["data.max_prompt_length=32", f"rollout.max_response_length={n}"] for n in (32, 33))
VLLM = ["rollout.engine=vllm"]


@pytest.mark.parametrize(("family", "fine", "wrong", "told"), [
    (CAUSAL["Phi-3 with longrope"], OF_2048, OF_2049, "beyond 2048 tokens .*longrope.*come to 2049: stay within 2048"),
    (CAUSAL["Llama with dynamic rope"], OF_2048, OF_2049, "beyond 2048 tokens .*dynamic.*to 2049: stay within 2048"),
    # These ended the bootstrap, or a later step with a longer response, with an IndexError.
    (Family("gpt2", SMALL_GPT2), OF_64, OF_65, "learned 64 positions, and .* come to 65: stay within 64"),
    (Family("opt", SMALL_OPT), OF_64, OF_65, "learned 64 positions, and .* come to 65: stay within 64"),
    (CAUSAL["Phi-MoE with a window"], None, [], "phimoe trains with a router that draws its experts at random"),
    *((CAUSAL[name], [], VLLM, "is a mixture of experts.*use rollout.engine=transformers")
      for name in ("GLM-4-MoE", "Qwen3-MoE", "Qwen2-MoE with a window")),
    # `ares serve` drew each token from a model that had seen one token, or had its prompt shifted by padding.
    (MAMBA, VLLM, [], "ForCausalLM ignores past_key_values and position_ids, so that rollout.engine=transformers"),
    (Family("bart", BART), VLLM, [], "ForCausalLM ignores position_ids, so that rollout.engine=transformers"),
    (Family("bloom"), [], None, ""),
    (Family("whisper", BART), [], None, ""),
    (CAUSAL["Llama"], ["rollout.max_response_length=4000"], None, ""),  # an ordinary rope has no such bound
])  # fmt: skip
def test_what_would_be_computed_wrongly_is_refused_before_anything_is_sampled(
    family: Family, fine: list[str] | None, wrong: list[str] | None, told: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """fine, wrong: settings with which a model is taken, and refused; None: there are none."""
    monkeypatch.setattr("ares.runs.run.check_engine", lambda config: "vllm")
    model = f"model.path={build(family, tmp_path / 'model')}"
    if fine is not None:
        checked_model(config(model, *fine))
    if wrong is not None:
        with pytest.raises(ModelError, match=told):
            checked_model(config(model, *wrong))
        with pytest.raises(ModelError, match=told):
            Run.check(config(model, *wrong), "run", tmp_path)
        assert not (tmp_path / "run").exists()


def test_routers_add_no_noise_where_activations_are_recomputed(tmp_path: Path) -> None:
    mixtral = Family("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2, "router_jitter_noise": 0.01})
    policy = LanguageModel.load(settings(build(mixtral, tmp_path), gradient_checkpointing=True), CPU)
    assert policy.model.config.router_jitter_noise == 0


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
