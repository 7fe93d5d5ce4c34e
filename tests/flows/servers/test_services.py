"""`ares up` when it, or one of its services, is killed. The services are stand-ins that listen in a child process."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ares.errors import UserError
from ares.store import held
from flows.servers import service
from flows.servers.services import Services, end_services
from tests.prefect_server import free_port
from tests.short_runs import REPOSITORY
from tests.waiting import wait_for

LISTENS_IN_A_CHILD = """
import os, socket, sys, time
if os.fork() == 0:
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
time.sleep(600)
"""
STARTS_A_SERVICE = """
import sys, time
from flows.servers import service
service.start("stand_in", sys.argv[1], settings={"PYTHONPATH": sys.argv[2]}, output=sys.stderr)
time.sleep(600)
"""


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def stand_ins(*command: str) -> tuple[Services, list[str]]:
    """Services that are all this command, and what they say."""
    said: list[str] = []
    services = Services(free_port(), free_port(), said.append)
    services.commands = {name: [*command] for name in services.commands}
    (services.directory / "logs").mkdir(parents=True)
    return services, said


def test_the_database_of_mlflow_lies_beside_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the exported address of itself as its database, the server ended at once."""
    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    services = Services(free_port(), free_port(), print)
    assert f"sqlite:///{tmp_path / 'mlflow.db'}" in services.commands["MLflow"]


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of runs, and of modules that services find; it holds one, `stand_in`."""
    (tmp_path / "stand_in.py").write_text(LISTENS_IN_A_CHILD)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    return tmp_path


def kill(service: subprocess.Popen[bytes]) -> None:
    os.kill(service.pid, signal.SIGKILL)
    wait_for(lambda: service.poll() is not None, "its end")


def test_what_a_killed_service_leaves_behind_gives_its_port_back(importable: Path) -> None:
    port = free_port()
    services, said = stand_ins("stand_in", str(port))
    services.start("MLflow")
    try:
        wait_for(lambda: listens(port), "the service")
        services.restart_dead()
        assert said == []
        killed = services.processes["MLflow"]
        kill(killed)
        assert listens(port)  # the child
        services.restart_dead()
        assert "exit code -9" in said[0]
        assert services.processes["MLflow"].pid != killed.pid
        wait_for(lambda: listens(port), "the service")
    finally:
        services.stop()


def test_a_service_and_what_it_started_end_with_an_ares_up_that_is_killed(importable: Path) -> None:
    port = free_port()
    command = [sys.executable, "-c", STARTS_A_SERVICE, str(port), str(importable)]
    parent = subprocess.Popen(command, cwd=REPOSITORY)
    wait_for(lambda: listens(port), "the service")
    kill(parent)
    wait_for(lambda: not listens(port), "a free port")


WAITS_FOR_THE_OTHER = """
import os, signal, sys, time
def ended(number, frame):
    time.sleep(0.1)
    with open(sys.argv[1], "a") as told:
        told.write("asked\\n")
    while open(sys.argv[1]).read().count("asked") < 2:
        time.sleep(0.01)
    os._exit(0)
signal.signal(signal.SIGTERM, ended)
print("up", flush=True)
time.sleep(600)
"""


def test_servers_are_asked_to_end_at_the_same_time(importable: Path) -> None:
    """Each ends only once both were asked: asked one after the other, they would have to be killed."""
    (importable / "waits.py").write_text(WAITS_FOR_THE_OTHER)
    services, _ = stand_ins("waits", str(importable / "told"))
    for name in ("MLflow", "Prefect"):
        services.start(name)
    logs = services.directory / "logs"
    wait_for(lambda: all((logs / f"{name}.log").read_text() == "up\n" for name in ("mlflow", "prefect")), "both")
    processes = list(services.processes.values())
    services.stop()
    assert [process.returncode for process in processes] == [0, 0]


def test_ares_up_is_running_while_it_holds_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a reboot `ares up` refused to start because another process had its pid, and `ares down` ended that one."""
    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    (tmp_path / ".services").mkdir()
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        (tmp_path / ".services" / "services.json").write_text(json.dumps({"pid": other.pid}))
        with pytest.raises(UserError, match="No `ares up` is running"):
            end_services()
        assert other.poll() is None
        with held(tmp_path / ".services"):
            refused = pytest.raises(UserError, match=rf"running already \(pid {other.pid}\)")
            with refused, Services(1, 2, print).running(1, None):
                pass
            monkeypatch.setattr(service, "STOP_SECONDS", 0.01)
            with pytest.raises(UserError, match="does not end"):
                end_services()
        assert other.wait(timeout=60) == -signal.SIGTERM
    finally:
        other.kill()
        other.wait()
