"""The processor and torch of a run: on others, kernels sum in another order, and last bits differ.

Covered: what run.json records of the machine that leads a run, and the warning when it continues elsewhere. Not
covered: other machines of a cluster; GPUs, which may sum in any order; whether a machine can do the work
(ares/runs/doctor.py).
"""

import logging
import platform
from pathlib import Path

import torch

logger = logging.getLogger(__name__)


def describe_machine() -> dict[str, str]:
    """Processor, the vector instructions that torch uses on it, and torch's version."""
    return {
        "processor": _processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "torch": str(torch.__version__),
    }


def with_this_machine(run: str, machines: list[dict[str, str]]) -> list[dict[str, str]]:
    """The machines that a run was on so far, and this one if it differs from the last; a warning then says so."""
    here = describe_machine()
    if machines[-1:] == [here]:
        return machines
    if machines:
        changed = [f"{name} {machines[-1].get(name)} → {value}" for name, value in here.items()
                   if machines[-1].get(name) != value]  # fmt: skip
        logger.warning(
            "%s continues on another machine: %s. Last bits of what it computes from here on may differ from those of "
            "a run that stayed on one", run, ", ".join(changed),
        )  # fmt: skip
    return [*machines, here]


def _processor() -> str:
    """The processor's name, as Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
