"""`ares up`: the pages of Prefect and MLflow on this machine, in the foreground, on loopback only.

Not covered: deployments and a worker; runs are started by `ares train` and appear on the pages.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ares.run import runs_directory
from ares.tracking import tracking_uri


class ServiceError(RuntimeError):
    """A server did not start, or stopped by itself."""


@contextmanager
def services(prefect_port: int, mlflow_port: int) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """The two servers for the duration; they are ended with whatever they started."""
    runs = runs_directory()
    runs.mkdir(parents=True, exist_ok=True)
    binaries = Path(sys.executable).parent
    api = f"http://127.0.0.1:{prefect_port}/api"
    commands = {
        "Prefect": [str(binaries / "prefect"), "server", "start", "--host", "127.0.0.1", "--port", str(prefect_port)],
        "MLflow": [str(binaries / "mlflow"), "server", "--backend-store-uri", tracking_uri(None, runs),
                   "--host", "127.0.0.1", "--port", str(mlflow_port), "--workers", "1"],
    }  # fmt: skip
    environment = os.environ | {"PREFECT_UI_API_URL": api, "PREFECT_API_URL": api}
    started = {
        name: subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
        for name, command in commands.items()
    }
    try:
        yield started
    finally:
        for process in started.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in started.values():
            process.wait()


def wait_for_end(started: dict[str, subprocess.Popen[bytes]]) -> None:
    """Return when the user interrupts. Raises ServiceError when a server ends before that."""
    while True:
        for name, process in started.items():
            if process.poll() is not None:
                raise ServiceError(f"{name} ended (exit code {process.returncode}); is its port taken?")
        time.sleep(0.5)
