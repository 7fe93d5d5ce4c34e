"""Spread of log-prob estimates under random masks: one, two and three masks, coupled ones, the published mean.

The model and problems of tiny-diffusion (or another checkpoint); the texts scored are reference solutions. For each
problem the log-prob of its response is estimated many times under fresh masks; the spread is the standard deviation
over draws relative to the mean. The gradient's is √(tr Cov)/‖mean‖ of the summed estimate over all problems.

    python -m benchmarks.coupled_variance [--draws 200] [--problems 24]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

import ares.models.bidirectional_qwen2  # noqa: F401 - registers the model's type
from algorithms.coupled_sampling import MASK_ESTIMATES, MASK_RATIO_RANGE, Draw, MaskedPasses, independent_masks
from algorithms.denoising import completion_logits
from examples.tiny import CHECKPOINTS

ESTIMATES = {"one_mask": (partial(independent_masks, passes=1), 1)} | MASK_ESTIMATES


def estimated(log_probs: Callable[[Tensor], Tensor], masked: Callable[[Draw], MaskedPasses], draw: Draw) -> Tensor:
    """A token's estimate [B, K] under fresh masks. log_probs: mask [B, K] → of every token, given what it leaves."""
    masks, weights = masked(draw)
    of_passes = [log_probs(mask) * weight.float() for mask, weight in zip(masks, weights, strict=True)]
    return torch.stack(of_passes).sum(0)


def drawn(shape: torch.Size, generator: torch.Generator) -> Draw:
    """Fresh masks, whatever their number."""
    low, high = MASK_RATIO_RANGE

    def draw(_: int) -> tuple[Tensor, Tensor]:
        ratio = low + (high - low) * torch.rand(shape[0], 1, generator=generator)
        return ratio, torch.rand(shape, generator=generator) < ratio

    return draw


class SolutionCanvases:
    """Prompts with their reference solutions on full canvases."""

    def __init__(self, folder: Path, problems: int, places: int) -> None:
        self.model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
        self.mask_id = self.model.config.mask_token_id
        tokenizer = AutoTokenizer.from_pretrained(folder)
        rows = [json.loads(line) for line in (folder / "heldout.jsonl").read_text().splitlines()[:problems]]
        chats = [
            tokenizer.apply_chat_template(
                [{"role": "user", "content": row["prompt"]}], tokenize=False, add_generation_prompt=True
            )
            for row in rows
        ]
        prompts = tokenizer(chats, add_special_tokens=False, padding=True, padding_side="left", return_tensors="pt")
        texts = tokenizer([f"```python\n{row['solution']}\n```\n" for row in rows])["input_ids"]
        end = tokenizer.eos_token_id
        self.canvas = torch.tensor([ids + [end] * (places - len(ids)) for ids in texts])
        self.kept = torch.tensor([[1.0] * (len(ids) + 1) + [0.0] * (places - len(ids) - 1) for ids in texts])
        self.prompts = prompts["input_ids"]
        self.seen = torch.cat([prompts["attention_mask"], torch.ones_like(self.canvas)], 1)

    def log_probs(self, mask: Tensor) -> Tensor:
        ids = torch.cat([self.prompts, self.canvas.masked_fill(mask, self.mask_id)], 1)
        logits = completion_logits(self.model, ids, self.canvas.shape[1], self.seen)
        return logits.log_softmax(-1).gather(-1, self.canvas[..., None])[..., 0]


def spread(
    canvases: SolutionCanvases, masked: Callable[[Draw], MaskedPasses], draws: int, gradients: int
) -> tuple[float, float, float]:
    """Mean estimate per token (nats), relative spread of a response's log-prob, relative spread of the gradient."""
    generator = torch.Generator().manual_seed(0)
    draw, kept = drawn(canvases.canvas.shape, generator), canvases.kept
    with torch.no_grad():
        sums = torch.stack([(estimated(canvases.log_probs, masked, draw) * kept).sum(1) for _ in range(draws)]).double()
    mean = sums.mean(0)
    relative = float((sums.std(0) / mean.abs()).mean())
    parameters = list(canvases.model.parameters())
    total, square = torch.zeros((), dtype=torch.float64), 0.0
    for _ in range(gradients):
        loss = (estimated(canvases.log_probs, masked, draw) * kept).sum() / kept.sum()
        flat = torch.cat([part.flatten() for part in torch.autograd.grad(loss, parameters)]).double()
        total, square = total + flat, square + float(flat.square().sum())
    average = total / gradients
    variance = max(square / gradients - float(average.square().sum()), 0.0) * gradients / (gradients - 1)
    # ‖mean of draws‖² holds a share of the variance, which is taken out again.
    norm = max(float(average.square().sum()) - variance / gradients, 1e-30)
    return float(mean.sum() / kept.sum()), relative, (variance / norm) ** 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=CHECKPOINTS / "diffusion")
    parser.add_argument("--problems", type=int, default=24)
    parser.add_argument("--places", type=int, default=14)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--gradients", type=int, default=60)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    canvases = SolutionCanvases(arguments.model, arguments.problems, arguments.places)
    print(f"{arguments.problems} reference solutions, {arguments.draws} draws, {arguments.gradients} of the gradient")
    print(f"{'estimator':27}{'passes':>7}{'nats/token':>12}{'log-prob':>10}{'gradient':>10}")
    results = {}
    for name, (masked, passes) in ESTIMATES.items():
        results[name] = spread(canvases, masked, arguments.draws, arguments.gradients)
        mean, relative, gradient = results[name]
        print(f"{name:27}{passes:7}{mean:12.4f}{relative:10.3f}{gradient:10.3f}", flush=True)


if __name__ == "__main__":
    main()
