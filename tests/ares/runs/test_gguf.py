"""GGUF files become model directories that answer alike; a run that is given one names the command."""

import importlib
import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from ares.config.strict import ConfigError
from ares.data import load_tokenizer
from ares.models.architecture import ModelError, check_architecture
from ares.runs.model_files import import_gguf
from tests.ares.builders import config

reads_gguf = pytest.mark.skipif(importlib.util.find_spec("gguf") is None, reason="needs gguf: pip install '.[real]'")
WORDS = ["<unk>", "<s>", "</s>", *map(chr, range(33, 127)), "Ġ", "Ċ", "ab"]
TEMPLATE = "{% for m in messages %}<s>{{ m['content'] }}</s>{% endfor %}{% if add_generation_prompt %}<s>{% endif %}"
LAYER = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
FIELDS = {
    "block_count": 2, "context_length": 64, "embedding_length": 64, "feed_forward_length": 96, "head_count": 1,
    "head_count_kv": 1, "rope_dimension_count": 64, "layer_norm_rms_eps": 1e-6, "vocab_size": len(WORDS),
    "tokenizer_model": "gpt2", "tokenizer_pre": "default", "token_list": WORDS, "token_merges": ["a b"],
    "token_types": [3] * 3 + [1] * (len(WORDS) - 3), "bos_token_id": 1, "eos_token_id": 2, "chat_template": TEMPLATE,
}  # fmt: skip
SIZE = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 1}


def tiny_gguf(file: Path) -> LlamaForCausalLM:
    """Write a Llama of random weights, its matrices in Q8_0, as llama.cpp does; returns the model."""
    gguf = importlib.import_module("gguf")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(LlamaConfig(vocab_size=len(WORDS), max_position_embeddings=64, **SIZE))
    writer = gguf.GGUFWriter(file, "llama")
    for field, value in FIELDS.items():
        getattr(writer, f"add_{field}")(value)
    held = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    named = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    named |= {f"blk.{n}.{ours}": f"model.layers.{n}.{theirs}" for n in range(2) for ours, theirs in LAYER.items()}
    for ours, theirs in named.items():
        values = held[f"{theirs}.weight"]
        if ours.endswith(("attn_q", "attn_k")):  # llama.cpp turns them for its rotary embedding
            values = values.reshape(1, 2, 32, 64).swapaxes(1, 2).reshape(64, 64)
        kind = gguf.GGMLQuantizationType.Q8_0 if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(f"{ours}.weight", gguf.quants.quantize(np.ascontiguousarray(values), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


@reads_gguf
def test_a_gguf_file_becomes_a_directory_with_its_weights_tokenizer_template_and_end_token(tmp_path: Path) -> None:
    model = tiny_gguf(tmp_path / "tiny.gguf")
    import_gguf(tmp_path / "tiny.gguf", tmp_path / "out")
    read = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert (read.dtype, read.config.eos_token_id) == (torch.float32, 2)
    assert getattr(read.config, "quantization_config", None) is None
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(read.state_dict()[name], tensor, atol=2e-3, rtol=0)
    words = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert (words.chat_template, words.eos_token) == (TEMPLATE, "</s>")
    check_architecture(config(f"model.path={tmp_path / 'out'}"))
    with pytest.raises(Exception, match="is not empty"):
        import_gguf(tmp_path / "tiny.gguf", tmp_path / "out")


@reads_gguf
def test_what_is_no_gguf_file_is_said_in_a_line_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + bytes(20))
    for name, told in (("broken.gguf", "not a GGUF file that transformers can read"), ("no.gguf", "no such file")):
        with pytest.raises(ModelError, match=told) as caught:
            import_gguf(tmp_path / name, tmp_path / "out")
        assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["broken.gguf"]


@pytest.mark.parametrize("given", ["folder", "folder/tiny.gguf"])
def test_a_run_that_is_given_a_gguf_file_or_its_folder_names_the_command(given: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "tiny.gguf").write_bytes(b"GGUF")
    told = r"model.path=.*: a GGUF file; `ares import .*/folder/tiny.gguf --out DIR` makes a model directory of it$"
    with pytest.raises(ModelError, match=told):
        check_architecture(config(f"model.path={tmp_path / given}"))
    with pytest.raises(ConfigError, match=told):
        load_tokenizer(str(tmp_path / given))
