"""Forked workers: what they inherit, who gets one, and that none outlives the command."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from ares import forks
from tests.short_runs import REPOSITORY

PARENT = """
import json, os, subprocess, sys, types
from ares import forks
forks._is_for_cuda = lambda: False
sys.modules["loaded_before"] = types.ModuleType("loaded_before")
with forks.forked_workers():
    for arguments in json.loads(sys.argv[1]):
        command = [sys.executable, forks.SCRIPT, *arguments]
        subprocess.run(command, check=True, env=os.environ | {"OF_THE_WORKER": "1"}, cwd="/")
    print([int(pid) for pid in open(f"/proc/self/task/{os.getpid()}/children").read().split()])
    sys.stdout.flush()
    sys.stdin.readline()
"""
WORKER = """
import json, os, sys
told = {"arguments": sys.argv[1:], "copied": "loaded_before" in sys.modules, "directory": os.getcwd(),
        "environment": os.environ.get("OF_THE_WORKER"), "parent": os.getppid()}
print("a worker's stream", flush=True)
open(sys.argv[1] + ".part", "w").write(json.dumps(told))
os.rename(sys.argv[1] + ".part", sys.argv[1])
"""
PLAIN = ["--language=PYTHON", "--serialized-runtime-env-context={}"]


def started(*workers: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PARENT, json.dumps(workers)]
    return subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def until(there: Path) -> dict[str, object]:
    deadline = time.monotonic() + 120
    while not there.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return json.loads(there.read_text())


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "worker.py").write_text(WORKER)
    return str(tmp_path / "worker.py")


def test_a_worker_is_a_copy_with_its_own_arguments_environment_directory_and_streams(
    tmp_path: Path, script: str
) -> None:
    parent = started([*PLAIN, script, str(tmp_path / "one")], [script, *PLAIN, str(tmp_path / "two")])
    written = [until(tmp_path / name) for name in ("one", "two")]
    printed, _ = parent.communicate("\n")
    assert parent.returncode == 0
    assert written[0]["arguments"] == [str(tmp_path / "one")]
    assert written[1]["arguments"] == [str(tmp_path / "two")]
    for each in written:
        assert each["copied"]
        assert each["directory"] == "/"
        assert each["environment"] == "1"
        assert f"[{each['parent']}]" in printed  # the server's child, which is the command's only one
    assert printed.count("a worker's stream") == 2


def test_the_server_ends_with_its_command_however_that_ends() -> None:
    parent = started()
    assert parent.stdout is not None
    (server,) = (psutil.Process(pid) for pid in json.loads(parent.stdout.readline()))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert psutil.wait_procs([server], timeout=60)[1] == []


@pytest.mark.parametrize("server", ["ares-nobody", None])
def test_where_nobody_answers_it_is_rays_own_worker(server: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != forks.SERVER}
    if server is not None:
        environment[forks.SERVER] = server
    command = [sys.executable, forks.SCRIPT, "--help"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert "Set up the environment for a Ray worker" in ended.stdout


def test_a_process_that_has_ray_forks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray reads its environment when it is loaded: a copy would have another node's."""
    monkeypatch.setitem(sys.modules, "ray", sys)
    monkeypatch.delenv(forks.SERVER, raising=False)
    with forks.forked_workers():
        assert forks.SERVER not in os.environ
