"""`ares up` when it, or one of its services, is killed. The services are stand-ins that listen in a child process."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flows.servers import services
from flows.servers.services import RESTARTS, Ports, ServiceError, Services, end_services

LISTENS_IN_A_CHILD = """
import os, socket, sys, time
if os.fork() == 0:
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
time.sleep(600)
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class StandIns(Services):
    """Services of a test: MLflow alone."""

    def _command(self, name: str) -> list[str]:
        return [sys.executable, "-c", LISTENS_IN_A_CHILD, str(self.ports.mlflow)]


@pytest.fixture
def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[StandIns, list[str]]]:
    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    said: list[str] = []
    services = StandIns(Ports(free_port(), free_port()), 1, said.append)
    (services.directory / "logs").mkdir(parents=True)
    services._start("MLflow")
    until(lambda: listens(services.ports.mlflow))
    yield services, said
    services.stop()


def kill(service: subprocess.Popen[bytes]) -> None:
    os.kill(service.pid, signal.SIGKILL)
    until(lambda: service.poll() is not None)


def test_what_a_killed_service_leaves_behind_gives_its_port_back(up: tuple[StandIns, list[str]]) -> None:
    running, said = up
    killed = running.processes["MLflow"]
    kill(killed)
    assert listens(running.ports.mlflow)  # the child
    running.look_after("MLflow", time.monotonic())
    assert "exit code -9" in said[0]
    assert running.processes["MLflow"].pid != killed.pid
    until(lambda: listens(running.ports.mlflow))
    assert services._groups_marked(running.directory) == {running.processes["MLflow"].pid}


def test_one_that_dies_again_and_again_waits_and_ends_nothing_else(up: tuple[StandIns, list[str]]) -> None:
    running, said = up
    for second in range(RESTARTS + 3):
        if running.processes["MLflow"].poll() is None:
            kill(running.processes["MLflow"])
        running.look_after("MLflow", float(second))
    assert len(said) == RESTARTS
    assert "the last time within 60 s" in said[-1]
    running.look_after("MLflow", 60.5)  # the first was a minute ago
    assert len(said) == RESTARTS + 1
    assert running.processes["MLflow"].poll() is None


def test_services_whose_ares_up_was_killed_are_ended_by_the_next_down(up: tuple[StandIns, list[str]]) -> None:
    running, _ = up
    end_services()
    assert not listens(running.ports.mlflow)
    with pytest.raises(ServiceError, match="No `ares up` is running"):
        end_services()
    assert services._groups_marked(running.directory) == set()


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


def test_servers_are_asked_to_end_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ends only once both were asked: asked one after the other, they would have to be killed."""

    class Waiting(Services):
        def _command(self, name: str) -> list[str]:
            return [sys.executable, "-c", WAITS_FOR_THE_OTHER, str(tmp_path / "told")]

    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    running = Waiting(Ports(free_port(), free_port()), 1, print)
    (running.directory / "logs").mkdir(parents=True)
    for name in ("MLflow", "Prefect"):
        running._start(name)
        until(lambda name=name: (running.directory / "logs" / f"{name.lower()}.log").read_text() == "up\n")  # type: ignore[misc]
    processes = list(running.processes.values())
    running.stop()
    assert [process.returncode for process in processes] == [0, 0]


def test_a_process_that_has_the_number_of_an_ended_ares_up_is_not_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a reboot `ares up` refused to start because another process had its pid, and `ares down` ended that one."""
    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    (tmp_path / ".services").mkdir()
    record, own = tmp_path / ".services" / "services.json", services._start_of(os.getpid())
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        started = services._start_of(other.pid)
        assert own is not None
        assert started is not None
        record.write_text(json.dumps({"pid": other.pid, "started": started - 1}))
        assert services.running_services() is None
        with pytest.raises(ServiceError, match="No `ares up` is running"):
            end_services()
        assert other.poll() is None
        record.write_text(json.dumps({"pid": other.pid, "started": started}))
        assert services.running_services() == {"pid": other.pid, "started": started}
    finally:
        other.kill()
        other.wait()
    assert services.running_services() is None
