"""A learner of the tiny model, two groups of sampled rows, and comparisons of learners."""

import math
from typing import Any

import torch

from ares.learner.learner import Learner, UpdateResult
from tests.ares.builders import config, rows

ACCURACIES: list[list[float | None]] = [[1, 0, 0, 1], [0, 0, 1, 0]]
LENGTHS = [[3, 8, 5, 6], [4, 7, 1, 6]]


def sampled(**columns: Any) -> Any:
    return rows(ACCURACIES, LENGTHS, **columns)


def learner(*overrides: str) -> Learner:
    return Learner(config(*overrides))


def weights(of: Learner) -> dict[str, torch.Tensor]:
    critic = dict(of.critic.named_parameters()) if of.critic else {}
    own = of.weights() | {f"critic/{name}": parameter.detach().cpu() for name, parameter in critic.items()}
    return {name: tensor.clone() for name, tensor in own.items()}


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Equal to the last bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def gradients(of: Learner) -> list[torch.Tensor]:
    """Gradients that the last optimiser step left behind."""
    return [parameter.grad.clone() for parameter in of.policy.model.parameters() if parameter.grad is not None]


def finite(result: UpdateResult) -> bool:
    return all(math.isfinite(value) for value in result.metrics.values())
