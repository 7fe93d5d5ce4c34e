"""AdamW, also in 8 bits, and Muon: created from settings, stepped at a scheduled rate, their moments moved between
device and main memory; an average of the weights that they make."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from ares.config import ConfigError, LearnerConfig


def learning_rate(settings: LearnerConfig, peak: float, step: int) -> float:
    """The rate of an optimiser step, counted from 1: a linear rise, `peak`, then a linear or cosine fall.

    WSD (arXiv 2404.06395) and cosine decay (arXiv 1608.03983, without restarts).
    """
    warmup = settings.warmup_steps
    rate = peak * min(1.0, step / warmup) if warmup else peak
    if settings.decay_steps is None:
        return rate
    progress = min(1.0, max(0.0, (step - max(settings.decay_start, warmup)) / settings.decay_steps))
    left = 1.0 - progress if settings.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))
    return rate * (settings.final_lr + (1.0 - settings.final_lr) * left)


def adamw(model: torch.nn.Module, lr: float, settings: LearnerConfig) -> torch.optim.AdamW:
    """AdamW (arXiv 1711.05101) over the trainable parameters."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.AdamW(_groups(trained, settings), **_adamw_settings(trained, lr, settings))


def adamw_8bit(model: torch.nn.Module, lr: float, settings: LearnerConfig) -> torch.optim.Optimizer:
    """AdamW whose moments are quantised by blocks (arXiv 2110.02861). Raises ConfigError without bitsandbytes."""
    try:
        made_by = import_module("bitsandbytes.optim").AdamW8bit
    except (ImportError, OSError) as error:  # the second where its library does not load
        raise ConfigError(
            f"learner.optimizer=adamw_8bit needs the package bitsandbytes: pip install bitsandbytes ({error})"
        ) from error
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = _groups(trained, settings)
    optimizer: torch.optim.Optimizer = made_by(groups, lr, settings.betas, weight_decay=settings.weight_decay)
    return optimizer


def muon(model: torch.nn.Module, lr: float, settings: LearnerConfig) -> "MuonWithAdamW":
    """Muon over the matrices of a transformers model's layers, AdamW over its other trainable parameters."""
    tables = [module for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    head = model.get_output_embeddings()  # type: ignore[operator]
    outer = {parameter for module in [*tables, head] if module is not None for parameter in module.parameters()}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [each for each in trained if each.ndim == 2 and each not in outer]
    within = set(matrices)
    others = [each for each in trained if each not in within]
    return MuonWithAdamW(matrices, _groups(others, settings), **_adamw_settings(others, lr, settings))


class MuonWithAdamW(torch.optim.AdamW):
    """AdamW, and Muon (torch.optim.Muon) over other parameters with the same rate and decay, stepped together.

    Muon's update is scaled to AdamW's root mean square, so that one rate fits both (Moonlight, arXiv 2502.16982).
    """

    def __init__(self, matrices: Sequence[Tensor], others: Iterable[Any], **settings: Any) -> None:
        super().__init__(others, **settings)
        self.muon = torch.optim.Muon(matrices, settings["lr"], settings["weight_decay"], adjust_lr_fn="match_rms_adamw")
        self.muon.state = self.state  # one table of moments, as checkpoints and offloading need it

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters."""
        super().zero_grad(set_to_none)
        self.muon.zero_grad(set_to_none)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One step of both, at AdamW's rate."""
        for group in self.muon.param_groups:
            group["lr"] = self.param_groups[0]["lr"]
        self.muon.step()
        return super().step(closure)


def _groups(parameters: Sequence[Tensor], settings: LearnerConfig) -> Iterable[Any]:
    """Parameters as an optimiser takes them; vectors apart if they are not to decay."""
    if settings.decay_vectors:
        return parameters
    vectors = [parameter for parameter in parameters if parameter.ndim < 2]
    return [
        {"params": [parameter for parameter in parameters if parameter.ndim >= 2]},
        {"params": vectors, "weight_decay": 0.0},
    ]


def _adamw_settings(parameters: Sequence[Tensor], lr: float, settings: LearnerConfig) -> dict[str, Any]:
    # One kernel for all parameters; on a CPU it would give other bits.
    fused = True if all(parameter.is_cuda for parameter in parameters) else None
    return {"lr": lr, "betas": settings.betas, "weight_decay": settings.weight_decay, "fused": fused}


def take_step(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Take one step at a learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()


@torch.no_grad()
def average_in(average: Mapping[str, Tensor], weights: Mapping[str, Tensor], decay: float) -> None:
    """Take weights into their exponential moving average, in place: average ← decay·average + (1 − decay)·weights."""
    for name, mean in average.items():
        mean.lerp_(weights[name].detach(), 1.0 - decay)


def move_moments(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    """Move the moments of every parameter to a device; the parameters and step counts stay where they are.

    From a GPU they go into pinned memory, for faster copies both ways: wait for the GPU before reading them.
    """
    for state in optimizer.state.values():
        for name in state.keys() - {"step"}:
            state[name] = state[name].to(device, non_blocking=True)


OPTIMIZERS: dict[str, Callable[[torch.nn.Module, float, LearnerConfig], torch.optim.Optimizer]] = {
    "adamw": adamw,
    "adamw_8bit": adamw_8bit,
    "muon": muon,
}
"""By learner.optimizer."""
