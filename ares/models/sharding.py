"""Weights spread over the learner's ranks (FSDP2, torch's fully_shard): each holds a part of every weight and moment.

Covered: which modules gather their weights together, calling a function while weights are gathered, gradients summed
rather than averaged. Every rank must make the same number of passes, whatever its rows. Not covered: the division of
rows (ares/learner/ranks.py), checkpoints (ares/learner/checkpoints.py).
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

from ares.models.transformers_internals import layer_classes

T = TypeVar("T")


class GatheredModel(nn.Module):
    """Calls functions of a model; if sharded, weights outside the layers are gathered during the call."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, function: Callable[[], T]) -> T:
        """Return what the function returns: FSDP finds tensors with gradients alone or in a tuple or list."""
        return function()


def shard(root: nn.Module, layers_of: Any, device: torch.device) -> None:
    """Spread a model's weights over all ranks, in place; layers are gathered one at a time.

    `layers_of`: the transformers model that the layers belong to.
    """
    mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
    kinds = layer_classes(layers_of)
    layers = [module for module in layers_of.modules() if type(module).__name__ in kinds]
    for module in [*layers, root]:
        # Reshard the root too: many forward passes here have no backward pass.
        fully_shard(module, mesh=mesh, reshard_after_forward=True)
    for module in root.modules():
        if isinstance(module, FSDPModule):
            # Losses are divided by the global batch's normaliser, so gradients are summed. gloo has plain sums only.
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
