"""`make wheels` for another machine: what it has is left out, and versions that conflict with that are skipped."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.sandbox.package_environment import make_wheel
from tests.shared_run import REPOSITORY

PUBLISHED = {
    "tensors-2.0": ("torch>=2.11", "small"),
    "tensors-1.0": ("torch>=2.10", "small"),
    "small-1.0": ("old; python_version < '3.12'", "more; extra == 'more'"),
    "old-1.0": (),
    "more-1.0": (),
    "torch-2.10.0": ("cuda",),
    "torch-2.11.0": ("cuda",),
}


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed")
@pytest.mark.parametrize(
    ("python", "has", "asked", "names"),
    [
        ("3.12", "torch==2.11.0", "tensors", {"small-1.0", "tensors-2.0"}),
        ("3.12", "torch==2.10.0+cu130", "tensors", {"small-1.0", "tensors-1.0"}),
        ("3.11", "torch", "tensors", {"old-1.0", "small-1.0", "tensors-2.0"}),
        ("3.12", "", "small[more]", {"more-1.0", "small-1.0"}),
    ],
)
def test_what_fits_the_machine_is_found(python: str, has: str, asked: str, names: set[str], tmp_path: Path) -> None:
    index, wheels = tmp_path / "index", tmp_path / "wheels"
    index.mkdir()
    for each, requires in PUBLISHED.items():
        make_wheel(index, *each.split("-"), text="", requires=requires)
    (tmp_path / "pyproject.toml").write_text(f'[dependency-groups]\ngpu = ["{asked}"]\n')
    registry = {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(index), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)}
    given = {"WHEELS": str(wheels), "PY": python, "HAS": has}
    script = ["bash", str(REPOSITORY / "ares" / "wheels.sh")]
    subprocess.run(script, cwd=tmp_path, env=os.environ | registry | given, check=True)
    assert {path.name.removesuffix("-py3-none-any.whl") for path in wheels.iterdir()} == names


@pytest.mark.parametrize(("newest", "known"), [(17, 17), (27, 17), (28, 28), (30, 28), (34, 34), (41, 40)])
def test_uv_is_told_a_platform_that_it_knows(newest: int, known: int, tmp_path: Path) -> None:
    uv = tmp_path / "uv"
    uv.write_text('#!/bin/sh\necho "$@" >"$TOLD"\n')
    uv.chmod(0o755)
    given = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TOLD": str(tmp_path / "told"), "PYTHON": "true"}
    given |= {"PLATFORM": f"manylinux_2_{newest}_x86_64", "WHEELS": str(tmp_path)}
    subprocess.run(["bash", str(REPOSITORY / "ares" / "wheels.sh")], cwd=tmp_path, env=os.environ | given, check=True)
    assert f"--python-platform x86_64-manylinux_2_{known} " in (tmp_path / "told").read_text()
