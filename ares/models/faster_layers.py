"""Faster layers for transformers' models: RMS norms and rotary embeddings with their own backward pass, linear layers.

Autograd makes a pass through memory for each operation of a norm or rotation; without it, an update on a CPU takes 5 to
15 % less time. Covered: norms and rotations that compute what Llama's, Qwen's and Mistral's do (compared numerically,
whatever their names); linear layers on CPUs where torch's default product is slow (algorithms/linear.py). Not covered:
all other layers, which stay as they are, and second derivatives.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from algorithms.linear import linear, prefers_onednn

ROTATE = "apply_rotary_pos_emb"
"""Its name in transformers' modules."""


class RMSNorm(torch.autograd.Function):
    """weight · x / √(mean(x²) + ε) of x [..., H] and weight [H], both float32."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon)
        normal = x * scale
        ctx.save_for_backward(normal, scale, weight)
        return weight * normal

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:
        normal, scale, weight = ctx.saved_tensors
        product = gradient * normal
        along = (product @ weight)[..., None] / weight.numel()
        to_x = (gradient * weight).addcmul_(normal, along, value=-1).mul_(scale)
        return to_x, product.flatten(0, -2).sum(0) if ctx.needs_input_grad[1] else None, None


class Rotation(torch.autograd.Function):
    """Rotary embedding of x [..., D]: pairs (x[i], x[i + D/2]) rotated by angles given as cos and sin [..., D]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        ctx.dtype = x.dtype
        first, second = x.chunk(2, -1)
        sin_first, sin_second = sin.chunk(2, -1)
        turned = x * cos
        to_first, to_second = turned.chunk(2, -1)
        to_first.addcmul_(second, sin_first, value=-1)
        to_second.addcmul_(first, sin_second)
        return turned

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        first, second = gradient.chunk(2, -1)
        sin_first, sin_second = sin.chunk(2, -1)
        to_x = gradient * cos
        to_first, to_second = to_x.chunk(2, -1)
        to_first.addcmul_(second, sin_second)
        to_second.addcmul_(first, sin_first, value=-1)
        return to_x.to(ctx.dtype), None, None


class FasterLinear(nn.Linear):
    """nn.Linear, multiplied by algorithms.linear."""

    def forward(self, x: Tensor) -> Tensor:
        """x [..., in] → [..., out]."""
        return linear(x, self.weight, self.bias)


def speed_up_linear(model: nn.Module) -> None:
    """Make a model's linear layers FasterLinear, in place, where that helps; their parameters stay as they are."""
    if prefers_onednn():
        for module in model.modules():
            if type(module) is nn.Linear:
                module.__class__ = FasterLinear


def shorten_backward(model: nn.Module) -> None:
    """Make a model's RMS norms and rotary embeddings, where they are of the known kind, use the functions above.

    Rotary embeddings are functions of transformers' modules and are replaced there: for the whole process.
    """
    for module in model.modules():
        if _is_rms_norm(module):
            module.forward = partial(_normed, module, module.forward)
    for name in {type(module).__module__ for module in model.modules()}:
        rotate = vars(sys.modules[name]).get(ROTATE)
        if rotate is not None and _rotates_halves(rotate):
            setattr(sys.modules[name], ROTATE, partial(_rotated, rotate))


def _normed(module: Any, otherwise: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    if x.dtype == module.weight.dtype == torch.float32:
        normed: Tensor = RMSNorm.apply(x, module.weight, module.variance_epsilon)
        return normed
    return otherwise(x)


def _rotated(
    otherwise: Callable[..., tuple[Tensor, Tensor]],
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    *more: Any,
    **named: Any,
) -> tuple[Tensor, Tensor]:
    """q and k [B, heads, N, D], rotated by cos and sin [B, N, D]."""
    if more or named or cos.shape[-1] != q.shape[-1]:
        return otherwise(q, k, cos, sin, *more, **named)
    cos, sin = cos[:, None], sin[:, None]
    return Rotation.apply(q, cos, sin), Rotation.apply(k, cos, sin)


@torch.no_grad()
def _is_rms_norm(module: Any) -> bool:
    """Whether a layer computes what RMSNorm does: some add one to the weight, and some have a bias."""
    if not type(module).__name__.endswith("RMSNorm") or not hasattr(module, "variance_epsilon"):
        return False
    if isinstance(module.forward, partial) or [name for name, _ in module.named_parameters()] != ["weight"]:
        return False
    if module.weight.dtype != torch.float32:
        return False
    x = _numbers(3, module.weight.numel()).to(module.weight)
    return torch.equal(module(x), RMSNorm.apply(x, module.weight, module.variance_epsilon))


@torch.no_grad()
def _rotates_halves(rotate: Callable[..., Any]) -> bool:
    """Whether a function does what Rotation does: some rotate neighbours, round elsewhere, or take other arguments."""
    if isinstance(rotate, partial):
        return False
    half, single = torch.bfloat16, torch.float32
    for states, angles, tolerance in ((single, single, 1e-6), (half, single, 3e-2), (half, half, 3e-2)):
        q, k = _numbers(1, 2, 3, 4).to(states), _numbers(1, 1, 3, 4).to(states)
        cos, sin = _numbers(2, 1, 3, 4).to(angles)
        try:
            expected = rotate(q, k, cos, sin)
        except (TypeError, ValueError, RuntimeError, IndexError, AttributeError):  # it takes other arguments
            return False
        pairs = zip(expected, _rotated(rotate, q, k, cos, sin), strict=True) if len(expected) == 2 else []
        same = [a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, atol=tolerance) for a, b in pairs]
        if not same or not all(same):
            return False
    return True


def _numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))
