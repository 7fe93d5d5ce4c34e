"""Engines: tokens a second, and for vLLM sleep, wake-up and weight updates."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ares.config import ModelConfig, VllmConfig
from ares.engines import Engine, Request, SamplingSettings, TransformersEngine, VllmEngine
from ares.models import stored_tensors
from benchmarks.gpu.device import Place, Row

GROUP = 8
NEVER = {1 << 30}
"""An end token that no model has, so that responses reach their limit."""


def transformers_engine(place: Place) -> Iterator[Row]:
    """The reference engine: responses of equal length, eight per prompt."""
    engine = loaded_engine(place, "0.5B")
    for rows in (4,) if place.tiny else (64, 256):
        yield _sampled(place, engine, rows, 8 if place.tiny else 128)


def vllm_engine(place: Place) -> Iterator[Row]:
    """vLLM in this process: sampling, sleep, new weights from main memory and from the device."""
    import vllm  # noqa: F401 (if it is not installed, fail before a model is made)

    folder, new_tokens = place.model("0.5B"), 8 if place.tiny else 256
    engine: Any = None

    def start() -> None:
        nonlocal engine
        model, how = ModelConfig(path=str(folder), dtype="bfloat16"), VllmConfig(max_sequences=256, gpu_memory=0.5)
        # No end token, so that responses reach their limit; vLLM refuses one outside the vocabulary.
        engine = VllmEngine(model, set(), 1024, how, colocated=True)

    yield {"row": "start", "s": next(place.each(start, 1))}
    ways = {"main memory": _weights(folder, "cpu")}
    if place.cuda:
        ways["the device"] = _weights(folder, "cuda")
    for name, weights in ways.items():
        yield {"row": f"new weights from {name}", "ms": 1e3 * place.seconds(partial(engine.load_weights, 0, weights))}
    for rows in (4,) if place.tiny else (64, 256):
        yield _sampled(place, engine, rows, new_tokens)
    yield from _sleep(place, engine, ways["main memory"])


def loaded_engine(place: Place, shape: str) -> TransformersEngine:
    """The reference engine in bfloat16 with a shape's weights."""
    folder = place.model(shape)
    engine = TransformersEngine(ModelConfig(path=str(folder), dtype="bfloat16"), place.device, NEVER, 0)
    engine.load_weights(0, _weights(folder, place.device))
    return engine


def requests(count: int, tokens: int) -> list[Request]:
    """Requests with prompts of `tokens` tokens, GROUP samples per prompt."""
    generator = torch.Generator().manual_seed(3)
    prompts = torch.randint(3, 300, (-(-count // GROUP), tokens), generator=generator).tolist()
    return [Request(prompts[row // GROUP], row) for row in range(count)]


def _sampled(place: Place, engine: Engine, rows: int, new_tokens: int) -> Row:
    asked, settings = requests(rows, 8 if place.tiny else 256), SamplingSettings(1.0, 1.0, new_tokens)
    seconds = place.seconds(lambda: engine.generate(asked, settings), 1)
    return {"row": f"{rows} responses of {new_tokens} tokens", "s": seconds, "tokens/s": rows * new_tokens / seconds}


def _sleep(place: Place, engine: VllmEngine, weights: dict[str, torch.Tensor]) -> Iterator[Row]:
    """The memory that sleep frees for a learner on the same GPU, and the time it takes."""
    if not place.cuda:
        yield {"row": "sleep and wake", "note": "vLLM sleeps on GPUs only"}
        return
    free = _free_gib()
    asleep = next(place.each(engine.sleep, 1))
    gained = _free_gib() - free
    wake: Callable[[], None] = lambda: engine.load_weights(1, weights)  # noqa: E731
    yield {"row": "sleep and wake", "sleep ms": 1e3 * asleep, "given back GiB": gained,
           "wake with new weights ms": 1e3 * next(place.each(wake, 1))}  # fmt: skip


def _free_gib() -> float:
    return torch.cuda.mem_get_info()[0] / 2**30


def _weights(folder: Path, device: str) -> dict[str, torch.Tensor]:
    """A folder's weights, named as a learner hands them over."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return {name: tensor.detach().to(device) for name, tensor in stored_tensors(model).items()}
