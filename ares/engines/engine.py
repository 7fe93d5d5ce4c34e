"""What generates responses: one interface, one module per engine.

An engine knows the version of the weights it holds, and nothing of prompts, rewards or steps. The same requests in the
same call on the same thread count give the same tokens and log-probs, whatever was generated before.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PretrainedConfig, PreTrainedTokenizerBase

from ares.config import Config
from ares.models import ModelError


@dataclass(frozen=True)
class Request:
    """One response to sample."""

    prompt_token_ids: list[int]
    seed: int
    """Key of every draw of this response (algorithms.keys.derive_seed)."""
    media: tuple[str, ...] = ()
    """What the prompt shows, in its order (ares/data/media.py)."""
    stops: tuple[str, ...] = ()
    """Texts at which the response may end: what follows one is cut off whoever generates it."""
    begun: int = 0
    """Tokens at the end of the prompt that are the response's own, drawn by calls before: what is asked for goes on
    behind them, with other draws than theirs."""


@dataclass(frozen=True)
class SamplingSettings:
    """How responses are sampled."""

    temperature: float
    """0 takes the most probable token."""
    top_p: float
    max_tokens: int
    denoising_steps: int | None = None
    """Masked-diffusion models: passes, where not rollout.diffusion.steps."""


@dataclass(frozen=True)
class Completion:
    """One sampled response."""

    token_ids: np.ndarray
    """int32; the end-of-sequence token included when it was sampled."""
    log_probs: np.ndarray
    """float32: of the sampled tokens, at the sampling temperature, before top-p."""
    finish_reason: str
    """`stop` at an end-of-sequence token or stop string, `length` at the limit (truncated)."""
    entropies: np.ndarray | None = None
    """float32, masked-diffusion models: of the distributions the tokens were drawn from (nats)."""
    canvas: np.ndarray | None = None
    """int32, masked-diffusion models: all places, what stands after the end included."""


class Engine(ABC):
    """What every engine can do."""

    version: int | None
    """Of the weights held now; None before any were loaded."""

    @classmethod
    @abstractmethod
    def create(cls, settings: Any, config: Config, tokenizer: PreTrainedTokenizerBase) -> "Engine":
        """The engine of a run. settings: its own, where it has a class `Settings`, else config.rollout."""

    @abstractmethod
    def load_weights(self, version: int, weights: dict[str, torch.Tensor]) -> None:
        """Take over the weights of a policy version."""

    def sleep(self) -> None:  # noqa: B027 (most engines have nothing to give back)
        """Give back what the learner needs where the two share a GPU; `load_weights` wakes the engine."""

    @abstractmethod
    def stream(self, requests: list[Request], settings: SamplingSettings) -> Iterator[list[tuple[int, Completion]]]:
        """Sample one response per request; (index, response) in handfuls, as they finish."""

    def generate(self, requests: list[Request], settings: SamplingSettings) -> list[Completion]:
        """Sample one response per request, in order."""
        completions = dict(pair for some in self.stream(requests, settings) for pair in some)
        return [completions[index] for index in range(len(requests))]


def check_weights(expected: Mapping[str, torch.Size], given: Mapping[str, torch.Tensor]) -> None:
    """Raise ValueError naming a weight that is missing, unknown or of another shape than the engine's model has."""
    if expected.keys() != given.keys():
        raise ValueError(f"Weights do not fit the engine's model: {sorted(expected.keys() ^ given.keys())[:5]}")
    for name, shape in expected.items():
        if given[name].shape != shape:
            raise ValueError(f"Weight {name} is {list(given[name].shape)}, the engine's model has {list(shape)}")


def end_token_ids(model_path: str, tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """Every token at which a response ends: the tokenizer's and those of generation_config.json, or of config.json
    where that names none. Only what is written there counts: a configuration class has an end token of its own.
    Raises ModelError.
    """
    from transformers import GenerationConfig

    try:
        configured = GenerationConfig.from_pretrained(model_path).eos_token_id
    except OSError as error:
        if Path(model_path, "generation_config.json").is_file():
            raise ModelError(f"{model_path}: generation_config.json cannot be read: {error}") from error
        configured = None  # a model without one
    if configured is None:
        written, _ = PretrainedConfig.get_config_dict(model_path)
        configured = written.get("eos_token_id", written.get("text_config", {}).get("eos_token_id"))
    ends = {tokenizer.eos_token_id, *(configured if isinstance(configured, list) else [configured])}
    return {token for token in ends if token is not None}
