"""Small real objects for the tests of ares/ and tasks/: configurations, the tiny model, sampled rows."""

import copy
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from algorithms.keys import derive_seed
from algorithms.protocol import DataProto
from ares.config.profiles import load
from ares.config.run import Config, ModelConfig
from ares.engines.engine import Request
from ares.engines.transformers import TransformersEngine
from ares.learner.learner import Learner
from ares.step.collate import graded, token_batch
from ares.step.rewards import rewarded
from ares.step.shaping import shape
from ares.step.state import RunState

REPOSITORY = Path(__file__).resolve().parents[2]
MODEL = REPOSITORY / "examples" / "tiny" / "checkpoints" / "math"
PAD, END = 0, 1

torch.set_num_threads(1)


def config(*overrides: str) -> Config:
    """tiny-math with sixty problems, eight response tokens, two prompts of four samples a step, and the overrides."""
    small = [
        f"model.path={MODEL}",
        f"data.train={MODEL / 'train.jsonl'}",
        "data.limit=60",
        f"data.validation={MODEL / 'heldout.jsonl'}",
        "rollout.n=4",
        "rollout.prompts=2",
        "rollout.max_response_length=8",
        "learner.global_batch_prompts=2",
        "learner.warmup_steps=0",
    ]
    return load("tiny-math", [*small, *overrides])


@functools.cache
def tokenizer() -> PreTrainedTokenizerBase:
    """The tiny model's tokenizer; not to be changed."""
    return AutoTokenizer.from_pretrained(MODEL)


def with_template(template: str | None) -> PreTrainedTokenizerBase:
    """A copy of the tokenizer with another chat template."""
    own = copy.deepcopy(tokenizer())
    own.chat_template = template
    return own


def engine() -> TransformersEngine:
    """The reference engine with the tiny checkpoint's weights."""
    found = TransformersEngine(ModelConfig(path=str(MODEL)), "cpu", {END}, PAD, tokenizer())
    found.load_weights(0, dict(found.model.from_pretrained(MODEL, dtype=torch.float32).named_parameters()))
    return found


def requests(count: int, seed: int = 0) -> list[Request]:
    """Requests whose prompts differ in length."""
    questions = ["1+2=?", "15-5 is what?", "What is 12+6?", "(3+4)*2-1=?", "7", "What is 2 plus 3 plus 4 plus 5?"]
    texts = [
        tokenizer().apply_chat_template(
            [{"role": "user", "content": questions[i % len(questions)]}], tokenize=False, add_generation_prompt=True
        )
        for i in range(count)
    ]
    ids = tokenizer()(texts, add_special_tokens=False)["input_ids"]
    return [Request(prompt, derive_seed(seed, "test", i)) for i, prompt in enumerate(ids)]


def rows(
    accuracies: list[list[float | None]], lengths: list[list[int]] | None = None, seed: int = 0, **columns: list[Any]
) -> pd.DataFrame:
    """Sampled rows of one group per list of accuracies, random tokens; responses of 8 tokens are truncated."""
    rng = np.random.default_rng(seed)
    table = []
    for slot, group in enumerate(accuracies):
        prompt = rng.integers(3, 300, 3 + 2 * slot).tolist()
        for sample, accuracy in enumerate(group):
            length = lengths[slot][sample] if lengths else 3 + (slot + 2 * sample) % 5
            table.append(
                {
                    "id": f"p{slot}",
                    "slot": slot,
                    "sample": sample,
                    "prompt_token_ids": prompt,
                    "token_ids": rng.integers(3, 300, length),
                    "log_probs": -rng.random(length).astype(np.float32),
                    "finish_reason": "length" if length == 8 else "stop",
                    "tokens": length,
                    "answer": "1",
                    "accuracy": accuracy,
                    "format": 0.0,
                }
            )
    return pd.DataFrame(table).assign(**columns)


def to_batch(sampled: pd.DataFrame, pad_id: int) -> DataProto:
    """Graded rows (prompt_token_ids, token_ids, log_probs, accuracy, …) as a batch; a reward is the accuracy."""
    return graded(token_batch(sampled, pad_id), rewarded(sampled, unchanged(), None))


@functools.cache
def unchanged() -> Config:
    """The configuration without overrides; not to be changed."""
    return config()


def experienced(learner: Learner, sampled: pd.DataFrame) -> DataProto:
    """A batch of the rows with the learner's experience; the engine's log-probs are the learner's own."""
    batch = to_batch(sampled, PAD)
    batch = batch.union(learner.experience(batch))
    batch.batch["engine_log_probs"] = batch.tensor("old_log_probs").clone()
    return batch


def shaped(learner: Learner, sampled: pd.DataFrame) -> DataProto:
    """The same, shaped from a fresh state: what `Learner.update` takes."""
    batch = experienced(learner, sampled)
    shape(batch, RunState.initial(learner.config, 100), learner.config)
    return batch


def handmade(entropies: list[list[float]], accuracies: list[list[float | None]], **tensors: torch.Tensor) -> DataProto:
    """A batch with these token entropies (one list a row), as a learner measures them; log-probs are equal."""
    sampled = rows(accuracies, lengths=_grouped([len(row) for row in entropies], accuracies))
    batch = to_batch(sampled, PAD)
    width = batch.tensor("responses").shape[1]
    filled = torch.zeros(len(entropies), width)
    for row, values in enumerate(entropies):
        filled[row, : len(values)] = torch.tensor(values)
    log_probs = -0.5 * batch.tensor("response_mask").float()
    fields = {"entropies": filled, "old_log_probs": log_probs, "ref_log_probs": log_probs.clone(),
              "engine_log_probs": log_probs.clone()} | tensors  # fmt: skip
    for name, values in fields.items():
        batch.batch[name] = values
    return batch


def _grouped(values: list[int], groups: list[list[float | None]]) -> list[list[int]]:
    found, start = [], 0
    for group in groups:
        found.append(values[start : start + len(group)])
        start += len(group)
    return found
