"""Wheels for another machine: what it has is left out, and versions that conflict with that are skipped."""

import zipfile
from pathlib import Path

import pytest

from ares import wheels
from ares.wheels import Target, collect, platforms, requirements

INDEX: dict[str, dict[str, list[str]]] = {
    "tensors": {"2.0": ["torch>=2.11", "small"], "1.0": ["torch>=2.10", "small"]},
    "small": {"1.0": ["old; python_version < '3.12'", "more; extra == 'more'"]},
    "old": {"1.0": []},
    "more": {"1.0": []},
}


def publish(asked: str, target: Target, folder: Path) -> Path:
    """The newest version of a package that was not skipped, as pip would download it."""
    name = next(each for each in INDEX if asked.startswith(each))
    version = next(each for each in INDEX[name] if f"!={each}" not in asked)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {each}" for each in INDEX[name][version])]
    with zipfile.ZipFile(wheel, "w") as opened:
        opened.writestr(f"{name}-{version}.dist-info/METADATA", "\n".join(lines))
    return wheel


@pytest.mark.parametrize(
    ("python", "torch", "asked", "names"),
    [
        ("3.12", "2.11.0", "tensors", ["small-1.0", "tensors-2.0"]),
        ("3.12", "2.10.0", "tensors", ["small-1.0", "tensors-1.0"]),
        ("3.11", None, "tensors", ["old-1.0", "small-1.0", "tensors-2.0"]),
        ("3.12", None, "small[more]", ["more-1.0", "small-1.0"]),
    ],
)
def test_what_fits_the_machine_is_found(
    python: str, torch: str | None, asked: str, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "_download", publish)
    target = Target(python, "manylinux_2_28_x86_64", {"torch": torch})
    collect([wheels.Requirement(asked)], target, tmp_path)
    assert sorted(path.name.removesuffix("-py3-none-any.whl") for path in tmp_path.iterdir()) == names


def test_a_machine_takes_the_wheels_of_earlier_systems() -> None:
    tags = platforms("manylinux_2_18_x86_64")
    assert tags[:3] == ["manylinux_2_18_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"]
    assert tags[-1] == "manylinux1_x86_64"


def test_what_make_gpu_and_make_setup_need_is_read_from_the_project() -> None:
    small, whole = ({each.name for each in requirements(purpose)} for purpose in ("gpu", "setup"))
    assert {"torch", "tensordict", "pytest"} <= small
    assert small.isdisjoint({"prefect", "ray", "mlflow", "vllm"})
    assert {"prefect", "ray", "mlflow", "vllm", "setuptools", "e2b"} <= whole
