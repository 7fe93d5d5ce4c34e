"""Learner and engine as services of a run: what each does when it is called, in whatever process it lives.

Not covered: which version they are asked for (ares/workers/workers.py), the processes (ares/cluster).
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch

from algorithms.protocol import DataProto
from ares.config import ENGINES, Config
from ares.data import load_tokenizer
from ares.engines import Engine, Request, SamplingSettings, response_texts, view_as_tensors
from ares.learner import Learner, Ranks, UpdateResult
from ares.models import naming_settings, stored_tensors
from ares.store import Ref, RunStore
from ares.workers.shared_weights import SharedWeights


class LearnerService:
    """A rank of the learner: every rank reads its batches from the run directory, the first one writes the results."""

    def __init__(self, config: Config, store: RunStore, ranks: Ranks = Ranks()) -> None:  # noqa: B008 (immutable)
        self.config = config
        self.store = store
        self.rank = ranks.rank
        self.learner = Learner(config, ranks)
        self.shared: SharedWeights | None = None
        """Where the weights lie, if engines can use them as they lie there."""
        apart = self.learner.device.type != "cpu" or self.learner.sharded or config.model.lora is not None
        if not apart and hasattr(os, "memfd_create"):  # which Linux has
            self.shared = SharedWeights.move(stored_tensors(self.learner.policy.model))

    def version(self) -> int:
        """Training steps that made the current weights."""
        return self.learner.version

    def notes(self) -> list[str]:
        """What a user should know of how the model is computed."""
        return self.learner.policy.notes

    def experience(self, batch: Ref, target: str) -> Ref | None:
        """Write what the policy measures of a batch (log-probs, entropies, values) to `target`."""
        with naming_settings("learner"):
            measured = self.learner.experience(DataProto.load(self.store.path(batch)))
        return None if self.rank else self.store.write_file(target, measured.save)

    def log_probs(self, rows: DataProto, temperature: float) -> torch.Tensor:
        """The policy's log-prob of each response token, [B, L]."""
        return self.learner.log_probs(rows, temperature)

    def update(self, batch: Ref, beta: dict[str, Any] | None) -> Iterator[int | UpdateResult]:
        """One training step: yields the number of each finished optimiser step, then the result."""
        with naming_settings("learner"):
            yield from self.learner.updates(DataProto.load(self.store.path(batch)), beta)

    def weights(self, averaged: bool = False) -> dict[str, np.ndarray]:
        """The policy's weights, or their average, as arrays in main memory. Sharded, all ranks must call."""
        return {name: tensor.numpy() for name, tensor in self.learner.weights(averaged).items()}

    def save(self, target: str) -> Ref | None:
        """Write a checkpoint; the other ranks only add their parts where weights are sharded."""
        if self.rank:
            self.learner.save(None)
            return None
        return self.store.write_folder(target, self.learner.save)

    def load(self, checkpoint: Ref) -> None:
        """Go back to a checkpoint."""
        self.learner.load(self.store.path(checkpoint))


class EngineService:
    """An engine with the tokenizer that decodes what it samples.

    borrows: weights stay as they are until others are loaded, so that an engine on a CPU may use them as they lie.
    """

    def __init__(self, config: Config, borrows: bool = False) -> None:
        self.config = config
        torch.set_num_threads(config.rollout.threads)
        self.tokenizer = load_tokenizer(config.model.path, config.model.trust_remote_code)
        self.engine: Engine = ENGINES.make(config.rollout, config, self.tokenizer)
        self.engine.borrows = borrows

    def version(self) -> int | None:
        """Version of the current weights; None before any were loaded."""
        return self.engine.version

    def load_weights(self, version: int, weights: Mapping[str, np.ndarray]) -> None:
        """Take over the weights of a policy version from main memory."""
        self.engine.load_weights(version, view_as_tensors(weights))

    def sleep(self) -> None:
        """Free memory for the learner where the two share a GPU."""
        self.engine.sleep()
        if torch.cuda.is_initialized() and self.config.rollout.placement == "colocate":
            torch.cuda.empty_cache()  # the learner could not use what torch keeps of freed memory

    def generate(self, requests: list[Request], settings: SamplingSettings) -> Iterator[pd.DataFrame]:
        """Sample; yields finished rows by request: token_ids, log_probs, finish_reason, the decoded response."""
        with naming_settings("engine"):
            for finished in self.engine.stream(requests, settings):
                completions = [completion for _, completion in finished]
                token_ids = [completion.token_ids for completion in completions]
                texts = response_texts(self.tokenizer, [ids.tolist() for ids in token_ids])
                columns = {
                    "response": texts,
                    "token_ids": token_ids,
                    "log_probs": [completion.log_probs for completion in completions],
                    "finish_reason": [completion.finish_reason for completion in completions],
                }
                if completions and completions[0].canvas is not None:  # a masked-diffusion engine's
                    columns["token_entropies"] = [completion.entropies for completion in completions]
                    columns["canvas"] = [completion.canvas for completion in completions]
                    columns["denoising_passes"] = [completion.passes for completion in completions]
                yield pd.DataFrame(columns, index=[index for index, _ in finished])
