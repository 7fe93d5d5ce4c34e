"""The measured device: clock, memory, peak rates, and repeated measurements.

On a CPU the same calls only show that the program runs.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.shapes import SHAPES, TINY_SHAPE, Shape, model_folder

Row = dict[str, Any]
"""Figures of one table row by name; `row` is its label."""

PEAKS = {
    "B200": 2250e12,
    "H200": 989.5e12,
    "GH200": 989.5e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989.5e12,
    "A100": 312e12,
    "L40S": 362e12,
    "RTX 4090": 165.2e12,
}
"""Dense bfloat16 FLOP/s by NVIDIA's data sheets, by a part of the device's name; the first match counts."""


@dataclass(frozen=True)
class Place:
    """The device and folder of a measurement."""

    device: str
    """cuda or cpu."""
    tiny: bool
    """Small stand-ins for everything, to try the program."""
    folder: Path
    """Folder of models that measurements share."""

    @property
    def cuda(self) -> bool:
        """Whether the device is a GPU."""
        return self.device == "cuda"

    def shape(self, name: str) -> Shape:
        """A shape by name, or the stand-in."""
        return TINY_SHAPE if self.tiny else SHAPES[name]

    def model(self, name: str) -> Path:
        """The folder of a model of this shape."""
        return model_folder(self.folder, self.shape(name), self.device)

    def wait(self) -> None:
        """Return when the device has finished its work."""
        if self.cuda:
            torch.cuda.synchronize()

    def clock(self) -> float:
        """Time in seconds, after the device has finished its work."""
        self.wait()
        return time.perf_counter()

    def seconds(self, work: Callable[[], Any], repeats: int = 3) -> float:
        """Median seconds of some work, after a warm-up run."""
        work()
        return statistics.median(self.each(work, 1 if self.tiny else repeats))

    def each(self, work: Callable[[], Any], repeats: int) -> Iterator[float]:
        """Seconds of every run."""
        for _ in range(repeats):
            started = self.clock()
            work()
            yield self.clock() - started

    def peak_gib(self, work: Callable[[], Any]) -> float:
        """Peak GiB that the device (on a CPU: this process) holds during some work."""
        self.wait()
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
            work()
            self.wait()
            return torch.cuda.max_memory_allocated() / 2**30
        Path("/proc/self/clear_refs").write_text("5")  # resets the resident set's high-water mark
        work()
        return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 2**20

    def peak_flops(self) -> float | None:
        """The device's bfloat16 FLOP/s by its data sheet; None if unknown."""
        name = torch.cuda.get_device_name() if self.cuda else ""
        return next((flops for part, flops in PEAKS.items() if part in name), None)

    def matmul_flops(self) -> float:
        """FLOP/s of a large product of random matrices in bfloat16 (GPUs multiply constant ones faster)."""
        size = 64 if self.tiny else 8192
        a = torch.randn(size, size, dtype=torch.bfloat16, device=self.device)
        return 2.0 * size**3 / self.seconds(lambda: a @ a, 10)
