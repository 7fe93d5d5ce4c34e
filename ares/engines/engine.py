"""The interface of engines, and the base of those that run a transformers model in this process.

An engine knows the version of its weights, but nothing of data sets, rewards or steps. The same requests in the same
call on the same thread count give the same tokens and log-probs, whatever was sampled before.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import PretrainedConfig, PreTrainedTokenizerBase

from ares.config import Config
from ares.models import ModelError, stored_tensors

ALIGNED = 64
"""Bytes: torch takes memory at addresses that are multiples of this."""


@dataclass(frozen=True)
class Request:
    """One response to sample."""

    prompt_token_ids: list[int]
    seed: int
    """Seeds every draw of this response (algorithms.keys.derive_seed)."""
    media: tuple[str, ...] = ()
    """Images and videos of the prompt, in its order (ares/data/media.py)."""
    stops: tuple[str, ...] = ()
    """Stop strings: the response may end there, and the text after one is cut off in any case."""
    begun: int = 0
    """Tokens at the end of the prompt that belong to the response, sampled by earlier calls: it continues after them,
    with other draws than theirs."""


@dataclass(frozen=True)
class SamplingSettings:
    """How responses are sampled."""

    temperature: float
    """0 takes the most probable token."""
    top_p: float
    max_tokens: int
    denoising_steps: int | None = None
    """Masked-diffusion models: denoising steps, if not rollout.diffusion.steps."""


@dataclass(frozen=True)
class Completion:
    """One sampled response."""

    token_ids: np.ndarray
    """int32; includes the end-of-sequence token if one was sampled."""
    log_probs: np.ndarray
    """float32: of the sampled tokens, at the sampling temperature, before top-p."""
    finish_reason: str
    """`stop` at an end-of-sequence token or stop string, `length` at the limit (truncated)."""
    entropies: np.ndarray | None = None
    """float32, masked-diffusion models: of the distributions the tokens were drawn from (nats)."""
    canvas: np.ndarray | None = None
    """int32, masked-diffusion models: the whole canvas, including what follows the end."""
    passes: int | None = None
    """Masked-diffusion models: passes until the canvas was full."""


class Engine(ABC):
    """What every engine implements."""

    version: int | None = None
    """Policy version of the current weights; None before any were loaded."""
    borrows = False
    """Whether weights that are given stay as they are until others are: then an engine need not copy them."""

    @classmethod
    @abstractmethod
    def create(cls, settings: Any, config: Config, tokenizer: PreTrainedTokenizerBase) -> "Engine":
        """Make the engine of a run. settings: of its class `Settings`, if it has one, else config.rollout."""

    @abstractmethod
    def load_weights(self, version: int, weights: dict[str, Tensor]) -> None:
        """Take over the weights of a policy version."""

    def sleep(self) -> None:  # noqa: B027 (most engines have nothing to free)
        """Free memory for the learner where the two share a GPU; `load_weights` wakes the engine."""

    @abstractmethod
    def stream(self, requests: list[Request], settings: SamplingSettings) -> Iterator[list[tuple[int, Completion]]]:
        """Sample one response per request; yields lists of (index, response) as responses finish."""

    def generate(self, requests: list[Request], settings: SamplingSettings) -> list[Completion]:
        """Sample one response per request, in order."""
        completions = dict(pair for some in self.stream(requests, settings) for pair in some)
        return [completions[index] for index in range(len(requests))]


class ModelEngine(Engine):
    """An engine whose model is in this process."""

    model: nn.Module
    device: torch.device
    pad_id: int

    @torch.no_grad()
    def load_weights(self, version: int, weights: dict[str, Tensor]) -> None:
        """Take over the weights of a policy version. Raises ValueError when names or shapes do not fit."""
        own = stored_tensors(self.model)
        check_weights(own, weights)  # before anything is taken: a tensor's data may be replaced by data of any shape
        for name, tensor in own.items():
            given = weights[name]
            # At another address products with a single row have other bits.
            lies = self.borrows and given.data_ptr() % ALIGNED == 0
            tensor.data = given.to(tensor.device, tensor.dtype, copy=not lies)
        self.version = version

    def padded(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """`left_padded`, on the engine's device."""
        ids, mask = left_padded(prompts, self.pad_id)
        return ids.to(self.device), mask.to(self.device)


def check_weights(expected: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
    """Raise ValueError naming weights that are missing, unknown or of another shape than in the engine's model."""
    if expected.keys() != given.keys():
        raise ValueError(f"Weights do not fit the engine's model: {sorted(expected.keys() ^ given.keys())[:5]}")
    for name, own in expected.items():
        if given[name].shape != own.shape:
            raise ValueError(f"Weight {name} is {list(given[name].shape)}, the engine's model has {list(own.shape)}")


def view_as_tensors(weights: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Arrays as tensors, without a copy. Ray's arrays are read-only: so are these."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return {name: torch.from_numpy(array) for name, array in weights.items()}


def end_token_ids(model_path: str, tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """All tokens that end a response: the tokenizer's and those of generation_config.json, or of config.json where that
    names none. Only what the files say counts, since configuration classes have default end tokens. Raises ModelError.
    """
    from transformers import GenerationConfig

    try:
        configured = GenerationConfig.from_pretrained(model_path).eos_token_id
    except OSError as error:
        if Path(model_path, "generation_config.json").is_file():
            raise ModelError(f"{model_path}: generation_config.json cannot be read: {error}") from error
        configured = None  # there is no such file
    if configured is None:
        written, _ = PretrainedConfig.get_config_dict(model_path)
        of_both = (settings.get("eos_token_id") for settings in (written, written.get("text_config") or {}))
        configured = next((ids for ids in of_both if ids is not None), None)
    ends = {tokenizer.eos_token_id, *(configured if isinstance(configured, list) else [configured])}
    return {token for token in ends if token is not None}


def left_padded(prompts: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Token ids, left-padded to the longest prompt, and their attention mask: int64 [B, P] each."""
    pad = partial(pad_sequence, batch_first=True, padding_side="left")
    rows = [torch.tensor(prompt, dtype=torch.long) for prompt in prompts]
    return pad(rows, padding_value=pad_id), pad([torch.ones_like(row) for row in rows])


def device_of(config: Config) -> str:
    """The device of such a model."""
    return "cuda" if torch.cuda.is_available() and config.learner.device != "cpu" else "cpu"


def padding_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """The token that prompts are padded with; masked, so any will do where the tokenizer has none."""
    return int(tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0)
