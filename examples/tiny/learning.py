"""Supervised warm starts: AdamW on the losses of fresh batches, of turns, of masked canvases, of pictures.

Everything runs on one thread and draws from generators of its own: the same seed is bit-identical on the same machine.
Not covered: reinforcement (ares' loop), more than one device.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import Qwen2ForCausalLM, Qwen2Tokenizer, Qwen2VLForConditionalGeneration

from algorithms.denoising import completion_logits
from ares.config import DataConfig, ModelConfig
from ares.data import MARK, content_hash, in_parts
from ares.engines import left_padded
from ares.models import VisionLanguageModel
from ares.step import token_batch
from examples.tiny import one_liners, pictures
from examples.tiny.masked_model import MaskedModel
from examples.tiny.models import IMAGE_PAD
from examples.tiny.programs import Conversation

BATCH = 64
COLUMNS = ["prompt_token_ids", "token_ids", "log_probs", "slot", "sample", "media_references"]
Rate = Callable[[int], float]
"""The learning rate of a step."""
Loss = Callable[[], Tensor]
"""The loss of a fresh batch."""
Progress = Callable[[], None]
"""Called after every step."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread: faster at these sizes, and results depend on the number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def learn(model: nn.Module, steps: int, rate: Rate, loss: Loss, progress: Progress) -> None:
    """Take steps of AdamW down the losses of fresh batches."""
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.01)
    model.train()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        value = loss()
        optimizer.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        progress()
    model.eval()


@dataclass(frozen=True)
class Lesson:
    """Steps on examples that err, or do not, at a rate that falls at the end."""

    steps: int
    rate: float
    errs: bool


def teach(model: nn.Module, lessons: Sequence[Lesson], loss: Callable[[bool], Tensor], progress: Progress) -> None:
    """Lessons one after the other. `loss` is that of a fresh batch of examples that err, or do not."""
    for lesson in lessons:
        learn(model, lesson.steps, plateau(lesson.steps, lesson.rate), partial(loss, lesson.errs), progress)


def cosine(steps: int, highest: float = 5e-3, warmup: int = 20, last: float = 0.05) -> Rate:
    """A short warm-up and a cosine down to a twentieth."""

    def rate(step: int) -> float:
        fall = 0.5 * (1 + math.cos(math.pi * step / steps))
        return highest * (min(1.0, (step + 1) / warmup) * (last + (1 - last) * fall))

    return rate


def plateau(steps: int, highest: float, warmup: int = 50) -> Rate:
    """A short warm-up, a constant rate, a linear decay over the last quarter.

    Copying is learnt suddenly, after some hundred steps at the full rate; if the rate decays earlier, never.
    """
    return lambda step: highest * min(1.0, (step + 1) / warmup, 4 * (steps - step) / steps)


def encode_conversations(tokenizer: Qwen2Tokenizer, conversations: Sequence[Conversation]) -> list[list[int]]:
    """Token ids of conversations, ready for the next answer."""
    rendered = [
        tokenizer.apply_chat_template(conversation, add_generation_prompt=True, tokenize=False)
        for conversation in conversations
    ]
    return tokenizer(rendered, add_special_tokens=False)["input_ids"]


def ask(prompt: str) -> Conversation:
    """A prompt as the first turn."""
    return [{"role": "user", "content": prompt}]


def imitate_turns(
    model: Qwen2ForCausalLM,
    tokenizer: Qwen2Tokenizer,
    worked: Sequence[tuple[Conversation, str]],
    batch_size: int,
    rng: random.Random,
) -> Loss:
    """Cross-entropy of responses to conversations, which are drawn without replacement; prompts do not count."""
    prompts = encode_conversations(tokenizer, [conversation for conversation, _ in worked])
    responses = tokenizer([response + tokenizer.eos_token for _, response in worked])["input_ids"]
    turns = list(zip(prompts, responses, strict=True))
    queue: list[tuple[list[int], list[int]]] = []

    def loss() -> Tensor:
        if len(queue) < batch_size:
            queue[:] = rng.sample(turns, len(turns))
        chosen = [queue.pop() for _ in range(batch_size)]
        width = max(len(prompt) + len(response) for prompt, response in chosen)
        ids = torch.full((batch_size, width), tokenizer.pad_token_id)
        labels = torch.full((batch_size, width), -100)
        for row, (prompt, response) in enumerate(chosen):
            end = len(prompt) + len(response)
            ids[row, :end] = torch.tensor(prompt + response)
            labels[row, len(prompt) : end] = torch.tensor(response)
        # Padding stands on the right, where causal attention never looks: no mask is needed.
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
        return functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())

    return loss


def imitate_canvases(
    model: MaskedModel, tokenizer: Qwen2Tokenizer, problems: Sequence[one_liners.Problem], places: int, seed: int
) -> Callable[[bool], Tensor]:
    """Cross-entropy of the masked places of a canvas, the prompt in sight, of examples that err or do not.

    The mask ratio is U(0, 1) a row. Raises ValueError if a response and its end have more than `places` tokens.
    """
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    asked = encode_conversations(tokenizer, [ask(problem.prompt) for problem in problems])
    prompts = dict(zip(problems, asked, strict=True))

    @cache
    def canvas_of(text: str) -> list[int]:
        ids = tokenizer(text)["input_ids"]
        if len(ids) >= places:
            raise ValueError(f"{text!r} has {len(ids)} tokens: with its end it does not fit {places} places")
        return [*ids, *[tokenizer.eos_token_id] * (places - len(ids))]

    def loss(errs: bool) -> Tensor:
        chosen = rng.choices(problems, k=BATCH)
        texts = [
            one_liners.write_example(problem, rng) if errs else one_liners.respond(problem.solution)
            for problem in chosen
        ]
        canvas = torch.tensor([canvas_of(text) for text in texts])
        # Evenly spread ratios, so that every batch has easy and hard rows.
        ratio = (torch.rand((), generator=generator) + torch.arange(BATCH) / BATCH) % 1
        hidden = torch.rand(canvas.shape, generator=generator) < ratio[:, None]
        ids, seen = left_padded([prompts[problem] for problem in chosen], tokenizer.pad_token_id)
        ids = torch.cat([ids, canvas.masked_fill(hidden, tokenizer.mask_token_id)], 1)
        logits = completion_logits(model, ids, places, torch.cat([seen, torch.ones_like(canvas)], 1))
        return functional.cross_entropy(logits[hidden], canvas[hidden])

    return loss


def imitate_pictures(
    model: Qwen2VLForConditionalGeneration, tokenizer: Qwen2Tokenizer, folder: Path, drawn: Path, rng: random.Random
) -> Callable[[bool], Tensor]:
    """The loss (nats a token) of examples that err or do not, as the learner sees them; trains the vision tower too.

    folder: with the model's configuration and image processor; drawn: for the pictures.
    """
    trained = ModelConfig(path=str(folder), family="vision_language", train_vision=True)
    policy = VisionLanguageModel(model, trained, DataConfig(train=""))
    policy.packs = False  # rows are of nearly one length: side by side they would cost more

    @cache
    def encode(prompt: str) -> list[int]:
        """Token ids of a prompt, with a placeholder token per cell of the picture."""
        messages, _ = in_parts(ask(prompt))
        text = str(tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))
        text = text.replace(IMAGE_PAD, IMAGE_PAD * pictures.SIDE**2)
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    def loss(errs: bool) -> Tensor:
        rows: list[tuple[Any, ...]] = []
        for problem, response in pictures.draw_examples(rng, BATCH, errs):
            answer = tokenizer(response + tokenizer.eos_token)["input_ids"]
            picture, file = problem.picture, drawn / f"{problem.shown}-{problem.look}.png"
            file.write_bytes(picture)
            reference = f"{file}{MARK}{content_hash(picture)}"
            rows.append((encode(problem.prompt), answer, [0.0] * len(answer), len(rows), 0, [reference]))
        batch = policy.on_device(token_batch(pd.DataFrame(rows, columns=COLUMNS), tokenizer.pad_token_id))
        return -policy.token_log_probs(batch, temperature=1.0).log_probs.mean()

    return loss
