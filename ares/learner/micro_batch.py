"""Micro-batches of an update, and means of metrics over them."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from algorithms.protocol import DataProto
from ares.models import PolicyModel


@dataclass
class Means:
    """Token-weighted means over micro-batches."""

    totals: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

    def add(self, values: dict[str, float], weight: float) -> None:
        for name, value in values.items():
            self.totals[name] = self.totals.get(name, 0.0) + value * weight
            self.weights[name] = self.weights.get(name, 0.0) + weight

    def merge(self, other: "Means") -> None:
        for name, total in other.totals.items():
            self.totals[name] = self.totals.get(name, 0.0) + total
            self.weights[name] = self.weights.get(name, 0.0) + other.weights[name]

    def means(self) -> dict[str, float]:
        return {name: total / max(self.weights[name], 1e-8) for name, total in self.totals.items()}


class MicroBatch:
    """Rows that pass through the model together, without columns beyond the longest response."""

    def __init__(self, rows: DataProto, policy: PolicyModel) -> None:
        self.rows = rows
        self.tensors = policy.on_device(rows)
        full = self.tensors["response_mask"].bool()
        self._full = full
        self._keep = int(full.any(0).nonzero().max()) + 1
        self.mask = self["response_mask"]
        self.row_kl = torch.zeros(len(full))

    def __getitem__(self, name: str) -> Tensor:
        columns: Tensor = self.tensors[name][:, : self._keep]
        return columns

    def columns(self, values: Tensor) -> Tensor:
        """Values of the response tokens, row after row, as [B, L] with zeros elsewhere; keeps the gradient."""
        spread = torch.zeros(self._full.shape, device=values.device, dtype=values.dtype)
        return spread.masked_scatter(self._full, values)[:, : self._keep]
