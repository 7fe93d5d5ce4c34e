"""A run's own Prefect server: when it starts, who can reach it, and that it never outlives its parent."""

import signal
import socket
import subprocess
import sys
from typing import Any

import httpx
import psutil
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from ares.errors import UserError
from flows.servers import service
from flows.servers.local_server import LocalServer, local_api
from tests.short_runs import REPOSITORY

PARENT = """
from flows.servers import service
from flows.servers.local_server import LocalServer
print(LocalServer().process.pid, flush=True)
input()
"""


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


def test_it_ends_when_its_parent_is_killed() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    server = psutil.Process(int(parent.stdout.readline()))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert psutil.wait_procs([server], timeout=120)[1] == []


def test_a_failed_start_says_why(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def start(*command: str, output: Any, **given: Any) -> service.Service:
        return started("no_such_module", settings={}, output=output)

    started = service.start
    monkeypatch.setattr(service, "start", start)
    server = LocalServer()
    failed = pytest.raises(UserError, match=r"did not start .*: .*no_such_module.*\. Its database lies in PREFECT_HOME")
    with failed, server.connected():
        pass
    server.stop()
    assert capfd.readouterr() == ("", "")
