"""The configurations the sandbox is tested in, a way to judge programs in each, and the processes that pools keep."""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest

from sandbox import Program, SandboxPool
from sandbox.pool import Worker
from sandbox.worker_process import WorkerProcess

REPOSITORY = Path(__file__).resolve().parents[2]
DRIVER = Path(__file__).with_name("driver.py")
OTHER_UID = 54321
GOOD = Program(source="def f(x): return x + 1", tests=["assert f(1) == 2"])
SLOW = Program(source="import time\ndef f(x):\n time.sleep(0.3)\n return x + 1", tests=["assert f(1) == 2"])


@dataclasses.dataclass(frozen=True)
class Configuration:
    """uid: of the process that owns the pool, None for the current one; refuse: system calls that fail with EPERM."""

    name: str
    uid: int | None = None
    refuse: tuple[str, ...] = ()
    min_isolation: str = "standard"
    layers: tuple[str, ...] | None = None


ROOT = Configuration("root", uid=0)
USERNS = Configuration("userns", uid=OTHER_UID)
REFUSED = Configuration("refused", uid=OTHER_UID, refuse=("unshare", "setns"))
OPTED_OUT = Configuration("opted_out", uid=OTHER_UID, refuse=("unshare", "setns"), min_isolation="none")
CONFIGURATIONS = (ROOT, USERNS, REFUSED, OPTED_OUT)


@cache
def interpreter_for(uid: int) -> str | None:
    """A Python that this user can execute: ours, or a system one from 3.11 on."""
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        check = [python, "-c", "import sys; print(sys.version_info >= (3, 11), sys.executable, sys.prefix)"]
        try:
            done = subprocess.run(check, user=uid, group=uid, extra_groups=[], capture_output=True, text=True, env={})
        except OSError:
            continue
        # An interpreter whose own installation it cannot reach runs as another one.
        if done.returncode == 0 and done.stdout.startswith("True") and _is_readable(done.stdout.split()[2], uid):
            return python
    return None


def _is_readable(path: str, uid: int) -> bool:
    return subprocess.run(["/usr/bin/test", "-r", path], user=uid, group=uid, extra_groups=[]).returncode == 0


def require(configuration: Configuration) -> None:
    """Skip, saying why, if this machine cannot provide the configuration."""
    if configuration.uid is None or configuration.uid == os.getuid():
        return
    if os.getuid() != 0:
        pytest.skip(f"{configuration.name}: only root can change to user {configuration.uid}")
    if interpreter_for(configuration.uid) is None:
        pytest.skip(f"{configuration.name}: no Python from 3.11 on that user {configuration.uid} can execute")


def judge(
    configuration: Configuration, programs: list[Program], env: dict[str, str] | None = None, **pool: Any
) -> dict[str, Any]:
    """The driver's reply for these programs in this configuration."""
    require(configuration)
    options: dict[str, Any] = {"num_workers": 2, "min_isolation": configuration.min_isolation, **pool}
    if configuration.layers is not None:
        options["layers"] = configuration.layers
    request = {
        "programs": [dataclasses.asdict(program) for program in programs],
        "pool": options,
        "refuse": configuration.refuse,
    }
    change: dict[str, Any] = {}
    python = sys.executable
    if configuration.uid not in (None, os.getuid()):
        assert configuration.uid is not None
        change = {"user": configuration.uid, "group": configuration.uid, "extra_groups": []}
        python = str(interpreter_for(configuration.uid))
    command = [python, "-P", str(DRIVER), str(REPOSITORY)]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
    done = subprocess.run(
        command, input=json.dumps(request), capture_output=True, text=True, env=environment, timeout=600, **change
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {**json.loads(done.stdout), "stderr": done.stderr}


def descendants(pid: int) -> set[int]:
    """All processes below one; orphans come to the nearest subreaper."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return {child.pid for child in psutil.Process(pid).children(recursive=True)}
    return set()


def workers_of(pool: SandboxPool) -> list[Worker]:
    return [worker for worker in (*pool._busy, *pool._free) if worker is not None]


def processes_of(pool: SandboxPool) -> set[int]:
    """The workers' processes, with all below them."""
    workers = [worker for worker in workers_of(pool) if isinstance(worker, WorkerProcess)]
    return {pid for worker in workers for pid in (worker.pid, *descendants(worker.pid))}
