"""A learner's weights in memory that engines on the same machine read: nobody copies them.

The memory is a file without a name (memfd): it goes with the last process that has mapped it, however that ends. Not
covered: versions that the learner has left behind and weights for other machines, which go through Ray's object store.
"""

import mmap
import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Self

import numpy as np
from torch import Tensor

from ares.engines import ALIGNED, view_as_tensors


@dataclass(frozen=True)
class SharedWeights:
    """Where the weights lie: what an engine is told instead of being sent them."""

    file: str
    """The learner's open file, as others reach it while the learner lives."""
    where: dict[str, tuple[int, str, tuple[int, ...]]]
    """First byte, type and shape of each array."""

    @classmethod
    def move(cls, tensors: Mapping[str, Tensor]) -> Self:
        """Move the data of tensors on the CPU into shared memory; they stay what they are to their users."""
        where, size = {}, 0
        for key, tensor in tensors.items():
            array = tensor.detach().numpy()
            where[key] = (size, array.dtype.str, array.shape)
            size += -(-array.nbytes // ALIGNED) * ALIGNED
        opened = os.memfd_create("ares-weights")
        os.ftruncate(opened, size)
        shared = cls(f"/proc/{os.getpid()}/fd/{opened}", where)
        weakref.finalize(shared, os.close, opened)  # a learner may end before its process
        for key, place in view_as_tensors(shared._arrays(mmap.mmap(opened, 0))).items():
            place.copy_(tensors[key].detach())
            tensors[key].data = place
        return shared

    def arrays(self) -> dict[str, np.ndarray]:
        """The weights, read-only; they change with the learner's. Raises FileNotFoundError if it has died."""
        with open(self.file, "rb") as file:
            return self._arrays(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def _arrays(self, memory: mmap.mmap) -> dict[str, np.ndarray]:
        return {
            key: np.frombuffer(memory, kind, prod(shape), first).reshape(shape)
            for key, (first, kind, shape) in self.where.items()
        }
