"""Runs a module as a service of another process, and ends with it: `python -m flows.servers.service PARENT MODULE …`.

A parent that is killed cannot end its services. Each is a process group of its own, and ends as a whole.
"""

import os
import runpy
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import IO

import httpx

from rewards.child_process import end_with, environment

STOP_SECONDS = 15.0
"""Time for services to end before they are killed."""
Service = subprocess.Popen[bytes]


def start(module: str, *arguments: str, settings: dict[str, str], output: IO[bytes]) -> Service:
    """Start `python -m module` with these arguments and environment variables.

    Modules in the working directory do not shadow any (-P).
    """
    command = [sys.executable, "-P", "-m", "flows.servers.service", str(os.getpid()), module, *arguments]
    return subprocess.Popen(
        command, env=environment() | settings, start_new_session=True, stdin=subprocess.DEVNULL,
        stdout=output, stderr=subprocess.STDOUT,
    )  # fmt: skip


def wait_for(service: Service, address: str, seconds: float) -> bool:
    """Wait until a service answers at its health address; False if it ended, or did not answer in time."""
    deadline = time.monotonic() + seconds
    while not answers(address):
        if service.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def answers(address: str) -> bool:
    """Whether a server of this machine answers at its health address."""
    try:
        # Nothing is encrypted, so no certificates are loaded, which takes 50 ms; nor is any proxy asked.
        return httpx.get(address, timeout=5, verify=False, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


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


if __name__ == "__main__":
    end_with(int(sys.argv[1]))
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
