"""The ranks of a learner: each trains on its share of every global batch.

Covered: the division of rows, sums of gradients and metrics over ranks (gloo on a CPU, NCCL on GPUs). A process that
joined no group is the only rank, and nothing is summed. Not covered: sharded weights (ares/models/sharding.py).
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from ares.models import RowSizes, share_rows

T = TypeVar("T")
PATIENCE = timedelta(minutes=30)
"""How long a rank waits for the others."""


@dataclass(frozen=True)
class Ranks:
    """This process's rank among the learner's."""

    rank: int = 0
    count: int = 1

    @classmethod
    def joined(cls, rank: int, count: int, address: str) -> "Ranks":
        """Join the other ranks at host:port; returns when all are there."""
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        meeting = f"tcp://{address}"
        dist.init_process_group(backend, init_method=meeting, rank=rank, world_size=count, timeout=PATIENCE)
        return cls(rank, count)

    def shares(self, sizes: RowSizes, of_others: bool = False) -> list[Tensor]:
        """This rank's rows of a batch; with `of_others`, followed by those of every other rank."""
        if self.count == 1:
            return [torch.arange(len(sizes))]
        others = share_rows(sizes, self.count)
        own = others.pop(self.rank)
        return [own, *(others if of_others else [])]

    def sum(self, values: Tensor) -> None:
        """Replace values by their sum over ranks, in place."""
        if self.count > 1:
            dist.all_reduce(values)

    def gather(self, value: T) -> list[T]:
        """Every rank's value, in the order of ranks; for small values."""
        if self.count == 1:
            return [value]
        values: list[T | None] = [None] * self.count
        dist.all_gather_object(values, value)
        return values  # type: ignore[return-value]

    def sum_gradients(self, model: torch.nn.Module) -> None:
        """Replace each gradient by its sum over ranks; parameters without a gradient on any rank keep none."""
        if self.count == 1:
            return
        parameters = list(model.parameters())
        used = torch.tensor([float(parameter.grad is not None) for parameter in parameters])
        dist.all_reduce(used)
        parameters = [parameter for parameter, times in zip(parameters, used.tolist(), strict=True) if times]
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        sums = flat.split([parameter.numel() for parameter in parameters])
        for parameter, summed in zip(parameters, sums, strict=True):
            parameter.grad = summed.view_as(parameter)
