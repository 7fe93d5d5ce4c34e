"""AdamW: created from settings, stepped at a given rate, its moments moved between device and main memory."""

import torch

from ares.config import LearnerConfig


def adamw(model: torch.nn.Module, lr: float, settings: LearnerConfig) -> torch.optim.AdamW:
    """AdamW (arXiv 1711.05101) over the trainable parameters."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    # One kernel for all parameters; on a CPU it would give other bits.
    fused = True if all(parameter.is_cuda for parameter in trained) else None
    return torch.optim.AdamW(trained, lr=lr, betas=settings.betas, weight_decay=settings.weight_decay, fused=fused)


def take_step(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Take one step at a learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()


def move_moments(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    """Move both moments of every parameter to a device; the parameters stay where they are.

    From a GPU they go into pinned memory, for faster copies both ways: wait for the GPU before reading them.
    """
    for state in optimizer.state.values():
        for name in ("exp_avg", "exp_avg_sq"):
            state[name] = state[name].to(device, non_blocking=True)
