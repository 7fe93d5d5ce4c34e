"""`make wheels`: the wheels that a machine without a network needs for its Python and platform, less what it has.

Covered: the packages of `make gpu` (the dependency group `gpu` of pyproject.toml) or of `make setup`, and their
dependencies, resolved wheel by wheel: what the machine has is not downloaded, and versions that conflict with it are
skipped. Not covered: source packages, and backtracking to another version for another package's sake (an error names
the package). Only Python's standard library and pip are needed.

    python -m ares.wheels FOLDER --for gpu --python 3.12 --platform manylinux_2_28_x86_64 --has torch==2.10.0 …
"""

import argparse
import email.parser
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name, parse_wheel_filename

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
            "platform_system": "Linux", "os_name": "posix", "platform_machine": _machine(self.platform),
            "implementation_name": "cpython", "platform_python_implementation": "CPython", "extra": extra,
        }  # fmt: skip

    def options(self) -> list[str]:
        """pip's options for wheels that fit."""
        options = ["--only-binary=:all:", "--implementation", "cp", "--python-version", self.python]
        return options + [word for platform in platforms(self.platform) for word in ("--platform", platform)]


@dataclass
class PackageRequest:
    """The requirements on a package so far."""

    requirements: list[Requirement] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    wheel: Path | None = None

    @property
    def extras(self) -> set[str]:
        """Of all requirements."""
        return {extra for requirement in self.requirements for extra in requirement.extras}

    def asked(self, name: str) -> str:
        """One requirement for pip."""
        specifiers = [str(each.specifier) for each in self.requirements if str(each.specifier)]
        return name + ",".join([*specifiers, *(f"!={version}" for version in self.passed_over)])

    def suits(self) -> bool:
        """Whether the wheel that was found meets all requirements."""
        return self.wheel is not None and all(
            each.specifier.contains(parse_wheel_filename(self.wheel.name)[1], prereleases=True)
            for each in self.requirements
        )


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


def collect(wanted: Iterable[Requirement], target: Target, folder: Path) -> list[Path]:
    """Fill a folder with the wanted wheels and their dependencies. Raises ValueError if nothing fits."""
    packages: dict[str, PackageRequest] = {}
    waiting = list(wanted)
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in target.has:
            continue
        package = packages.setdefault(name, PackageRequest())
        known = package.suits() and requirement.extras <= package.extras
        package.requirements.append(requirement)
        if known and package.suits():
            continue
        waiting += _found(name, package, target, folder)
    return [package.wheel for package in packages.values() if package.wheel is not None]


def _found(name: str, package: PackageRequest, target: Target, folder: Path) -> list[Requirement]:
    """Download a suitable wheel; returns what it needs. Versions that conflict with what the target has are skipped."""
    while True:
        if not package.suits():
            if package.wheel is not None:
                package.wheel.unlink()
            package.wheel = _download(package.asked(name), target, folder)
        assert package.wheel is not None
        needed = list(_needed(package.wheel, package.extras, target))
        if all(_agrees(requirement, target) for requirement in needed):
            return needed
        package.passed_over.append(str(parse_wheel_filename(package.wheel.name)[1]))
        package.wheel.unlink()
        package.wheel = None


def _agrees(requirement: Requirement, target: Target) -> bool:
    version = target.has.get(canonicalize_name(requirement.name))
    return version is None or requirement.specifier.contains(version, prereleases=True)


def _needed(wheel: Path, extras: Iterable[str], target: Target) -> Iterator[Requirement]:
    """Requirements of a wheel on the target."""
    with zipfile.ZipFile(wheel) as opened:
        name = next(each for each in opened.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", each))
        metadata = email.parser.BytesParser().parsebytes(opened.read(name), headersonly=True)
    for text in metadata.get_all("Requires-Dist") or []:
        requirement = Requirement(text)
        marker: Any = requirement.marker
        if marker is None or any(marker.evaluate(target.environment(extra)) for extra in ("", *extras)):
            yield requirement


def _download(asked: str, target: Target, folder: Path) -> Path:
    with tempfile.TemporaryDirectory(dir=folder) as beside:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--dest", beside, *target.options(), asked]  # fmt: skip
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode:
            raise ValueError(f"no wheel of {asked} for Python {target.python} on {target.platform}: {ended.stderr}")
        (wheel,) = Path(beside).iterdir()
        return wheel.replace(folder / wheel.name)


def _of_extras(extras: dict[str, list[str]], names: Iterable[str]) -> Iterator[str]:
    """Requirements of the project's extras; some name others of its own."""
    for name in names:
        for text in extras[name]:
            own = re.fullmatch(r"ares-rl\[([\w,]+)\]", text)
            yield from _of_extras(extras, own[1].split(",")) if own else [text]


def _machine(platform: str) -> str:
    return next((name for name in ("x86_64", "aarch64") if platform.endswith(name)), platform)


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
    target = Target(asked.python, asked.platform, has)
    try:
        wheels = collect(requirements(asked.purpose), target, asked.folder)
    except ValueError as error:
        sys.exit(str(error))
    size = sum(wheel.stat().st_size for wheel in wheels)
    sys.stdout.write(f"{len(wheels)} wheels, {size / 2**20:.0f} MiB, in {asked.folder}\n")


if __name__ == "__main__":
    main()
