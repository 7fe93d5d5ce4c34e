"""LLaDA in its published layout, against its decoder written out: logits, log-probs, samples, export."""

import functools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from algorithms.denoising import completion_logits
from ares.config.rollout import DiffusionConfig
from ares.engines.diffusion import DiffusionEngine
from ares.engines.engine import SamplingSettings
from ares.models.architecture import ModelError
from ares.models.masked_diffusion import MaskedLanguageModel
from ares.models.weights import check_weight_files
from tests.ares.masked_builders import requests, settings, tokenizer
from tests.ares.models.test_masked_diffusion import PLACES, batch

CPU = torch.device("cpu")
CONFIG = {
    # LLaDA-8B-Instruct's, but for the numbers
    "activation_type": "silu", "alibi": False, "alibi_bias_max": 8.0, "architectures": ["LLaDAModelLM"],
    "attention_dropout": 0.0, "attention_layer_norm": False, "attention_layer_norm_with_affine": True,
    "auto_map": {
        "AutoConfig": "configuration_llada.LLaDAConfig", "AutoModel": "modeling_llada.LLaDAModelLM",
        "AutoModelForCausalLM": "modeling_llada.LLaDAModelLM",
    },
    "bias_for_layer_norm": False, "block_group_size": 1, "block_type": "llama", "d_model": 32,
    "embedding_dropout": 0.0, "embedding_size": 384, "eos_token_id": 2, "flash_attention": False,
    "include_bias": False, "include_qkv_bias": False, "init_cutoff_factor": None, "init_device": "meta",
    "init_fn": "mitchell", "init_std": 0.02, "input_emb_norm": False, "layer_norm_type": "rms",
    "layer_norm_with_affine": True, "mask_token_id": 4, "max_sequence_length": 64, "mlp_hidden_size": 48,
    "mlp_ratio": 4, "model_type": "llada", "multi_query_attention": None, "n_heads": 4, "n_kv_heads": 2,
    "n_layers": 2, "pad_token_id": 2, "precision": "amp_bf16", "residual_dropout": 0.0, "rms_norm_eps": 1e-05,
    "rope": True, "rope_full_precision": True, "rope_theta": 500000.0, "scale_logits": False,
    "transformers_version": "4.46.3", "use_cache": False, "vocab_size": 384, "weight_tying": False,
}  # fmt: skip
SHAPES = {
    "attn_norm": (32,), "q_proj": (32, 32), "k_proj": (16, 32), "v_proj": (16, 32), "attn_out": (32, 32),
    "ff_norm": (32,), "ff_proj": (48, 32), "up_proj": (48, 32), "ff_out": (32, 48),
}  # fmt: skip


@functools.cache
def tensors() -> dict[str, Tensor]:
    """Random weights under the names of LLaDA's modeling_llada.py."""
    shapes = {"wte": (384, 32), "ln_f": (32,), "ff_out": (384, 32)}
    shapes |= {f"blocks.{layer}.{name}": shape for layer in range(2) for name, shape in SHAPES.items()}
    generator = torch.Generator().manual_seed(0)
    return {
        f"model.transformer.{name}.weight": torch.randn(shape, generator=generator) * 0.3 + (len(shape) == 1)
        for name, shape in shapes.items()
    }


def directory(folder: Path, **changed: Any) -> Path:
    """A checkpoint as it is published; the Python files beside it must not run."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | changed))
    save_file(tensors(), folder / "model.safetensors", metadata={"format": "pt"})
    for name in ("configuration_llada.py", "modeling_llada.py"):
        (folder / name).write_text("raise SystemExit('this file was run')")
    tokenizer().save_pretrained(folder)
    return folder


def naive_logits(ids: list[int]) -> Tensor:
    """LLaDA's decoder written out, one row in float64: state j gives the logits of token j, [N, V]."""

    def weight(name: str) -> Tensor:
        return tensors()[f"model.transformer.{name}.weight"].double()

    def norm(states: Tensor, name: str) -> Tensor:
        return states / (states.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * weight(name)

    def rotate(heads: Tensor) -> Tensor:
        """heads [H, N, 8]: pairs (i, i + 4) turned by position · theta^(−i/4)."""
        angles = torch.arange(len(ids))[:, None] * 500000.0 ** (-torch.arange(4).double() / 4)
        one, other = heads[..., :4], heads[..., 4:]
        return torch.cat(
            [one * angles.cos() - other * angles.sin(), other * angles.cos() + one * angles.sin()], -1
        )  # fmt: skip

    states = weight("wte")[ids]
    for layer in range(2):
        block = f"blocks.{layer}."
        normed = norm(states, block + "attn_norm")
        query, key, value = (
            (normed @ weight(block + name).T).view(len(ids), -1, 8).transpose(0, 1)
            for name in ("q_proj", "k_proj", "v_proj")
        )
        query, key = rotate(query), rotate(key).repeat_interleave(2, 0)
        seen = torch.softmax(query @ key.transpose(1, 2) / 8**0.5, -1) @ value.repeat_interleave(2, 0)
        states = states + seen.transpose(0, 1).flatten(1) @ weight(block + "attn_out").T
        normed = norm(states, block + "ff_norm")
        gate, up = normed @ weight(block + "ff_proj").T, normed @ weight(block + "up_proj").T
        states = states + (nn.functional.silu(gate) * up) @ weight(block + "ff_out").T
    return norm(states, "ln_f") @ weight("ff_out").T


def load(folder: Path, **others: Any) -> MaskedLanguageModel:
    return MaskedLanguageModel.load(settings(folder, trust_remote_code=False, **others), CPU)


@torch.no_grad()
def test_logits_are_those_of_the_decoder_written_out(tmp_path: Path) -> None:
    policy, ids = load(directory(tmp_path)), [7, 300, 4, 12, 4, 4, 25]
    logits = completion_logits(policy.model, torch.tensor([ids]), 4)[0]
    torch.testing.assert_close(logits, naive_logits(ids)[-4:].float(), atol=1e-4, rtol=1e-4)
    padded = torch.tensor([[2, 2, 2, *ids]])
    seen = (torch.arange(10) >= 3).long()[None]
    torch.testing.assert_close(completion_logits(policy.model, padded, 4, seen)[0], logits, atol=1e-4, rtol=1e-4)


def test_the_learner_estimates_log_probs_of_each_token_at_its_own_place(tmp_path: Path) -> None:
    policy, rows, expected = load(directory(tmp_path), mask_estimate="full"), batch(), []
    for row in range(len(rows)):
        width = rows.tensor("prompts").shape[1]
        prompt = rows.tensor("prompts")[row][rows.tensor("attention_mask")[row, :width].bool()].tolist()
        known = naive_logits([*prompt, *[policy.mask_id] * PLACES])[-PLACES:].log_softmax(-1)
        length = int(rows.tensor("response_mask")[row].sum())
        expected.append(known[torch.arange(length), rows.tensor("canvas")[row, :length]].float())
    estimated = policy.token_log_probs(rows.batch, 1.0)
    torch.testing.assert_close(estimated.log_probs, torch.cat(expected), atol=1e-4, rtol=1e-4)
    estimated.log_probs.sum().backward()
    assert all(parameter.grad is not None for parameter in policy.model.parameters())
    # The padding token is also the end token: it is trained as any other.
    assert policy.model.get_input_embeddings().padding_idx is None


def test_the_engine_samples_from_it(tmp_path: Path) -> None:
    folder = directory(tmp_path)
    engine = DiffusionEngine(settings(folder, trust_remote_code=False), DiffusionConfig(steps=1), "cpu", {2}, 2)
    engine.load_weights(1, dict(load(folder).model.named_parameters()))
    (request,) = requests(1)
    (answer,) = engine.generate([request], SamplingSettings(temperature=1.0, top_p=1.0, max_tokens=PLACES))
    known = naive_logits([*request.prompt_token_ids, *[4] * PLACES])[-PLACES:].log_softmax(-1)
    chosen = known[torch.arange(len(answer.token_ids)), torch.tensor(answer.token_ids).long()]
    torch.testing.assert_close(torch.tensor(answer.log_probs), chosen.float(), atol=1e-4, rtol=1e-4)


def test_it_is_written_as_it_was_read(tmp_path: Path) -> None:
    policy = load(directory(tmp_path / "published"))
    policy.model.save_pretrained(tmp_path / "exported")
    written = load_file(tmp_path / "exported" / "model.safetensors")
    assert written.keys() == tensors().keys()
    assert all(torch.equal(written[name], tensor) for name, tensor in tensors().items())
    config = json.loads((tmp_path / "exported" / "config.json").read_text())
    changed = {name: config.get(name) for name, value in CONFIG.items() if config.get(name) != value}
    assert changed.keys() <= {"transformers_version"}
    check_weight_files(settings(tmp_path / "exported", trust_remote_code=False))


@pytest.mark.parametrize("trusted", [False, True])
def test_the_python_files_beside_it_are_not_run(tmp_path: Path, trusted: bool) -> None:
    assert check_weight_files(settings(directory(tmp_path), trust_remote_code=trusted)).config.model_type == "llada"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"block_type": "sequential"}, "LLaDA with block_type=sequential is not supported, only block_type=llama"),
        ({"scale_logits": True}, "scale_logits=True"),
        ({"embedding_size": 512}, "embedding_size=512 is not supported, only embedding_size=384"),
        ({"attention_layer_norm": True}, "attention_layer_norm=True"),
    ],
)
def test_shapes_that_are_not_llamas_are_refused(tmp_path: Path, changed: dict[str, Any], told: str) -> None:
    with pytest.raises(ModelError, match=told):
        load(directory(tmp_path, **changed))
