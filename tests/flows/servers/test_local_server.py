"""A run's own Prefect server: when it starts, who can reach it. That it ends with its parent: test_services.py."""

import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

from ares.errors import UserError
from flows.servers import deployment, service
from flows.servers.local_server import LocalServer, local_api
from tests.prefect_server import stub
from tests.short_runs import REPOSITORY


@pytest.mark.slow
def test_it_serves_loopback_while_it_is_needed_and_is_gone_afterwards() -> None:
    with local_api() as server:
        assert server is not None
        with server.connected():
            assert PREFECT_API_URL.value() == server.url
            assert httpx.get(f"{server.url}/health").json() is True
            listening = [each for each in psutil.Process(server.process.pid).net_connections() if not each.raddr]
            assert {each.laddr.ip for each in listening} == {"127.0.0.1"}
        assert PREFECT_API_URL.value() is None
    assert server.process.poll() is not None


def test_a_server_that_is_named_is_used_and_none_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as slow:  # it takes the connection, and its time
        url = f"http://127.0.0.1:{slow.getsockname()[1]}/api"
        monkeypatch.setattr("flows.prefect_client.ANSWER_SECONDS", 0.2)
        with temporary_settings({PREFECT_API_URL: url}), local_api() as server:
            assert server is None


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/api", "http://no-such-host.invalid/api", "no url"])
def test_a_named_server_that_does_not_answer_is_reported_with_what_to_do(url: str) -> None:
    """The normal state of an exported shell after `ares down`."""
    with (
        temporary_settings({PREFECT_API_URL: url}),
        pytest.raises(UserError, match=r"PREFECT_API_URL=.* no Prefect server answers .*unset PREFECT_API_URL") as told,
        local_api(),
    ):
        pass
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(("status", "page"), [(200, "<!DOCTYPE html>"), (404, '{"detail": "Not Found"}')])
def test_an_address_that_is_not_of_prefects_api_is_reported(status: int, page: str) -> None:
    """Prefect's UI, say, whose address lacks /api: a traceback of JSON, or the run began."""
    refused = pytest.raises(UserError, match=r"no Prefect API there \(.*\)\. Does it end in /api\?")
    with stub(page=(status, page)) as port:
        there = temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{port}"})
        with there, refused, local_api():
            pass


def test_a_wrong_password_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["deployment"])
    with stub(password="a:word") as port:
        url = f"http://127.0.0.1:{port}/api"
        with temporary_settings({PREFECT_API_URL: url}), pytest.raises(SystemExit, match="2"):
            deployment.main()
    assert capsys.readouterr().err.startswith(f"error: PREFECT_API_URL={url}: the server asks for a password")


def test_the_first_server_of_a_new_home_starts_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several made the same tables at once, and one or all of them failed."""
    answers = threading.Event()
    monkeypatch.setattr(service, "start", lambda *command, **given: subprocess.Popen(["sleep", "60"], process_group=0))
    monkeypatch.setattr(service, "wait_for", lambda *given: answers.wait(60))

    def start() -> LocalServer:
        with temporary_settings({PREFECT_HOME: tmp_path / "new"}):
            return LocalServer()

    with ThreadPoolExecutor() as pool:
        first = start()
        second = pool.submit(start)
        with pytest.raises(TimeoutError):
            second.result(timeout=0.2)
        answers.set()
        for server in (first, second.result(timeout=10), start()):
            server.stop()


def test_a_failed_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The cause stands above the last line, which says that the start failed."""
    (tmp_path / "fails.py").write_text("raise RuntimeError('of the disk') from None")
    (tmp_path / "wrapped.py").write_text(
        "import traceback\ntry:\n    import fails\nexcept RuntimeError:\n    traceback.print_exc()\n"
        "raise SystemExit('Application startup failed. Exiting.')"
    )

    def start(*command: str, output: Any, **given: Any) -> service.Service:
        return started("wrapped", settings={"PYTHONPATH": f"{tmp_path}:{REPOSITORY}"}, output=output)

    started = service.start
    monkeypatch.setattr(service, "start", start)
    with temporary_settings({PREFECT_HOME: tmp_path}):
        server = LocalServer()
    cause = r"did not start .*: RuntimeError: of the disk\. Its database lies in PREFECT_HOME"
    with pytest.raises(UserError, match=cause), server.connected():
        pass
    server.stop()
    assert capfd.readouterr() == ("", "")
