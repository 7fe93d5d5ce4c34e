"""`ares up`: Prefect's server, MLflow's, a worker and the deployments on this machine, on loopback only.

Covered: running them in the foreground, restarting what dies, a clean stop by Ctrl-C or `ares down`, ending what a
killed `ares up` has left. Each service is a process group and ends as a whole. All their data is in the runs directory:
`.services/` (Prefect's database, logs, the record of who runs them) and `mlflow.db`.
Not covered: servers elsewhere; point PREFECT_API_URL at one and run `prefect deploy --all` and a worker there.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import httpx

from ares.errors import UserError
from ares.store import runs_directory, tracking_uri
from flows.prefect_http import as_client
from flows.servers import POOL

START_SECONDS = 180.0
STOP_SECONDS = 10.0
RESTARTS = 5
QUIET_SECONDS = 60.0
"""A service is restarted at most RESTARTS times in so many seconds; then it waits, and the others keep running."""
NAMING_SECONDS = 5.0
_MARK = "ARES_SERVICES"
"""Environment variable that marks services, to find those whose `ares up` was killed."""


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
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.restarts: dict[str, list[float]] = {}

    def __enter__(self) -> "Services":
        """Start everything; returns when it is ready for runs. Raises ServiceError or DeploymentError."""
        running = running_services()
        if running is not None:
            raise ServiceError(f"`ares up` is running already (pid {running['pid']}); `ares down` ends it")
        if _end_left(self.directory):
            self.say("Ended what an `ares up` that was killed had left")
        for name, port in (("Prefect", self.ports.prefect), ("MLflow", self.ports.mlflow)):
            _check_free(name, port)
        (self.directory / "logs").mkdir(parents=True, exist_ok=True)
        own = os.getpid()
        description = {"pid": own, "started": _start_of(own), "api": self.ports.api,
                       "mlflow": f"http://127.0.0.1:{self.ports.mlflow}"}  # fmt: skip
        _record(self.runs).write_text(json.dumps(description))
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            for name in ("Prefect", "MLflow"):
                self._start(name)
            self._wait_for("Prefect", self.health_pages["Prefect"])
            from flows.servers.deployment import register  # imports Prefect's client, which `ares down` does not need

            register(self.ports.api, self.concurrent_runs, self.notify)
            self._start("worker")
            self._wait_for("MLflow", self.health_pages["MLflow"])
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @property
    def health_pages(self) -> dict[str, str]:
        """Health addresses, which answer 200 while a server is well."""
        return {"Prefect": f"{self.ports.api}/health", "MLflow": f"http://127.0.0.1:{self.ports.mlflow}/health"}

    def watch(self) -> None:
        """Restart whatever dies, until interrupted."""
        named = time.monotonic()
        while True:
            for name in list(self.processes):
                self.look_after(name, time.monotonic())
            if time.monotonic() - named > NAMING_SECONDS:
                name_queued(self.ports.api)
                named = time.monotonic()
            time.sleep(0.5)

    def look_after(self, name: str, now: float) -> None:
        """Restart a service that has ended. One that keeps dying must not stop the others, which runs need."""
        code = self.processes[name].poll()
        recent = [at for at in self.restarts.get(name, []) if now - at < QUIET_SECONDS]
        if code is None or len(recent) == RESTARTS:
            return
        _kill_group(self.processes[name].pid, self.directory)  # its children may outlive it, and hold its port
        self.restarts[name] = [*recent, now]
        last = len(recent) + 1 == RESTARTS
        then = f"; the last time within {QUIET_SECONDS:.0f} s" if last else ""
        log = self.directory / "logs" / f"{name.lower()}.log"
        self.say(f"{name} ended (exit code {code}) and is started again{then}; see {log}")
        self._start(name)

    def stop(self) -> None:
        """End the worker, which ends its runs (they are resumable), then both servers."""
        for names in (("worker",), ("MLflow", "Prefect")):
            _end([self.processes.pop(name) for name in names if name in self.processes], self.directory)
        _record(self.runs).unlink(missing_ok=True)

    def _start(self, name: str) -> None:
        home = self.directory / "prefect"
        environment = os.environ | {
            "ARES_RUNS": str(self.runs),
            _MARK: str(self.directory),
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
            environment |= {
                "PREFECT_LOGGING_LEVEL": "INFO",
                "PREFECT_WORKER_QUERY_SECONDS": "2",
                "ARES_MLFLOW_PAGE": f"http://127.0.0.1:{self.ports.mlflow}",
            }
        with (self.directory / "logs" / f"{name.lower()}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                self._command(name),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _command(self, name: str) -> list[str]:
        prefect = [sys.executable, "-m", "prefect"]
        if name == "Prefect":
            return [*prefect, "server", "start", "--host", "127.0.0.1", "--port", str(self.ports.prefect)]
        if name == "worker":
            return [*prefect, "worker", "start", "--pool", POOL, "--name", f"ares-{socket.gethostname()}"]
        return [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", tracking_uri(None, self.runs),
                "--artifacts-destination", str(self.runs / "mlartifacts"), "--host", "127.0.0.1",
                "--port", str(self.ports.mlflow), "--workers", "1"]  # fmt: skip

    def _wait_for(self, name: str, url: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                if httpx.get(url, timeout=5, verify=False).status_code == 200:  # or certificates would be loaded
                    return
            except httpx.TransportError:
                time.sleep(0.2)
            code = self.processes[name].poll()
            if code is not None or time.monotonic() > deadline:
                log = self.directory / "logs" / f"{name.lower()}.log"
                raise ServiceError(f"{name} did not start (exit code {code}); see {log}")


def name_queued(api: str) -> None:
    """Name queued flow runs after the run they will train; Prefect would name them only at their start. If the server
    is away, the next call does it."""
    waiting = {
        "flows": {"name": {"any_": ["ares-train", "ares-bootstrap"]}},
        "flow_runs": {"state": {"type": {"any_": ["SCHEDULED", "PENDING"]}}},
        "limit": 200,
    }
    with suppress(httpx.HTTPError):
        known = as_client(api)
        answer = httpx.post(f"{api}/flow_runs/filter", json=waiting, timeout=5, **known)
        for flow_run in answer.json() if answer.status_code == 200 else []:
            name = flow_run["parameters"].get("run")
            if name and name != flow_run["name"]:
                httpx.patch(f"{api}/flow_runs/{flow_run['id']}", json={"name": name}, timeout=5, **known)


def running_services() -> dict[str, str | int] | None:
    """The `ares up` of this runs directory: pid, started, api, mlflow; None if none is running."""
    record = _record(runs_directory().absolute())
    try:
        running: dict[str, str | int] = json.loads(record.read_text())
    except (FileNotFoundError, ValueError):
        return None
    started = _start_of(int(running["pid"]))
    return running if started is not None and running.get("started", started) == started else None


def _start_of(pid: int) -> int | None:
    """When a process started (clock ticks since boot); None if there is none. A pid alone may be another process's by
    now, as after a reboot."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (FileNotFoundError, ProcessLookupError):
        return None


def end_services() -> None:
    """`ares down`: end the `ares up` of this runs directory and wait for it. Raises ServiceError."""
    running = running_services()
    if running is None and _end_left(runs_directory().absolute() / ".services"):
        return
    if running is None:
        raise ServiceError(f"No `ares up` is running for {runs_directory()}")
    pid = int(running["pid"])
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 6 * STOP_SECONDS
    while time.monotonic() < deadline:
        if running_services() is None:
            return
        time.sleep(0.1)
    raise ServiceError(f"`ares up` (pid {pid}) does not end; see {_record(runs_directory()).parent / 'logs'}")


def _record(runs: Path) -> Path:
    return runs / ".services" / "services.json"


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


def _end(processes: list[subprocess.Popen[bytes]], directory: Path) -> None:
    """End processes and whatever they started."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=max(deadline - time.monotonic(), 0.0))
        _kill_group(process.pid, directory)  # what is left of its session
        process.wait()


def _kill_group(group: int, directory: Path) -> None:
    """Kill a process group; returns when its processes are gone."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    deadline = time.monotonic() + STOP_SECONDS
    while group in _groups_marked(directory) and time.monotonic() < deadline:
        time.sleep(0.05)


def _end_left(directory: Path) -> bool:
    """End the services that a killed `ares up` has left, and the worker's runs; whether there were any."""
    groups = _groups_marked(directory)
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while _groups_marked(directory) and time.monotonic() < deadline:
        time.sleep(0.1)
    for group in _groups_marked(directory):
        _kill_group(group, directory)
    return bool(groups)


def _groups_marked(directory: Path) -> set[int]:
    mark = f"{_MARK}={directory}".encode()
    groups = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if mark in (process / "environ").read_bytes().split(b"\0"):
                groups.add(os.getpgid(int(process.name)))
    return groups - {os.getpgid(0)}


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
