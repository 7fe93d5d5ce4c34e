"""Matrix products in float32 on a CPU, by oneDNN where torch's own choice is slow.

torch multiplies float32 matrices with MKL, which falls back to AVX2 on AMD processors: 90 GFLOP/s on a core on which
oneDNN, a part of torch too, reaches 210 (benchmarks/products.py). Covered: products and linear layers on AMD processors
with AVX-512. Not covered, and left to torch: other processors, devices and types, autocast, small matrices.
"""

from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

LEAST_MULTIPLICATIONS = 1 << 22
"""oneDNN takes half a millisecond to make a kernel for a shape that is new to it: below this it is not worth it."""


@cache
def prefers_onednn() -> bool:
    """Whether float32 products are faster through oneDNN than through MKL on this machine."""
    processor = Path("/proc/cpuinfo")
    return (
        torch.backends.mkldnn.is_available()
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and processor.exists()
        and "AuthenticAMD" in processor.read_text()
    )


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """a @ b of a [..., K] and b [K, N], in any strides. Not differentiable."""
    if not _is_faster(a, b.T):
        return a @ b
    return _onednn(a, b.T, None)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """torch's linear layer, x @ weightᵀ + bias, with gradients: x [..., K], weight [N, K], bias [N] → [..., N]."""
    if not _is_faster(x, weight):
        return torch.nn.functional.linear(x, weight, bias)
    product: Tensor = _Linear.apply(x.contiguous(), weight, bias)
    return product


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _onednn(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        to_x, to_weight, to_bias = ctx.needs_input_grad
        rows = gradient.contiguous().flatten(0, -2)  # what comes back from a sum has strides of 0
        return (
            matmul(rows, weight).view_as(x) if to_x else None,
            matmul(rows.T, x.flatten(0, -2)) if to_weight else None,
            rows.sum(0) if to_bias else None,
        )


def _is_faster(x: Tensor, weight: Tensor) -> bool:
    return (
        prefers_onednn()
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and x.ndim > 1
        and x.numel() * weight.shape[0] >= LEAST_MULTIPLICATIONS
        and not torch.is_autocast_enabled("cpu")
    )


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    bias = None if bias is None else bias.contiguous()  # oneDNN reads it as if it were
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product
