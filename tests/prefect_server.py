"""The one Prefect server of a test session. Each run would start its own, for five CPU seconds."""

import atexit
import contextlib
import os
import time
from collections.abc import Iterator

import httpx

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
