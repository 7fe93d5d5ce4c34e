"""Peak memory and time of the coupled log-probs against the row-by-row form, forward and backward.

Logits [3·rows, tokens, vocabulary] in one iteration, half of the tokens masked. Each case has a process of its own.
"Peak" is what the call adds to its inputs, the gradient of the logits included; the time is CPU seconds.

    python benchmarks/selective_log_softmax.py [--rows 8] [--tokens 256] [--vocabulary 151936] [--dtype bfloat16]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import torch
from torch import Tensor

from algorithms.published.coupled_log_probs import selective_log_softmax
from benchmarks.logprobs import Meter

GOAL_TIME, GOAL_MEMORY = 0.5, 1.0


def by_row(logits: Tensor, index: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    """One sequence at a time: log-softmax of its three versions whole, then the chosen tokens."""
    rows = len(index)
    log_probs = []
    for row in range(rows):
        versions = torch.stack([logits[row], logits[rows + row], logits[2 * rows + row]]).log_softmax(-1)
        full, one, other = versions.gather(-1, index[row].expand(3, -1)[..., None])[..., 0]
        log_probs.append((full + torch.where(mask[row], weights[1] * one, weights[2] * other)) / 2)
    return torch.stack(log_probs)


FORMS = {"by row": by_row, "chunked": selective_log_softmax}


def measure(arguments: argparse.Namespace) -> dict[str, float]:
    """One form: the best of `repeats` forward and backward passes."""
    torch.set_num_threads(arguments.threads)
    generator = torch.Generator().manual_seed(0)
    shape = (3 * arguments.rows, arguments.tokens, arguments.vocabulary)
    logits = torch.empty(shape, dtype=getattr(torch, arguments.dtype))
    for block in logits:
        block.copy_(2 * torch.randn(shape[1:], generator=generator))
    index = torch.randint(0, arguments.vocabulary, (arguments.rows, arguments.tokens), generator=generator)
    mask = torch.rand(index.shape, generator=generator) < 0.5
    weights = torch.tensor([1.0, 2.0, 2.0])
    logits.requires_grad_(True)
    form, meter = FORMS[arguments.form], Meter("cpu")
    small = logits.detach()[:, :1, :64].clone().requires_grad_(True)
    form(small, index[:, :1] % 64, weights, mask[:, :1]).sum().backward()  # loads the kernels
    forward = backward = float("inf")
    peak = 0.0
    for _ in range(arguments.repeats):
        logits.grad = None
        meter.start()
        log_probs = form(logits, index, weights, mask)
        first, used = meter.stop()
        peak = max(peak, used)
        loss = log_probs.float().mean()
        start = meter.memory
        meter.start()
        memory, meter.memory = meter.memory, start
        loss.backward()
        second, used = meter.stop()
        meter.memory = memory
        forward, backward, peak = min(forward, first), min(backward, second), max(peak, used)
    assert logits.grad is not None
    return {"forward": forward, "backward": backward, "peak": peak, "mean": float(log_probs.detach().float().mean()),
            "gradient": float(sum(block.float().square().sum() for block in logits.grad)) ** 0.5}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=151936)
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--form", choices=list(FORMS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.form:
        print(json.dumps(measure(arguments)))
        return
    print(
        f"logits [3·{arguments.rows}, {arguments.tokens}, {arguments.vocabulary}] in {arguments.dtype}, "
        f"{arguments.threads} threads; goal: ≤ {GOAL_TIME:.0%} of the time, ≤ {GOAL_MEMORY:.0%} of the peak"
    )
    print(f"{'form':9}{'forward s':>10}{'backward s':>11}{'peak GB':>9}{'time':>8}{'peak':>8}   mean, |gradient|")
    reference: dict[str, float] = {}
    for form in FORMS:
        command = [sys.executable, "-m", "benchmarks.selective_log_softmax", *sys.argv[1:], "--form", form]
        result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        reference = reference or result
        time, before = (r["forward"] + r["backward"] for r in (result, reference))
        print(
            f"{form:9}{result['forward']:10.2f}{result['backward']:11.2f}{result['peak']:9.2f}{time / before:8.1%}"
            f"{result['peak'] / reference['peak']:8.1%}   {result['mean']:.5f} {result['gradient']:.5e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
