"""A tiny causal language model: its architecture, and learning to imitate examples.

Covers: a Qwen2 model from configuration and supervised training with a fixed number of steps. Both draw from a
generator of their own and leave torch's global one alone: the same seed is bit-identical on the same machine with
the same number of threads. Does not cover: reinforcement (ares' loop), LoRA, more than one device.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PretrainedConfig, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

M = TypeVar("M", bound=PreTrainedModel)
MAX_POSITIONS = 512
INITIALIZER_RANGE = 0.05
"""Larger than usual (0.02), because the matrices are so small."""

COPY_GAIN = 0.3

Progress = Callable[[int, int, float], None]
"""Called after every step with the step, the number of steps and the loss."""

Turn = tuple[list[int], list[int]]
"""Token ids of a prompt and of the response to imitate."""


@dataclass(frozen=True)
class FitSettings:
    """AdamW with a short warm-up and a cosine down to a twentieth."""

    steps: int = 1000
    batch_size: int = 64
    learning_rate: float = 5e-3
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.01
    warmup_steps: int = 20
    final_fraction: float = 0.05
    max_grad_norm: float = 1.0


def build_model(tokenizer: Qwen2Tokenizer, generator: torch.Generator) -> Qwen2ForCausalLM:
    """A freshly initialised model of about 120k parameters, float32, tied embeddings."""
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        intermediate_size=192,
        num_attention_heads=2,  # head_dim 32 is the smallest that vLLM's CPU attention takes
        num_key_value_heads=2,
        max_position_embeddings=MAX_POSITIONS,
        initializer_range=INITIALIZER_RANGE,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    return initialised(Qwen2ForCausalLM, config, generator)


def initialised(kind: Callable[[Any], M], config: PretrainedConfig, generator: torch.Generator) -> M:
    """A model of this class, its matrices drawn from a generator."""
    with torch.random.fork_rng(devices=[]):  # construction draws from the global generator, on the CPU only
        model = kind(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0.0, INITIALIZER_RANGE, generator=generator)
    return model


def copy_what_is_attended_to(model: PreTrainedModel, generator: torch.Generator) -> None:
    """Start with output·value = COPY_GAIN times the identity: with tied embeddings, attending to a token predicts it.

    The model then only has to learn where to look; from random matrices it learnt copying hundreds of steps later, or
    never.
    """
    with torch.no_grad():
        for layer in model.model.layers:
            attention = layer.self_attn
            size = attention.o_proj.weight.shape[0]
            rotation = torch.linalg.qr(torch.randn(size, size, generator=generator)).Q * COPY_GAIN**0.5
            attention.v_proj.weight.copy_(rotation)
            attention.o_proj.weight.copy_(rotation.T)


def fit(
    model: Qwen2ForCausalLM,
    turns: Sequence[Turn],
    settings: FitSettings,
    *,
    pad_token_id: int,
    rng: random.Random,
    progress: Progress | None = None,
) -> float:
    """Train on the responses (not the prompts), drawn without replacement. Returns the mean loss of the last steps."""
    optimizer = torch.optim.AdamW(
        model.parameters(), settings.learning_rate, betas=settings.betas, weight_decay=settings.weight_decay
    )
    model.train()
    queue: list[Turn] = []
    losses: list[float] = []
    for step in range(settings.steps):
        if len(queue) < settings.batch_size:
            queue = rng.sample(turns, len(turns))
        ids, labels = _collate([queue.pop() for _ in range(settings.batch_size)], pad_token_id)
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * _schedule(step, settings)
        # Padding stands on the right, where causal attention never looks: no mask is needed.
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
        loss = functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
        optimizer.step()
        losses.append(loss.item())
        if progress is not None:
            progress(step + 1, settings.steps, losses[-1])
    model.eval()
    last = losses[-20:]
    return sum(last) / len(last)


def _schedule(step: int, settings: FitSettings) -> float:
    cosine = 0.5 * (1 + math.cos(math.pi * step / settings.steps))
    warmup = min(1.0, (step + 1) / settings.warmup_steps)
    return warmup * (settings.final_fraction + (1 - settings.final_fraction) * cosine)


def _collate(turns: Sequence[Turn], pad_token_id: int) -> tuple[Tensor, Tensor]:
    width = max(len(prompt) + len(response) for prompt, response in turns)
    ids = torch.full((len(turns), width), pad_token_id)
    labels = torch.full((len(turns), width), -100)
    for row, (prompt, response) in enumerate(turns):
        end = len(prompt) + len(response)
        ids[row, :end] = torch.tensor(prompt + response)
        labels[row, len(prompt) : end] = torch.tensor(response)
    return ids, labels
