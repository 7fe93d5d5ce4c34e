"""Runs a module as a service of another process, and ends with it: `python -m flows.servers.service PARENT MODULE …`.

A parent that is killed cannot end its services. Each is a process group of its own, and ends as a whole.
"""

import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import IO

from rewards.child_process import environment

STOP_SECONDS = 10.0


Service = subprocess.Popen[bytes]


def start(module: str, *arguments: str, settings: dict[str, str], output: IO[bytes] | None = None) -> Service:
    """Start `python -m module` with these arguments and environment variables. output: default: a pipe.

    Modules in the working directory do not shadow any (-P).
    """
    command = [sys.executable, "-P", "-m", "flows.servers.service", str(os.getpid()), module, *arguments]
    return subprocess.Popen(
        command, env=environment() | settings, start_new_session=True, stdin=subprocess.DEVNULL,
        stdout=output or subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def end(services: list[Service]) -> None:
    """End services, all at the same time, and whatever they started."""
    for service in services:
        with suppress(ProcessLookupError):
            os.killpg(service.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    for service in services:
        with suppress(subprocess.TimeoutExpired):
            service.wait(timeout=max(deadline - time.monotonic(), 0.0))
        kill_group(service)


def kill_group(service: Service) -> None:
    """Kill a service and what it started. Returns once they are gone, with their ports, or after a second."""
    with suppress(ProcessLookupError):
        os.killpg(service.pid, signal.SIGKILL)
        service.wait()
        for _ in range(20):
            os.killpg(service.pid, 0)
            time.sleep(0.05)
    service.wait()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_end_with, args=(int(sys.argv[1]),), daemon=True).start()
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
