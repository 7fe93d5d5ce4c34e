"""The learner: tiles of the head, updates of published shapes, layouts of a batch, a profile."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import DeviceType

import algorithms.logprobs as head
from algorithms.protocol import DataProto
from ares.config import load
from ares.learner import Learner
from benchmarks.gpu.device import Place, Row
from benchmarks.gpu.layouts import GROUP, WAYS, batch, measured, skewed

TILES = [(4096, 16384), (8192, 32768), (16384, 32768), (4096, 151936)]
TINY_TILES = [(32, 128), (64, 512)]
OPERATIONS = 12
"""Kinds of kernels that a profile lists."""


def tiles(place: Place) -> Iterator[Row]:
    """Log-probs and entropy with both gradients, by tile size; the best should be the constant in the code."""
    tokens, width, vocabulary = (64, 64, 512) if place.tiny else (16384, 1536, 151936)
    generator = torch.Generator(place.device).manual_seed(0)
    made: dict[str, Any] = {"generator": generator, "device": place.device, "dtype": torch.bfloat16}
    hidden = (0.5 * torch.randn(tokens, width, **made)).requires_grad_()
    weight = (0.04 * torch.randn(vocabulary, width, **made)).requires_grad_()
    targets = torch.randint(0, vocabulary, (tokens,), generator=generator, device=place.device)

    def passed(form: Callable[..., Any], rows: int) -> None:
        hidden.grad = weight.grad = None
        form(hidden[:rows], weight, targets[:rows])[0].mean().backward()

    def timed(name: str, form: Callable[..., Any], rows: int, products: int) -> Row:
        try:
            seconds, peak = place.seconds(lambda: passed(form, rows)), place.peak_gib(lambda: passed(form, rows))
        except torch.OutOfMemoryError:
            return {"row": name, "note": "not enough memory"}
        flops = 2.0 * products * rows * width * vocabulary
        return {"row": name, "ms": 1e3 * seconds, "ms per 1,000 tokens": 1e6 * seconds / rows,
                "TFLOP/s": flops / seconds / 1e12, "peak GiB": peak}  # fmt: skip

    head.PLAIN_LIMIT = 0
    milliseconds = {}
    for tile in TINY_TILES if place.tiny else TILES:
        head.CPU_TILE = head.CUDA_TILE = tile
        row = timed(f"tile {tile[0]} × {tile[1]}", head.logprobs_and_entropy, tokens, 4)  # recomputed once
        milliseconds[tile] = row.get("ms", float("inf"))
        yield row
    yield timed("naive, a quarter of the tokens", naive, tokens // 4, 3)
    best = min(milliseconds, key=lambda tile: milliseconds[tile])
    yield {"row": f"best: CUDA_TILE = {best} in algorithms/logprobs.py", "ms": milliseconds[best]}


def naive(hidden: Tensor, weight: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Logits of every token at once, in float32 from there on; the entropy without gradient."""
    logp = torch.log_softmax((hidden @ weight.T).float(), dim=-1)
    with torch.no_grad():
        entropies = -(logp.exp() * logp).sum(-1)
    return logp.gather(-1, targets[:, None])[:, 0], entropies


def update(place: Place, shape: str, checkpointing: bool) -> Iterator[Row]:
    """A packed update of a shape, with or without gradient checkpointing, and the pass before it."""
    settings = [f"model.gradient_checkpointing={str(checkpointing).lower()}"]
    if shape == "1.5B" and not checkpointing and not place.tiny:
        settings.append("learner.micro_batch_tokens=8192")  # twice as many do not fit in 80 GB
    learner = learner_of(place, shape, settings)
    rows, work = _batch(place), Work(place, shape, learner)
    held = place.seconds(lambda: learner.experience(rows), 1)
    yield {"row": "log-probs", "s": held, "tokens/s": work.tokens(rows) / held, "MFU": work.mfu(rows, held) / 3}
    learner.update(rows)
    peak = place.peak_gib(lambda: learner.update(rows))
    seconds = place.seconds(lambda: learner.update(rows), 2)
    predicted = place.shape(shape).update_gib(learner.config.learner.micro_batch_tokens, checkpointing)
    yield {"row": "update", "s": seconds, "tokens/s": work.tokens(rows) / seconds, "MFU": work.mfu(rows, seconds),
           "of a matmul": work.mfu(rows, seconds, of_matmul=True), "peak GiB": peak,
           "predicted GiB": predicted}  # fmt: skip


class Work:
    """Utilisation: what an update of a batch computes, as a share of what the device could."""

    def __init__(self, place: Place, shape: str, learner: Learner) -> None:
        self.shape = place.shape(shape)
        self.learner = learner
        self.matmul = place.matmul_flops()
        self.peak = place.peak_flops() or self.matmul

    def tokens(self, rows: DataProto) -> int:
        """Tokens of the rows, prompts included."""
        return int(rows.tensor("attention_mask").sum())

    def mfu(self, rows: DataProto, seconds: float, of_matmul: bool = False) -> float:
        """FLOP/s of an update as a share of the device's peak (of a large product, if the device is unknown)."""
        sizes = self.learner.policy.row_sizes(rows)
        packed = int((sizes.tokens - sizes.shared()).sum())
        flops = self.shape.update_flops(packed, int(rows.tensor("response_mask").sum()), sizes.tokens.tolist())
        return flops / seconds / (self.matmul if of_matmul else self.peak)


def layouts(place: Place) -> Iterator[Row]:
    """One update of skewed lengths: rows padded, sorted by length, packed, and packed with shared prompts."""
    rows = _batch(place)
    tokens, padded = int(rows.tensor("attention_mask").sum()), 0.0
    settings = _settings(place)
    for name, way in WAYS.items():
        seconds = measured(place.model("0.5B"), rows, *way, settings=settings, clock=place.clock)
        padded = padded or seconds
        yield {"row": name, "s": seconds, "tokens/s": tokens / seconds, "× padded": padded / seconds}
        gc.collect()
        if place.cuda:
            torch.cuda.empty_cache()


def profile(place: Place) -> Iterator[Row]:
    """The kernels in which a packed update of the 0.5B shape, without checkpointing, spends its time."""
    learner, rows = learner_of(place, "0.5B", []), _batch(place)
    learner.update(rows)
    kinds = [torch.profiler.ProfilerActivity.CPU] + [torch.profiler.ProfilerActivity.CUDA] * place.cuda
    started = place.clock()
    with torch.profiler.profile(activities=kinds) as profiler:
        learner.update(rows)
        seconds = place.clock() - started
    # Kernels' time is that of the operations that launched them; the list also has the kernels themselves.
    entries = [entry for entry in profiler.key_averages() if entry.device_type == DeviceType.CPU]

    def milliseconds(entry: Any) -> float:
        return float(entry.self_device_time_total if place.cuda else entry.self_cpu_time_total) / 1e3

    busy = sum(map(milliseconds, entries))
    yield {"row": "all of it", "ms": busy, "of the wall clock": busy / (1e3 * seconds)}
    for entry in sorted(entries, key=milliseconds, reverse=True)[:OPERATIONS]:
        yield {"row": entry.key[:90], "ms": milliseconds(entry), "share": milliseconds(entry) / busy,
               "calls": entry.count}  # fmt: skip


def learner_of(place: Place, shape: str, settings: list[str]) -> Learner:
    """A learner of a shape in bfloat16, without a reference."""
    config = load("tiny-math", [f"model.path={place.model(shape)}", *_settings(place), *settings])
    return Learner(config)


def _settings(place: Place) -> list[str]:
    """Settings that all learners here share: one optimiser step for all rows."""
    prompts = _rows(place) // GROUP
    return ["model.dtype=bfloat16", "algorithm.kl.placement=none", f"rollout.prompts={prompts}",
            f"learner.global_batch_prompts={prompts}", "learner.warmup_steps=0", "learner.lr=1e-6",
            f"learner.device={place.device}", f"learner.micro_batch_tokens={256 if place.tiny else 16384}"]  # fmt: skip


def _rows(place: Place) -> int:
    return 16 if place.tiny else 96


def _batch(place: Place) -> DataProto:
    """Responses of log-normal length, median 700 tokens, eight to a prompt of 256."""
    if place.tiny:
        return batch(skewed(_rows(place), 12, 24), 8)
    return batch(skewed(_rows(place), 700, 2048), 256)
