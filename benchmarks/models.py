"""Models of random weights for benchmarks, with the tiny checkpoint's tokenizer and chat template beside them."""

import shutil
from pathlib import Path

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

TINY = Path(__file__).resolve().parents[1] / "ares" / "tiny" / "checkpoints" / "math"


def random_qwen(folder: Path, hidden: int = 256, layers: int = 4, positions: int = 1024) -> Path:
    """A Qwen2 of random weights (3.5 million at the default size) in a folder that from_pretrained reads."""
    shutil.copytree(TINY, folder, ignore=shutil.ignore_patterns("*.jsonl", "*.safetensors", "config.json", "warm*"))
    config = Qwen2Config.from_pretrained(TINY)
    config.hidden_size, config.intermediate_size, config.num_hidden_layers = hidden, 3 * hidden, layers
    config.num_attention_heads = config.num_key_value_heads = hidden // 64
    config.layer_types = ["full_attention"] * layers
    config.max_position_embeddings = positions
    with torch.random.fork_rng():
        torch.manual_seed(0)
        Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder
