"""What of a model goes to another one with the same architecture: parameters, and buffers that its files hold.

Covered: their names. Not covered: adapters (ares/models/lora.py), what is computed anew (rotary frequencies).
"""

from collections.abc import Iterator

from torch import Tensor, nn


def stored_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers by name; of tied ones the first name. GLM-4-MoE and DeepSeek-V3 choose experts
    by such a buffer."""
    return dict(model.named_parameters()) | dict(persistent_buffers(model))


def persistent_buffers(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Buffers that are saved with a model."""
    for prefix, module in model.named_modules():
        for name, buffer in module.named_buffers(recurse=False):
            if name not in module._non_persistent_buffers_set:
                yield f"{prefix}.{name}" if prefix else name, buffer
