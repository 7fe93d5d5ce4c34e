"""`make wheels`: the wheels that a machine without a network needs for its Python and platform, less what it has.

Covered: the packages of `make gpu` (the dependency group `gpu` of pyproject.toml) or of `make setup`, and their
dependencies, resolved wheel by wheel: what the machine has is not downloaded, and versions that conflict with it are
skipped. Not covered: source packages, and backtracking to another version for another package's sake (an error names
the package). Only Python's standard library, pip and `packaging` are needed.

    python -m ares.wheels FOLDER --for gpu --python 3.12 --platform manylinux_2_28_x86_64 --has torch==2.10.0 …
"""

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
OLDEST = 5
"""The least N of manylinux_2_N: a machine accepts wheels of its own N and of every lower one."""
LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}


@dataclass(frozen=True)
class Target:
    """The machine without a network."""

    python: str
    """3.12"""
    platform: str
    """manylinux_2_28_x86_64"""
    has: dict[str, str | None]
    """Packages that it has, with their versions if known."""

    def environment(self, extra: str) -> dict[str, str]:
        """What the markers of requirements are evaluated with."""
        return {
            "python_version": self.python, "python_full_version": f"{self.python}.0", "sys_platform": "linux",
            "platform_system": "Linux", "platform_machine": "".join(re.findall("x86_64|aarch64", self.platform)),
            "os_name": "posix", "implementation_name": "cpython", "platform_python_implementation": "CPython",
            "extra": extra,
        }  # fmt: skip

    def agrees(self, requirement: Requirement) -> bool:
        """Whether the version that it has, if any, meets a requirement."""
        version = self.has.get(canonicalize_name(requirement.name))
        return version is None or requirement.specifier.contains(version, prereleases=True)


def platforms(newest: str) -> list[str]:
    """Platform tags that a machine accepts, the newest first."""
    match = re.fullmatch(r"manylinux_2_(\d+)_(\w+)", newest)
    if match is None:
        return [newest]
    tags = []
    for number in range(int(match[1]), OLDEST - 1, -1):
        tags.append(f"manylinux_2_{number}_{match[2]}")
        if number in LEGACY:
            tags.append(f"{LEGACY[number]}_{match[2]}")
    return tags


def requirements(purpose: str) -> list[Requirement]:
    """What `make gpu`, or `make setup` on a CUDA machine, installs."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))
    if purpose == "gpu":
        return [Requirement(text) for text in project["dependency-groups"]["gpu"]]
    extras = project["project"]["optional-dependencies"]
    texts = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    return [Requirement(text) for text in [*texts, *_of_extras(extras, ["dev", "vllm"])]]


def _of_extras(extras: dict[str, list[str]], names: Iterable[str]) -> Iterator[str]:
    """Requirements of the project's extras; some name others of its own."""
    for name in names:
        for text in extras[name]:
            own = re.fullmatch(r"ares-rl\[([\w,]+)\]", text)
            yield from _of_extras(extras, own[1].split(",")) if own else [text]


def collect(wanted: Iterable[Requirement], target: Target, folder: Path) -> list[Path]:
    """Fill a folder with the wanted wheels and their dependencies. Raises ValueError if nothing fits."""
    asked: dict[str, list[Requirement]] = {}
    wheels: dict[str, Path] = {}
    waiting = list(wanted)
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in target.has:
            continue
        before = asked.setdefault(name, [])
        is_known = requirement.extras <= _extras(before) and name in wheels and _suits(wheels[name], [requirement])
        before.append(requirement)
        if not is_known:
            wheels[name], needed = _find(name, before, wheels.get(name), target, folder)
            waiting += needed
    return list(wheels.values())


def _find(
    name: str, asked: list[Requirement], wheel: Path | None, target: Target, folder: Path
) -> tuple[Path, list[Requirement]]:
    """A wheel that meets all requirements on a package, downloaded unless `wheel` does, and what it needs.

    Versions that conflict with what the target has are skipped.
    """
    specifiers = [str(each.specifier) for each in asked if str(each.specifier)]
    while True:
        if wheel is None or not _suits(wheel, asked):
            if wheel is not None:
                wheel.unlink()
            wheel = _download(name + ",".join(specifiers), target, folder)
        needed = list(_needed(wheel, _extras(asked), target))
        if all(map(target.agrees, needed)):
            return wheel, needed
        specifiers.append(f"!={parse_wheel_filename(wheel.name)[1]}")
        wheel.unlink()
        wheel = None


def _extras(asked: list[Requirement]) -> set[str]:
    return {extra for requirement in asked for extra in requirement.extras}


def _suits(wheel: Path, asked: list[Requirement]) -> bool:
    _, version, *_ = parse_wheel_filename(wheel.name)
    return all(requirement.specifier.contains(version, prereleases=True) for requirement in asked)


def _needed(wheel: Path, extras: Iterable[str], target: Target) -> Iterator[Requirement]:
    """Requirements of a wheel on the target."""
    (distribution,) = distributions(path=[str(wheel)])
    for requirement in map(Requirement, distribution.requires or []):
        marker = requirement.marker
        if marker is None or any(marker.evaluate(target.environment(extra)) for extra in ("", *extras)):
            yield requirement


def _download(asked: str, target: Target, folder: Path) -> Path:
    tags = [word for platform in platforms(target.platform) for word in ("--platform", platform)]
    with tempfile.TemporaryDirectory(dir=folder) as beside:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--only-binary=:all:", "--implementation", "cp", "--python-version", target.python, *tags,
                   "--dest", beside, asked]  # fmt: skip
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode:
            raise ValueError(f"no wheel of {asked} for Python {target.python} on {target.platform}: {ended.stderr}")
        (wheel,) = Path(beside).iterdir()
        return wheel.replace(folder / wheel.name)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m ares.wheels")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--for", dest="purpose", choices=["gpu", "setup"], default="gpu")
    parser.add_argument("--python", default=f"{sys.version_info[0]}.{sys.version_info[1]}")
    parser.add_argument("--platform", default="manylinux_2_28_x86_64")
    parser.add_argument("--has", nargs="*", default=[], metavar="NAME[==VERSION]")
    asked = parser.parse_args()
    has: dict[str, str | None] = {}
    for name, _, version in (each.partition("==") for each in asked.has):
        has[canonicalize_name(name)] = version or None
    asked.folder.mkdir(parents=True, exist_ok=True)
    try:
        wheels = collect(requirements(asked.purpose), Target(asked.python, asked.platform, has), asked.folder)
    except ValueError as error:
        sys.exit(str(error))
    size = sum(wheel.stat().st_size for wheel in wheels)
    sys.stdout.write(f"{len(wheels)} wheels, {size / 2**20:.0f} MiB, in {asked.folder}\n")


if __name__ == "__main__":
    main()
