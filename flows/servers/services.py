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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from ares.errors import UserError
from ares.store import database_beside, held, is_held, runs_directory
from flows.servers import POOL, service
from flows.servers.deployment import register

START_SECONDS = 180.0
LOOK_SECONDS = 5.0
"""Between looks at what has died: a service that keeps dying must not stop the others, which runs need."""


class Services:
    """The three processes, and the record that `ares down` reads. say: prints a line for the user."""

    def __init__(self, prefect_port: int, mlflow_port: int, say: Callable[[str], None]) -> None:
        self.say = say
        self.runs = runs_directory().absolute()
        self.directory = self.runs / ".services"
        self.ports = {"Prefect": prefect_port, "MLflow": mlflow_port}
        self.api = f"http://127.0.0.1:{prefect_port}/api"
        self.mlflow = f"http://127.0.0.1:{mlflow_port}"
        self.health = {"Prefect": f"{self.api}/health", "MLflow": f"{self.mlflow}/health"}
        """Addresses that answer 200 while a server is well."""
        host = ["--host", "127.0.0.1", "--port"]
        self.commands = {
            "Prefect": ["prefect", "server", "start", *host, str(prefect_port)],
            "MLflow": ["mlflow", "server", *host, str(mlflow_port), "--workers", "1", "--backend-store-uri",
                       database_beside(self.runs), "--artifacts-destination", str(self.runs / "mlartifacts")],
            "worker": ["prefect", "worker", "start", "--pool", POOL, "--name", f"ares-{socket.gethostname()}"],
        }  # fmt: skip
        """Module and arguments of each."""
        self.processes: dict[str, service.Service] = {}

    @contextmanager
    def running(self, concurrent_runs: int, notify: str | None) -> Iterator[None]:
        """Inside, everything is ready for runs. Raises UserError."""
        if is_held(self.directory):
            raise UserError(f"`ares up` is running already (pid {_pid(self.directory)}); `ares down` ends it")
        with held(self.directory):
            for name, port in self.ports.items():
                try:
                    socket.create_server(("127.0.0.1", port)).close()
                except OSError as error:
                    other = f"({error.strerror}); choose another with --{name.lower()}-port"
                    raise UserError(f"{name}: port {port} is taken {other}") from error
            (self.directory / "logs").mkdir(exist_ok=True)
            record = {"pid": os.getpid(), "api": self.api, "mlflow": self.mlflow}
            (self.directory / "services.json").write_text(json.dumps(record))
            signal.signal(signal.SIGTERM, _interrupt)
            try:
                self.start("Prefect")
                self.start("MLflow")
                self._wait_for("Prefect")
                register(self.api, concurrent_runs, notify)
                self.start("worker")
                self._wait_for("MLflow")
                yield
            finally:
                self.stop()

    def watch(self) -> None:
        """Restart whatever dies, until interrupted."""
        while True:
            self.restart_dead()
            time.sleep(LOOK_SECONDS)

    def restart_dead(self) -> None:
        """Start again what has ended."""
        for name, process in self.processes.items():
            if (code := process.poll()) is not None:
                service.kill_group(process)  # its children may outlive it, and hold its port
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
            "PREFECT_API_URL": self.api,
            "PREFECT_UI_API_URL": self.api,
            # Seven processes for evaluating language-model traces, which ares does not use.
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }
        if name == "worker":
            settings |= {
                "PREFECT_LOGGING_LEVEL": "INFO",
                "PREFECT_WORKER_QUERY_SECONDS": "2",
                "ARES_MLFLOW_PAGE": self.mlflow,
            }
        with self._log(name).open("ab") as log:
            self.processes[name] = service.start(*self.commands[name], settings=settings, output=log)

    def _log(self, name: str) -> Path:
        return self.directory / "logs" / f"{name.lower()}.log"

    def _wait_for(self, name: str) -> None:
        process = self.processes[name]
        if not service.wait_for(process, self.health[name], START_SECONDS):
            raise UserError(f"{name} did not start (exit code {process.poll()}); see {self._log(name)}")


def end_services() -> None:
    """`ares down`: end the `ares up` of this runs directory and wait for it. Raises UserError."""
    directory = runs_directory().absolute() / ".services"
    if not is_held(directory):
        raise UserError(f"No `ares up` is running for {runs_directory()}")
    pid = _pid(directory)
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 6 * service.STOP_SECONDS
    while is_held(directory):
        if time.monotonic() > deadline:
            raise UserError(f"`ares up` (pid {pid}) does not end; see {directory / 'logs'}")
        time.sleep(0.1)


def _pid(directory: Path) -> int:
    return int(json.loads((directory / "services.json").read_text())["pid"])


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # another one would interrupt the stop
    raise KeyboardInterrupt
