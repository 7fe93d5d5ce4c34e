"""Lessons of a warm start: fresh examples of one kind at a time, on one thread for reproducible bits.

Not covered: the examples (diffusion_warmstart.py, vision_warmstart.py), learning from a fixed set of them (model.py).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from examples.tiny.model import Progress


@dataclass(frozen=True)
class Lesson:
    """AdamW over examples of one kind: a short warm-up, a constant rate, a linear decay over the last quarter.

    Copying is learnt suddenly, after some hundred steps at the full rate; if the rate decays earlier, never.
    """

    steps: int
    learning_rate: float
    errs: bool
    batch_size: int = 64
    warmup_steps: int = 50
    max_grad_norm: float = 1.0


def teach(
    model: nn.Module, lessons: Sequence[Lesson], loss_of: Callable[[Lesson], Tensor], progress: Progress | None
) -> list[float]:
    """Train on the losses of fresh batches, lesson by lesson; returns the mean of each lesson's last 20."""
    total, done = sum(lesson.steps for lesson in lessons), 0
    means = []
    model.train()
    for lesson in lessons:
        optimizer = torch.optim.AdamW(model.parameters(), lesson.learning_rate, betas=(0.9, 0.98))
        losses: list[float] = []
        for step in range(lesson.steps):
            for group in optimizer.param_groups:
                group["lr"] = lesson.learning_rate * _schedule(step, lesson)
            loss = loss_of(lesson)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), lesson.max_grad_norm)
            optimizer.step()
            losses.append(loss.item())
            done += 1
            if progress is not None:
                progress(done, total, losses[-1])
        means.append(sum(losses[-20:]) / len(losses[-20:]))
    model.eval()
    return means


def _schedule(step: int, lesson: Lesson) -> float:
    """Fraction of the lesson's full rate at a step."""
    return min(1.0, (step + 1) / lesson.warmup_steps, 4 * (lesson.steps - step) / lesson.steps)


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread: faster at these sizes, and results depend on the number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
