"""Float32 products of a learner and an engine through torch's default (MKL) and through oneDNN, on one thread.

GFLOP/s of a layer, of the gradient of its input and of its weight: the best of five rounds, since a busy machine only
slows. What algorithms/linear.py chooses on this machine is printed first.

    python -m benchmarks.products
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from algorithms.linear import _onednn, prefers_onednn

SIZES = [(4096, 64, 64), (64, 256, 256), (64, 256, 768), (1200, 256, 768), (1200, 768, 256), (1024, 896, 4864)]
"""Rows, width in, width out."""
ROUNDS, REPEATS = 5, 20


def speed(product: Callable[[], Tensor], operations: int) -> float:
    """GFLOP/s."""
    product()
    seconds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(REPEATS):
            product()
        seconds.append((time.perf_counter() - began) / REPEATS)
    return operations / min(seconds) / 1e9


def main() -> None:
    torch.set_num_threads(1)
    print(f"chosen: {'oneDNN' if prefers_onednn() else 'MKL'}")
    for rows, inner, outer in SIZES:
        x, weight, gradient = torch.randn(rows, inner), torch.randn(outer, inner), torch.randn(rows, outer)
        pairs = {"layer": (x, weight), "input": (gradient, weight.T), "weight": (gradient.T, x.T)}
        for name, (a, b) in pairs.items():
            mkl = speed(lambda a=a, b=b: a @ b.T, 2 * rows * inner * outer)  # type: ignore[misc]
            onednn = speed(lambda a=a, b=b: _onednn(a, b, None), 2 * rows * inner * outer)  # type: ignore[misc]
            figures = f"{mkl:4.0f} and {onednn:4.0f} GFLOP/s  {onednn / mkl:.2f}×"
            print(f"{rows:5d} × {inner:3d} → {outer:4d} {name:6s}  {figures}")


if __name__ == "__main__":
    main()
