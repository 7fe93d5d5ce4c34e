"""`ares train --plain`: the same loop in one process, where Prefect, Ray, MLflow and vLLM are not installed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ares.store import RunStore
from tests.shared_run import REPOSITORY, SMALL, as_a_user

ABSENT = ("prefect", "ray", "mlflow", "vllm")


@pytest.fixture
def without(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that finds none of these packages."""
    packages = tmp_path / "absent"
    for name in ABSENT:
        (packages / name).mkdir(parents=True)
        (packages / name / "__init__.py").write_text(f"raise ModuleNotFoundError('No module named {name!r}')")
    path = os.pathsep.join([str(packages), str(REPOSITORY)])
    return os.environ | as_a_user(tmp_path / "runs") | {"PYTHONPATH": path}


def trained(environment: dict[str, str], *arguments: str, kill_at: str | None = None) -> int:
    command = [sys.executable, "-m", "tests.killed_cli", *arguments, "--plain"]
    environment = environment | ({"KILL_AT": kill_at} if kill_at else {})
    ended = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stdout + ended.stderr
    return ended.returncode


def test_it_is_killed_and_resumed_and_ends_as_the_run_with_all_of_them(
    runs: Path, tmp_path: Path, without: dict[str, str]
) -> None:
    command = ["train", "tiny-math", *SMALL, "--run", "plain"]
    assert trained(without, *command, kill_at="2:update:inside") == -signal.SIGKILL
    assert trained(without, "resume", "plain") == 0
    whole, plain = RunStore(runs / "uninterrupted"), RunStore(tmp_path / "runs" / "plain")
    assert plain.committed_steps() == whole.committed_steps()
    for step in whole.committed_steps():
        expected, found = whole.read_commit(step), plain.read_commit(step)
        assert found.metrics == expected.metrics
        assert found.state == expected.state
        assert found.artifacts == expected.artifacts
