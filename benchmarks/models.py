"""Models of random weights for benchmarks, with the tiny checkpoint's tokenizer and chat template beside them."""

import shutil
from pathlib import Path

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

TINY = Path(__file__).resolve().parents[1] / "examples" / "tiny" / "checkpoints" / "math"


def random_qwen(
    folder: Path, hidden: int = 256, layers: int = 4, positions: int = 1024, end_logit: float = 0.0
) -> Path:
    """A Qwen2 of random weights (3.5 million at the default size) in a folder that from_pretrained reads.

    `end_logit`: the end token's approximate logit everywhere (the others' are about 0): −30 never ends a response,
    2 ends it at one token in 40, so that lengths are geometric.
    """
    shutil.copytree(TINY, folder, ignore=shutil.ignore_patterns("*.jsonl", "*.safetensors", "config.json", "warm*"))
    config = Qwen2Config.from_pretrained(TINY)
    config.hidden_size, config.intermediate_size, config.num_hidden_layers = hidden, 3 * hidden, layers
    config.num_attention_heads = config.num_key_value_heads = hidden // 64
    config.layer_types = ["full_attention"] * layers
    config.max_position_embeddings = positions
    config.tie_word_embeddings = False
    config.initializer_range = 0.02
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        model = Qwen2ForCausalLM(config)
        # One dimension of the residual stream is a constant, and only the end token's logit reads it.
        model.model.embed_tokens.weight[:, 0] = 1.0
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight[0] = layer.mlp.down_proj.weight[0] = 0.0
        head = model.lm_head.weight
        head[:, 0] = 0.0
        ids = torch.arange(64)[None]
        constant = float(model.model(ids).last_hidden_state[..., 0].mean())
        head[config.eos_token_id] = 0.0
        head[config.eos_token_id, 0] = end_logit / constant
        model.save_pretrained(folder)
    return folder
