"""`ares up`: Prefect's server, MLflow's, a worker and the deployments on this machine, on loopback only.

Covered: running them in the foreground, restarting what dies, a clean stop by Ctrl-C or `ares down`; they end with an
`ares up` that is killed. All their data is in the runs directory: `.services/` (Prefect's database, logs, the record of
who runs them) and `mlflow.db`.
Not covered: servers elsewhere; point PREFECT_API_URL at one and run `prefect deploy --all` and a worker there.
"""

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from ares.errors import UserError
from ares.store import RunHeld, held, is_held, runs_directory, tracking_uri
from flows.servers import POOL, service
from flows.servers.deployment import register

START_SECONDS = 180.0
RESTART_SECONDS = 10.0
"""A service is restarted no more often: one that keeps dying must not stop the others, which runs need."""


class ServiceError(UserError, RuntimeError):
    """A server did not start."""


@dataclass(frozen=True)
class Ports:
    """Addresses of the two UIs."""

    prefect: int
    mlflow: int

    @property
    def api(self) -> str:
        """Address of Prefect's API."""
        return f"http://127.0.0.1:{self.prefect}/api"

    @property
    def mlflow_page(self) -> str:
        """Address of MLflow's UI."""
        return f"http://127.0.0.1:{self.mlflow}"

    @property
    def health_pages(self) -> dict[str, str]:
        """Health addresses, which answer 200 while a server is well."""
        return {"Prefect": f"{self.api}/health", "MLflow": f"{self.mlflow_page}/health"}


class Services:
    """The three processes, and the record that `ares down` reads."""

    def __init__(
        self, ports: Ports, concurrent_runs: int, say: Callable[[str], None], notify: str | None = None
    ) -> None:
        self.ports = ports
        self.concurrent_runs = concurrent_runs
        self.notify = notify
        self.say = say
        self.runs = runs_directory().absolute()
        self.directory = self.runs / ".services"
        self.processes: dict[str, service.Service] = {}
        self.restarted: dict[str, float] = {}

    def __enter__(self) -> "Services":
        """Start everything; returns when it is ready for runs. Raises ServiceError or DeploymentError."""
        with ExitStack() as undo:
            try:
                undo.enter_context(held(self.directory))
            except RunHeld:
                pid = _record(self.runs)["pid"]
                raise ServiceError(f"`ares up` is running already (pid {pid}); `ares down` ends it") from None
            for name, port in (("Prefect", self.ports.prefect), ("MLflow", self.ports.mlflow)):
                _check_free(name, port)
            (self.directory / "logs").mkdir(exist_ok=True)
            record = {"pid": os.getpid(), "api": self.ports.api, "mlflow": self.ports.mlflow_page}
            (self.directory / "services.json").write_text(json.dumps(record))
            signal.signal(signal.SIGTERM, _interrupt)
            undo.callback(self.stop)
            self.start("Prefect")
            self.start("MLflow")
            self._wait_for("Prefect")
            register(self.ports.api, self.concurrent_runs, self.notify)
            self.start("worker")
            self._wait_for("MLflow")
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._undo.close()

    def watch(self) -> None:
        """Restart whatever dies, until interrupted."""
        while True:
            for name in list(self.processes):
                self.look_after(name, time.monotonic())
            time.sleep(0.5)

    def look_after(self, name: str, now: float) -> None:
        """Restart a service that has ended."""
        code = self.processes[name].poll()
        if code is None or (name in self.restarted and now - self.restarted[name] < RESTART_SECONDS):
            return
        service.kill_group(self.processes[name])  # its children may outlive it, and hold its port
        self.restarted[name] = now
        self.say(f"{name} ended (exit code {code}) and is started again; see {self._log(name)}")
        self.start(name)

    def stop(self) -> None:
        """End the worker, which ends its runs (they are resumable), then both servers."""
        for names in (("worker",), ("MLflow", "Prefect")):
            service.end([self.processes.pop(name) for name in names if name in self.processes])
        (self.directory / "services.json").unlink(missing_ok=True)

    def start(self, name: str) -> None:
        """Start one of the services."""
        home = self.directory / "prefect"
        settings = {
            "ARES_RUNS": str(self.runs),
            "PREFECT_HOME": str(home),
            # A Prefect profile may set these outside PREFECT_HOME.
            "PREFECT_LOCAL_STORAGE_PATH": str(home / "storage"),
            "PREFECT_SERVER_MEMO_STORE_PATH": str(home / "memo_store.toml"),
            "PREFECT_API_URL": self.ports.api,
            "PREFECT_UI_API_URL": self.ports.api,
            # Seven processes for evaluating language-model traces, which ares does not use.
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }
        if name == "worker":
            settings |= {
                "PREFECT_LOGGING_LEVEL": "INFO",
                "PREFECT_WORKER_QUERY_SECONDS": "2",
                "ARES_MLFLOW_PAGE": self.ports.mlflow_page,
            }
        with self._log(name).open("ab") as log:
            self.processes[name] = service.start(*self._command(name), settings=settings, output=log)

    def _command(self, name: str) -> list[str]:
        """Module and arguments of a service."""
        host, port = ["--host", "127.0.0.1"], "--port"
        if name == "Prefect":
            return ["prefect", "server", "start", *host, port, str(self.ports.prefect)]
        if name == "worker":
            return ["prefect", "worker", "start", "--pool", POOL, "--name", f"ares-{socket.gethostname()}"]
        return ["mlflow", "server", "--backend-store-uri", tracking_uri(None, self.runs), "--artifacts-destination",
                str(self.runs / "mlartifacts"), *host, port, str(self.ports.mlflow), "--workers", "1"]  # fmt: skip

    def _log(self, name: str) -> Path:
        return self.directory / "logs" / f"{name.lower()}.log"

    def _wait_for(self, name: str) -> None:
        process = self.processes[name]
        if not service.wait_for(process, self.ports.health_pages[name], START_SECONDS):
            raise ServiceError(f"{name} did not start (exit code {process.poll()}); see {self._log(name)}")


def end_services() -> None:
    """`ares down`: end the `ares up` of this runs directory and wait for it. Raises ServiceError."""
    directory = runs_directory().absolute() / ".services"
    if not is_held(directory):
        raise ServiceError(f"No `ares up` is running for {runs_directory()}")
    pid = int(_record(directory.parent)["pid"])
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 6 * service.STOP_SECONDS
    while is_held(directory):
        if time.monotonic() > deadline:
            raise ServiceError(f"`ares up` (pid {pid}) does not end; see {directory / 'logs'}")
        time.sleep(0.1)


def _record(runs: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((runs / ".services" / "services.json").read_text())
    return record


def _check_free(name: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            option = f"--{name.lower()}-port"
            raise ServiceError(
                f"{name}: port {port} is taken ({error.strerror}); choose another with {option}"
            ) from error


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # another one would interrupt the stop
    raise KeyboardInterrupt
