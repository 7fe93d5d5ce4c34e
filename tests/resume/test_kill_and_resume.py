"""A killed run ends bit-identical to the run with Prefect, Ray and MLflow, whether it is resumed with them or without.

Without: `ares train --plain` in processes that find neither these packages nor vLLM.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared_run import REPOSITORY, SMALL, as_a_user
from tests.short_runs import assert_same, assert_same_commits, is_logged, train

ABSENT = ("prefect", "ray", "mlflow", "vllm")


def train_without_them(runs: Path, *arguments: str, kill_at: str | None = None) -> int:
    for name in ABSENT:
        (runs / "absent" / name).mkdir(parents=True, exist_ok=True)
        (runs / "absent" / name / "__init__.py").write_text(f"raise ModuleNotFoundError('No module named {name!r}')")
    path = os.pathsep.join([str(runs / "absent"), str(REPOSITORY)])
    environment = os.environ | as_a_user(runs) | {"PYTHONPATH": path} | ({"KILL_AT": kill_at} if kill_at else {})
    command = [sys.executable, "-m", "tests.killed_cli", *arguments, "--plain"]
    ended = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stdout + ended.stderr
    return ended.returncode


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of runs with one, `killed`, that was killed in an update without them."""
    runs = tmp_path_factory.mktemp("plain")
    arguments = ["train", "tiny-math", *SMALL, "--run", "killed"]
    assert train_without_them(runs, *arguments, kill_at="2:update:inside") == -signal.SIGKILL
    return runs


def damage_two_files(run: Path) -> None:
    batch, kept = (run / "steps/000002" / file for file in ("batch.safetensors", "phases.jsonl"))
    content = bytearray(batch.read_bytes())
    content[-1] ^= 1
    batch.write_bytes(content)
    *lines, last = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join([*lines, last[: len(last) // 2]]))  # as a disk that lost power leaves it


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_killed_in_an_update_with_two_files_damaged_it_ends_in_the_same_bits(
    runs: Path, killed: Path, whole: bool
) -> None:
    """Killed as a plain run, which is cheaper; or under all of them, too."""
    name = f"killed-{whole}"
    if whole:
        assert train(runs, name, kill_at="2:update:inside", whole=True) == -signal.SIGKILL
    else:
        shutil.copytree(killed / "killed", runs / name)
    damage_two_files(runs / name)
    assert train(runs, name, whole=True) == 0
    assert is_logged(runs, name)
    assert_same(runs, "uninterrupted", name)


def test_resumed_without_them_it_ends_in_the_same_bits(runs: Path, killed: Path, tmp_path: Path) -> None:
    shutil.copytree(killed / "killed", tmp_path / "plain")
    assert train_without_them(tmp_path, "resume", "plain") == 0
    assert_same_commits(runs, "uninterrupted", "plain", tmp_path)
