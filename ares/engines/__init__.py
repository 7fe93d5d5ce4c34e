"""What generates responses: one interface, one module per engine.

An engine knows the version of the weights it holds, and nothing of prompts, rewards or steps. The same requests in the
same call on the same thread count give the same tokens and log-probs, whatever was generated before.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Request:
    """One response to sample."""

    prompt_token_ids: list[int]
    seed: int
    """Key of every draw of this response (ares.keys.derive_seed)."""


@dataclass(frozen=True)
class SamplingSettings:
    """How responses are sampled."""

    temperature: float
    """0 takes the most probable token."""
    top_p: float
    max_tokens: int


@dataclass(frozen=True)
class Completion:
    """One sampled response."""

    token_ids: np.ndarray
    """int32; the end-of-sequence token included when it was sampled."""
    log_probs: np.ndarray
    """float32: of the sampled tokens, at the sampling temperature, before top-p."""
    finish_reason: str
    """`stop` at an end-of-sequence token, `length` at the limit (truncated)."""


class Engine(ABC):
    """What every engine can do."""

    @abstractmethod
    def load_weights(self, version: int, weights: dict[str, torch.Tensor]) -> None:
        """Take over the weights of a policy version."""

    @abstractmethod
    def stream(self, requests: list[Request], settings: SamplingSettings) -> Iterator[list[tuple[int, Completion]]]:
        """Sample one response per request; (index, response) in handfuls, as they finish."""

    def generate(self, requests: list[Request], settings: SamplingSettings) -> list[Completion]:
        """Sample one response per request, in order."""
        found = dict(pair for some in self.stream(requests, settings) for pair in some)
        return [found[index] for index in range(len(requests))]
