"""Peak memory and time of log-prob + entropy from hidden states, against the naive form, in one run.

Forward and backward through hidden states and head. Each case has a process of its own, one after the other, so that
no peak hides behind an earlier one. "Peak" is what the call adds to its inputs, the two gradients included. On a CPU
the time is CPU seconds and the peak that of the resident set; on CUDA they are the device's.

    python benchmarks/logprobs.py [--tokens 4096] [--vocabulary 151936] [--width 896] [--threads 1] [--device cpu]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from algorithms.logprobs import logprobs_and_entropy

GOAL_MEMORY, GOAL_TIME = 0.15, 1.10


def naive(hidden: Tensor, weight: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Logits of every token at once, in float32 from there on; the entropy without gradient."""
    logp = torch.log_softmax((hidden @ weight.T).float(), dim=-1)
    with torch.no_grad():
        entropies = -(logp.exp() * logp).sum(-1)
    return logp.gather(-1, targets[:, None])[:, 0], entropies


FORMS: dict[str, Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "naive": naive,
    "tiled": lambda hidden, weight, targets: logprobs_and_entropy(hidden, weight, targets),
}


class Meter:
    """Time and peak memory since `start`."""

    def __init__(self, device: str) -> None:
        self.cuda = device.startswith("cuda")

    def start(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            self.memory, self.time = float(torch.cuda.memory_allocated()), time.perf_counter()
        else:
            Path("/proc/self/clear_refs").write_text("5")  # resets the resident set's high-water mark
            self.memory, self.time = self._resident("VmRSS"), time.process_time()

    def stop(self) -> tuple[float, float]:
        """Seconds and GB."""
        if self.cuda:
            torch.cuda.synchronize()
            return time.perf_counter() - self.time, (torch.cuda.max_memory_allocated() - self.memory) / 1e9
        return time.process_time() - self.time, (self._resident("VmHWM") - self.memory) / 1e9

    @staticmethod
    def _resident(field: str) -> float:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field):
                return 1024.0 * int(line.split()[1])
        raise RuntimeError(f"no {field} in /proc/self/status")


def measure(arguments: argparse.Namespace) -> dict[str, float]:
    """One form, one type: the best of `repeats` forward and backward passes."""
    torch.set_num_threads(arguments.threads)
    generator = torch.Generator().manual_seed(0)
    dtype, device = getattr(torch, arguments.dtype), arguments.device
    hidden = (0.5 * torch.randn(arguments.tokens, arguments.width, generator=generator)).to(device, dtype)
    weight = (0.04 * torch.randn(arguments.vocabulary, arguments.width, generator=generator)).to(device, dtype)
    targets = torch.randint(0, arguments.vocabulary, (arguments.tokens,), generator=generator).to(device)
    hidden.requires_grad_(True)
    weight.requires_grad_(True)
    form, meter = FORMS[arguments.form], Meter(device)
    FORMS[arguments.form](hidden[:8], weight, targets[:8])[0].sum().backward()  # loads the kernels

    seconds, peak = float("inf"), 0.0
    for _ in range(arguments.repeats):
        hidden.grad = weight.grad = None
        meter.start()
        logps, entropies = form(hidden, weight, targets)
        logps.mean().backward()
        elapsed, used = meter.stop()
        seconds, peak = min(seconds, elapsed), max(peak, used)
    assert hidden.grad is not None
    assert weight.grad is not None
    return {
        "seconds": seconds,
        "peak": peak,
        "logp": float(logps.detach().mean()),
        "entropy": float(entropies.detach().mean()),
        "hidden": float(hidden.grad.float().norm()),
        "weight": float(weight.grad.float().norm()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--vocabulary", type=int, default=151936)
    parser.add_argument("--width", type=int, default=896)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], help=argparse.SUPPRESS)
    parser.add_argument("--form", choices=list(FORMS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.form:
        print(json.dumps(measure(arguments)))
        return

    print(
        f"{arguments.tokens} tokens, vocabulary {arguments.vocabulary}, width {arguments.width}, "
        f"{arguments.device}, {arguments.threads} threads; "
        f"goal: ≤ {GOAL_MEMORY:.0%} of the peak, ≤ {GOAL_TIME}× the time"
    )
    print(f"{'':10}{'form':8}{'seconds':>9}{'peak GB':>9}{'time':>8}{'peak':>8}   mean logp, entropy, |dh|, |dW|")
    for dtype in ("float32", "bfloat16"):
        results = {}
        for form in FORMS:
            command = [sys.executable, __file__, *sys.argv[1:], "--dtype", dtype, "--form", form]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            result = results[form] = json.loads(output)
            reference = results["naive"]
            print(
                f"{dtype:10}{form:8}{result['seconds']:9.2f}{result['peak']:9.2f}"
                f"{result['seconds'] / reference['seconds']:7.2f}×{result['peak'] / reference['peak']:8.1%}   "
                f"{result['logp']:.5f} {result['entropy']:.5f} {result['hidden']:.4e} {result['weight']:.4e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
