"""Shapes of published models: folders of random weights, FLOPs and predicted memory of an update.

FLOPs and memory are formulas of the shape alone, to compare measurements with.
"""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from algorithms.logprobs import CUDA_TILE
from benchmarks.models import TINY


@dataclass(frozen=True)
class Shape:
    """A Qwen2 decoder with a tied head."""

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int

    @property
    def head_size(self) -> int:
        """Dimension of one head."""
        return self.hidden // self.heads

    @property
    def layer_weights(self) -> int:
        """Weights of a layer's matrices."""
        attention = 2 * self.hidden * (self.heads + self.kv_heads) * self.head_size
        return attention + 3 * self.hidden * self.intermediate

    @property
    def parameters(self) -> int:
        """Parameters, norms and biases included."""
        small = 2 * self.hidden + (self.heads + 2 * self.kv_heads) * self.head_size
        return self.layers * (self.layer_weights + small) + self.hidden + self.vocabulary * self.hidden

    def update_flops(self, tokens: int, responses: int, lengths: Iterable[int]) -> float:
        """FLOPs of a forward and a backward pass without recomputation, as MFU counts them.

        tokens: in the packed sequences, a shared prompt once; responses: tokens that go through the head; lengths: of
        the rows, prompts included. Causal attention is half of all pairs.
        """
        matrices = 2.0 * self.layers * self.layer_weights * tokens
        head = 2.0 * self.hidden * self.vocabulary * responses
        attention = sum(2.0 * self.layers * self.heads * self.head_size * length**2 for length in lengths)
        return 3.0 * (matrices + head + attention)

    def update_gib(self, tokens: int, checkpointing: bool) -> float:
        """Predicted peak of an update in bfloat16, GiB; tokens: of one micro-batch.

        16 bytes a parameter (float32 weight, gradient and AdamW's two moments) and 2 for its bfloat16 copy; 18H + 8I +
        8Q + 4K bytes a token that a layer keeps for its backward pass (Q, K: total width of query and key heads), in
        every layer, or in one plus the float32 input of each; the head's gradients in both types; four tiles.
        """
        heads, kv_heads = self.heads * self.head_size, self.kv_heads * self.head_size
        layer = 18 * self.hidden + 8 * self.intermediate + 8 * heads + 4 * kv_heads
        kept = layer + 4 * self.hidden * self.layers if checkpointing else layer * self.layers
        head = 6 * self.vocabulary * self.hidden + 4 * 4 * CUDA_TILE[0] * min(CUDA_TILE[1], self.vocabulary)
        return (18 * self.parameters + kept * tokens + head) / 2**30


SHAPES = {
    "0.5B": Shape("0.5B", 896, 24, 14, 2, 4864, 151936),  # Qwen2.5-0.5B
    "1.5B": Shape("1.5B", 1536, 28, 12, 2, 8960, 151936),  # Qwen2.5-1.5B
}
TINY_SHAPE = Shape("tiny", 64, 2, 2, 1, 128, 512)
"""Stand-in for each of them with --tiny."""


def model_folder(parent: Path, shape: Shape, device: str) -> Path:
    """A folder with a model of this shape for from_pretrained; made once, on the device."""
    folder = parent / shape.name
    if folder.exists():
        return folder
    part = parent / f"{shape.name}-part"
    shutil.rmtree(part, ignore_errors=True)  # left by a measurement that was stopped
    shutil.copytree(TINY, part, ignore=shutil.ignore_patterns("*.jsonl", "*.safetensors", "config.json", "warm*"))
    config = Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=32768,
        tie_word_embeddings=True,
        eos_token_id=1,
        pad_token_id=0,
        bos_token_id=None,
    )
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(0)
        model = Qwen2ForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(part)
    return part.rename(folder)
