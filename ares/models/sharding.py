"""Weights spread over the learner's ranks (FSDP2, torch's fully_shard): each holds a part of every weight and moment.

Covered: which modules gather their weights together, gradients summed rather than averaged. Every rank must make the
same number of passes, whatever its rows. Not covered: the division of rows (ares/learner/ranks.py), checkpoints
(ares/learner/checkpoints.py).
"""

from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

from ares.models.transformers_internals import layer_classes


def shard(root: nn.Module, layers_of: Any, method: str, device: torch.device) -> None:
    """Spread a model's weights over all ranks, in place; layers are gathered one at a time.

    `layers_of`: the transformers model that the layers belong to. `method`: of the root, in which the weights outside
    the layers are gathered; it returns a tensor, or a tuple or list of some.
    """
    mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
    kinds = layer_classes(layers_of)
    layers = [module for module in layers_of.modules() if type(module).__name__ in kinds]
    for module in [*layers, root]:
        # Reshard the root too: many forward passes here have no backward pass.
        fully_shard(module, mesh=mesh, reshard_after_forward=True)
    register_fsdp_forward_method(root, method)
    for module in root.modules():
        if isinstance(module, FSDPModule):
            # Losses are divided by the global batch's normaliser, so gradients are summed. gloo has plain sums only.
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
