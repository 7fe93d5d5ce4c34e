"""The machine, and how fast weights are copied, to main memory and back."""

import platform
from collections.abc import Iterator
from functools import partial

import torch
import transformers
from torch import Tensor

from ares.config import ModelConfig
from ares.engines import TransformersEngine
from benchmarks.gpu.device import Place, Row
from benchmarks.gpu.updates import learner_of


def machine(place: Place) -> Iterator[Row]:
    """Names and versions; the rates of a matrix product and of copies, which bound everything else."""
    about: Row = {"row": "machine", "python": platform.python_version(), "torch": torch.__version__}
    about |= {"transformers": transformers.__version__, "threads": torch.get_num_threads()}
    if place.cuda:
        properties = torch.cuda.get_device_properties(0)
        about |= {"device": properties.name, "memory GiB": properties.total_memory / 2**30, "cuda": torch.version.cuda}
    yield about
    peak, product = place.peak_flops(), place.matmul_flops()
    yield {"row": "matmul in bfloat16", "TFLOP/s": product / 1e12} | (
        {"of the maker's figure": product / peak} if peak else {}
    )
    size = 2**20 if place.tiny else 2**30
    rates = {}
    for name, (target, source) in copies(place, size).items():
        seconds = place.seconds(partial(target.copy_, source, non_blocking=True))
        rates[name] = size / seconds / 1e9
    yield {"row": "copies, GB/s", **rates}


def copies(place: Place, size: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Target and source of each kind of copy, of so many bytes."""
    on_device, plain = torch.ones(size, dtype=torch.uint8, device=place.device), torch.ones(size, dtype=torch.uint8)
    within = torch.empty_like(on_device)  # torch skips copying a tensor onto itself
    ways = {"to the device": (on_device, plain), "to main memory": (plain, on_device), "within": (within, on_device)}
    if place.cuda:
        pinned = plain.pin_memory()
        ways |= {"to the device, pinned": (on_device, pinned), "to main memory, pinned": (pinned, on_device)}
    return ways


def handover(place: Place) -> Iterator[Row]:
    """Copying the weights of a 0.5B-shaped policy to an engine in the same process."""
    learner = learner_of(place, "0.5B", [])
    engine = TransformersEngine(ModelConfig(path=str(place.model("0.5B")), dtype="bfloat16"), place.device, {1}, 0)
    own = {name: weight.detach() for name, weight in learner.policy.model.named_parameters()}
    gib = sum(weight.numel() * weight.element_size() for weight in own.values()) / 2**30
    in_memory = learner.weights()
    yield _way("learner to main memory", gib, place.seconds(learner.weights))
    yield _way("main memory to the engine", gib, place.seconds(lambda: engine.load_weights(1, in_memory)))
    yield _way("device to device", gib, place.seconds(lambda: engine.load_weights(1, own)))


def _way(name: str, gib: float, seconds: float) -> Row:
    return {"row": name, "GiB": gib, "ms": 1e3 * seconds, "GiB/s": gib / seconds}
