"""The Ray actors: learner ranks and engines, each in a process of its own with its own thread count.

All their state can be rebuilt from the run directory (ares/workers/cluster.py).
"""

import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import ray
import torch
from transformers import AutoTokenizer

from algorithms.protocol import DataProto
from ares.config import ENGINES, Config
from ares.engines import Engine, Request, SamplingSettings
from ares.learner import Learner, Ranks, UpdateResult
from ares.store import Ref, RunStore, path_of


class LearnerActor:
    """A rank of the learner: every rank reads its batches from the run directory, the first one writes the results.

    run_directory: a path, or the URL that this machine has a copy of. writer: the process that holds the run.
    """

    def __init__(self, settings: dict[str, Any], run_directory: str, rank: int = 0, writer: str = "") -> None:
        self.config = Config.model_validate(settings)
        self.store = RunStore(path_of(run_directory))
        self.store.act_for(writer)
        self.rank = rank
        if self.config.learner.ranks == 1:
            self.join("")

    def address(self) -> str:
        """Host and free port at which the ranks can form their process group."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            return f"{ray.util.get_node_ip_address()}:{probe.getsockname()[1]}"

    def join(self, address: str) -> None:
        """Join the other ranks and load the model."""
        self.learner = Learner(self.config, Ranks.joined(self.rank, self.config.learner.ranks, address))

    def version(self) -> int:
        """Training steps that made the current weights."""
        return self.learner.version

    def experience(self, batch: Ref, target: str) -> Ref | None:
        """Write a batch to `target` with its log-probs, entropies and values added."""
        rows = DataProto.load(self.store.folder(batch))
        measured = self.learner.experience(rows)
        return None if self.rank else self.store.write_folder(target, rows.union(measured).save)

    def mismatch(self, rows: DataProto, temperature: float) -> dict[str, float]:
        """How far the policy's log-probs of sampled rows are from the engine's."""
        return self.learner.mismatch(rows, temperature)

    def update(self, batch: Ref, beta: dict[str, Any] | None) -> Iterator[int | UpdateResult]:
        """One training step: yields the number of each finished optimiser step, then the result."""
        yield from self.learner.updates(DataProto.load(self.store.folder(batch)), beta)

    def weights(self) -> dict[str, np.ndarray]:
        """The policy's weights, as arrays, which Ray hands over without a copy. Sharded, all ranks must call."""
        return {name: tensor.numpy() for name, tensor in self.learner.weights().items()}

    def weights_in_place(self) -> dict[str, torch.Tensor]:
        """The policy's weights on the learner's device: engines copy them before the learner continues."""
        weights = self.learner.weights_in_place()
        _wait_for_gpu()
        return weights

    def contribute(self) -> None:
        """Take part when the first rank gathers sharded weights."""
        if self.config.learner.sharded:
            self.learner.weights()

    def save(self, target: str) -> Ref | None:
        """Write a checkpoint; the other ranks only add their parts where weights are sharded."""
        if self.rank:
            self.learner.save(None)
            return None
        return self.store.write_folder(target, self.learner.save)

    def load(self, checkpoint: Ref) -> None:
        """Go back to a checkpoint."""
        self.learner.load(self.store.folder(checkpoint))


class EngineActor:
    """The engine as an actor."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.config = config = Config.model_validate(settings)
        torch.set_num_threads(config.rollout.threads)
        self.tokenizer = AutoTokenizer.from_pretrained(
            config.model.location, trust_remote_code=config.model.trust_remote_code
        )
        self.engine: Engine = ENGINES.make(config.rollout, config, self.tokenizer)

    def version(self) -> int | None:
        """Version of the current weights; None before any were loaded."""
        return self.engine.version

    def load_weights(self, version: int, weights: dict[str, np.ndarray | torch.Tensor]) -> None:
        """Load the weights of a policy version: arrays in main memory, or the learner's own tensors."""
        tensors = {
            name: given if isinstance(given, torch.Tensor) else torch.tensor(given) for name, given in weights.items()
        }
        self.engine.load_weights(version, tensors)
        _wait_for_gpu()  # the learner may change its own as soon as this returns

    def sleep(self) -> None:
        """Free memory for the learner where the two share a GPU."""
        self.engine.sleep()
        if torch.cuda.is_initialized() and self.config.rollout.placement == "colocate":
            torch.cuda.empty_cache()  # the learner could not use what torch keeps of freed memory

    def generate(self, requests: list[Request], settings: SamplingSettings) -> Iterator[pd.DataFrame]:
        """Sample; yields finished rows by request: token_ids, log_probs, finish_reason, the decoded response."""
        for finished in self.engine.stream(requests, settings):
            completions = [completion for _, completion in finished]
            texts = self.tokenizer.batch_decode(
                [completion.token_ids.tolist() for completion in completions], skip_special_tokens=True
            )
            columns = {
                "response": texts,
                "token_ids": [completion.token_ids for completion in completions],
                "log_probs": [completion.log_probs for completion in completions],
                "finish_reason": [completion.finish_reason for completion in completions],
            }
            if completions and completions[0].canvas is not None:  # a masked-diffusion engine's
                columns["token_entropies"] = [completion.entropies for completion in completions]
                columns["canvas"] = [completion.canvas for completion in completions]
            yield pd.DataFrame(columns, index=[index for index, _ in finished])


def _wait_for_gpu() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
