"""A teacher behind an OpenAI-compatible URL (model.reference): the log-prob that it gives each sampled token.

    prompt + response ids ──▶ POST /v1/completions, prompt_logprobs: 0 ──▶ prompt_logprobs: [null, {id: {logprob}}, …]

The field is vLLM's; `ares serve` has it, too. The log-probs are at temperature 1. A vocabulary of the same size but
with other tokens cannot be noticed. Not covered: whole distributions, images.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from algorithms.protocol import DataProto
from ares.config import ModelConfig
from ares.errors import UserError
from ares.grading.openai_client import openai_client

AT_ONCE = 16
"""Requests at a time."""
TOGETHER = 8
"""Sequences in a request."""
TIMEOUT = 300.0
"""Seconds for an answer."""
NOTHING = -9999.0
"""How vLLM writes −∞."""


class TeacherError(UserError, RuntimeError):
    """The teacher is away, refuses, or answers something else than log-probs of the tokens that it was given."""


class Teacher:
    """Asks for log-probs. Use it as a context manager, which closes the connections."""

    def __init__(self, model: ModelConfig) -> None:
        """Raises ConfigError without the package openai."""
        self._client = openai_client("model.reference=http…", str(model.reference), TIMEOUT)
        self._name = str(model.reference_name)
        self._told = f"model.reference: {self._name} at {model.reference}"

    def __enter__(self) -> "Teacher":
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def measure(self, batch: DataProto) -> DataProto:
        """ref_log_probs [B, L] (nats), zero beyond the response_mask. Raises TeacherError."""
        prompts, mask = batch.tensor("prompts"), batch.tensor("response_mask")
        seen = batch.tensor("attention_mask").bool()
        ids = torch.cat([prompts, batch.tensor("responses")], 1)
        given = self.log_probs([row[kept].tolist() for row, kept in zip(ids, seen, strict=True)])
        spread = torch.zeros(mask.shape)
        for row, (values, asked) in enumerate(zip(given, seen[:, : prompts.shape[1]].sum(1).tolist(), strict=True)):
            of_response = torch.from_numpy(values[asked - 1 :])
            spread[row, : len(of_response)] = of_response
        return DataProto.from_dict({"ref_log_probs": spread * mask})

    def log_probs(self, sequences: list[list[int]]) -> list[np.ndarray]:
        """Of each sequence of T token ids the log-prob of all but the first, each after those before it: float32
        [T − 1]. Raises TeacherError."""
        asked = [sequences[begin : begin + TOGETHER] for begin in range(0, len(sequences), TOGETHER)]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            parts = list(threads.map(self._ask, asked))
        return [values for part in parts for values in part]

    def _ask(self, sequences: list[list[int]]) -> list[np.ndarray]:
        import openai

        try:
            answer = self._client.completions.create(
                model=self._name, prompt=sequences, max_tokens=1, temperature=0.0,
                extra_body={"prompt_logprobs": 0},
            )  # fmt: skip
            choices = sorted(answer.choices, key=lambda choice: choice.index)
            found = [(choice.model_extra or {})["prompt_logprobs"] for choice in choices]
            return [_read(ids, values) for ids, values in zip(sequences, found, strict=True)]
        except (openai.OpenAIError, ValueError, TypeError, KeyError, AttributeError) as error:
            why = error.__cause__ or error
            raise TeacherError(f"{self._told}: no log-probs as vLLM gives them: {why!r:.300}") from error


def _read(ids: list[int], found: list[Any]) -> np.ndarray:
    """Raises ValueError, TypeError or KeyError unless there is a finite number for each token but the first."""
    pairs = zip(ids[1:], found[1:], strict=True)
    values = np.array([float(entry[str(token)]["logprob"]) for token, entry in pairs], np.float32)
    if not np.isfinite(values).all() or (values <= NOTHING).any():
        raise ValueError(f"log-probs {values.tolist()}")
    return values
