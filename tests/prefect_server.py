"""The one Prefect server of a test session, which each run would start for five CPU seconds; and a whole one."""

import atexit
import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from flows.servers import service
from flows.servers.local_server import LocalServer

URL = "ARES_TEST_PREFECT_API_URL"
"""Environment variable: where the server is, for the workers of xdist too."""


def start() -> None:
    """Start the server, which ends with this process."""
    server = LocalServer()
    atexit.register(server.stop)
    os.environ[URL] = server.url


def url(seconds: float = 300) -> str:
    """The server's address, once it answers."""
    if URL not in os.environ:
        start()
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(httpx.TransportError):
            # Asked to verify, httpx loads all certificates for each call, though nothing is encrypted: 50 ms.
            if httpx.get(f"{os.environ[URL]}/health", timeout=seconds, verify=False).status_code == 200:
                return os.environ[URL]
        assert time.monotonic() < deadline, "the Prefect server of the tests did not start"
        time.sleep(0.1)


@contextlib.contextmanager
def connected() -> Iterator[None]:
    """Use the server inside."""
    from prefect.events.worker import EventsWorker
    from prefect.settings import PREFECT_API_URL, temporary_settings

    EventsWorker.drain_all()  # one of an earlier test in this process would still tell that test's server
    with temporary_settings({PREFECT_API_URL: url()}):
        yield


def free_port() -> int:
    """A port of loopback that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def whole_server(home: Path) -> Iterator[str]:
    """The API's address of a server with its UI and automations, which the shared one has switched off."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    settings = {"PREFECT_HOME": str(home), "PREFECT_API_URL": url, "PREFECT_UI_API_URL": url}
    with (home / "server.log").open("wb") as log:
        command = ("prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port))
        server = service.start(*command, settings=settings, output=log)
    try:
        assert service.wait_for(server, f"{url}/health", 300), (home / "server.log").read_text()
        yield url
    finally:
        service.end([server])
