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
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

import ares.models.bidirectional_qwen2  # noqa: F401 - registers the model's type
from algorithms.coupled_sampling import MASK_RATIO_RANGE
from algorithms.denoising import completion_logits
from ares.tiny import CHECKPOINTS

Passes = Callable[[Tensor], Tensor]
"""Mask [B, K] → log-prob of every token given what the mask leaves in sight [B, K]."""


def drawn(shape: torch.Size, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A ratio per row [B, 1] and a mask [B, K]."""
    low, high = MASK_RATIO_RANGE
    ratio = low + (high - low) * torch.rand(shape[0], 1, generator=generator)
    return ratio, torch.rand(shape, generator=generator) < ratio


def full(passes: Passes, shape: torch.Size, generator: torch.Generator) -> Tensor:
    return passes(torch.ones(shape, dtype=torch.bool))


def single(passes: Passes, shape: torch.Size, generator: torch.Generator) -> Tensor:
    ratio, mask = drawn(shape, generator)
    return torch.where(mask, passes(mask) / ratio, 0.0)


def independent(passes: Passes, shape: torch.Size, generator: torch.Generator) -> Tensor:
    return (single(passes, shape, generator) + single(passes, shape, generator)) / 2


def coupled(passes: Passes, shape: torch.Size, generator: torch.Generator) -> Tensor:
    ratio, mask = drawn(shape, generator)
    return torch.where(mask, passes(mask) / ratio, passes(~mask) / (1 - ratio)) / 2


def published(passes: Passes, shape: torch.Size, generator: torch.Generator) -> Tensor:
    return (full(passes, shape, generator) + 2 * coupled(passes, shape, generator)) / 2


def three_independent(passes: Passes, shape: torch.Size, generator: torch.Generator) -> Tensor:
    parts = [single(passes, shape, generator) for _ in range(3)]
    return sum(parts[1:], parts[0]) / 3


ESTIMATORS = {
    "full mask": (full, 1),
    "one mask": (single, 1),
    "two masks": (independent, 2),
    "coupled pair": (coupled, 2),
    "three masks": (three_independent, 3),
    "full + coupled\n(published)": (published, 3),
}
"""Name → (estimator, passes through the model)."""


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
    canvases: SolutionCanvases, estimator: Callable[..., Tensor], draws: int, gradients: int
) -> tuple[float, float, float]:
    """Mean estimate per token (nats), relative spread of a response's log-prob, relative spread of the gradient."""
    generator = torch.Generator().manual_seed(0)
    shape, kept = canvases.canvas.shape, canvases.kept
    with torch.no_grad():
        sums = torch.stack(
            [(estimator(canvases.log_probs, shape, generator) * kept).sum(1) for _ in range(draws)]
        ).double()
    mean = sums.mean(0)
    relative = float((sums.std(0) / mean.abs()).mean())
    parameters = list(canvases.model.parameters())
    total, square = 0.0, 0.0
    for _ in range(gradients):
        loss = (estimator(canvases.log_probs, shape, generator) * kept).sum() / kept.sum()
        flat = torch.cat([part.flatten() for part in torch.autograd.grad(loss, parameters)]).double()
        total, square = total + flat, square + float(flat.square().sum())
    average = total / gradients
    assert isinstance(average, Tensor)
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
    for name, (estimator, passes) in ESTIMATORS.items():
        results[name] = spread(canvases, estimator, arguments.draws, arguments.gradients)
        mean, relative, gradient = results[name]
        print(f"{name.replace(chr(10), ' '):27}{passes:7}{mean:12.4f}{relative:10.3f}{gradient:10.3f}", flush=True)


if __name__ == "__main__":
    main()
