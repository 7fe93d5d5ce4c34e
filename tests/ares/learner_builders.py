"""A learner of the tiny model, two groups of sampled rows, and comparisons of learners."""

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from algorithms.losses import importance_weights
from algorithms.protocol import DataProto
from ares.learner import checkpoints
from ares.learner.learner import Learner, UpdateResult
from tests.ares.builders import config, rows

ACCURACIES: list[list[float | None]] = [[1, 0, 0, 1], [0, 0, 1, 0]]
LENGTHS = [[3, 8, 5, 6], [4, 7, 1, 6]]


def sampled(**columns: Any) -> Any:
    return rows(ACCURACIES, LENGTHS, **columns)


def learner(*overrides: str) -> Learner:
    return Learner(config(*overrides))


def mean_apart(log_probs: torch.Tensor, batch: DataProto) -> float:
    """Mean difference of log-probs [B, L] from those that a batch was sampled with, in nats."""
    return importance_weights(log_probs, batch.tensor("engine_log_probs"), batch.tensor("response_mask"))[1][
        "mismatch/logprob_diff_mean"
    ]


def weights(of: Learner) -> dict[str, torch.Tensor]:
    critic = dict(of.critic.named_parameters()) if of.critic else {}
    own = of.weights() | {f"critic/{name}": parameter.detach().cpu() for name, parameter in critic.items()}
    return {name: tensor.clone() for name, tensor in own.items()}


def save_in_parts(of: Learner, folder: Path) -> None:
    """A checkpoint as two ranks of an earlier version wrote it where weights were sharded."""
    moments = checkpoints.optimizer_tensors(of.optimizer, of.policy.model)
    for name, tensors in {"policy": dict(of.policy.model.named_parameters()), "optimizer": moments}.items():
        (folder / name).mkdir(parents=True)
        for rank in range(2):
            parts, offsets = {}, {}
            for key, tensor in tensors.items():
                pieces = tensor.detach().tensor_split(2) if tensor.ndim else (tensor.detach(),)
                if rank < len(pieces):
                    parts[key] = pieces[rank].contiguous()
                    first = [rank * len(pieces[0])] if tensor.ndim else []
                    offsets[key] = {"saved_offsets": first + [0] * (tensor.ndim - 1)}
            file = folder / name / f"shard-{rank}.safetensors"
            save_file(parts, file, {"DCP_SHARDING_INFO": json.dumps(offsets)})
    counters = {"version": of.version, "optimizer_steps": of.optimizer_steps}
    (folder / checkpoints.COUNTERS).write_text(json.dumps(counters))


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Equal to the last bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def gradients(of: Learner) -> list[torch.Tensor]:
    """Gradients that the last optimiser step left behind."""
    return [parameter.grad.clone() for parameter in of.policy.model.parameters() if parameter.grad is not None]


def finite(result: UpdateResult) -> bool:
    return all(math.isfinite(value) for value in result.metrics.values())
