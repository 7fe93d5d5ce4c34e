"""Prefect's API for a command: the server that is configured, or one of the command's own.

Covered: which of the two; a server of its own, on loopback, on SQLite, that ends with the command even if that is
killed (Prefect would leave its temporary server behind). Not covered: a server with a UI (flows/servers/services.py).
"""

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL, temporary_settings

from ares.errors import UserError
from flows.prefect_client import impatient_client
from flows.servers import service

logger = logging.getLogger("prefect.server")
START_SECONDS = 120.0


class ServerError(UserError, RuntimeError):
    """The local Prefect server did not start, or the configured one does not answer."""


@contextmanager
def local_api() -> Iterator["LocalServer | None"]:
    """A local API for the duration, unless PREFECT_API_URL or the Prefect profile names a server: then None.

    Raises ServerError if that server does not answer.
    """
    if PREFECT_API_URL.value() is not None:
        check_answers()
        yield None
        return
    server = LocalServer()
    try:
        yield server
    finally:
        server.stop()


def check_answers() -> None:
    """Raise ServerError if the configured server does not answer, or wants a password; a slow answer counts as one."""
    url = PREFECT_API_URL.value()
    try:
        with impatient_client() as client:
            client.api_version()
    except httpx.ReadTimeout:
        return
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise ServerError(
            f"PREFECT_API_URL={url}: no Prefect server answers there ({error}). Start it (`ares up`), or continue "
            "without: `unset PREFECT_API_URL` (a `prefect profile` may name it too), and a run brings its own server"
        ) from error
    except PrefectHTTPStatusError as error:
        if error.response.status_code in (401, 403):
            raise ServerError(
                f"PREFECT_API_URL={url}: the server asks for a password, or refuses the one it is given. "
                "Set PREFECT_API_AUTH_STRING=user:password, as its PREFECT_SERVER_API_AUTH_STRING has it"
            ) from error


class LocalServer:
    """The server process. It starts at once; `connected` waits for it."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/api"
        # Nobody sees this server's UI, and it has no deployments to schedule.
        off = ("UI", "SERVER_SERVICES_SCHEDULER", "SERVER_SERVICES_LATE_RUNS", "SERVER_SERVICES_FOREMAN",
               "SERVER_SERVICES_CANCELLATION_CLEANUP", "SERVER_SERVICES_PAUSE_EXPIRATIONS",
               "SERVER_SERVICES_REPOSSESSOR", "SERVER_SERVICES_TRIGGERS")  # fmt: skip
        self.process = service.start(
            "uvicorn", "--factory", "prefect.server.api.server:create_app", "--host", "127.0.0.1", "--port", str(port),
            "--log-level", "error", settings={f"PREFECT_{name}_ENABLED": "false" for name in off},
        )  # fmt: skip
        self._said = ""
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Wait until the server answers, and use it inside. Raises ServerError if it does not start."""
        deadline = time.monotonic() + START_SECONDS
        while not answers(f"{self.url}/health"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self._listening.join(timeout=1)
                raise ServerError(
                    f"The local Prefect server did not start (exit code {self.process.poll()}): {self._said}. "
                    "Its database lies in PREFECT_HOME (default: ~/.prefect)"
                )
            time.sleep(0.1)
        with temporary_settings({PREFECT_API_URL: self.url}):
            yield

    def stop(self) -> None:
        """End the server."""
        service.end([self.process])
        self._listening.join(timeout=1)

    def _listen(self) -> None:
        """Log what the server prints."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._said = line.decode(errors="replace").rstrip()
            logger.warning("%s", self._said)


def answers(address: str) -> bool:
    """Whether a server of this machine answers at its health address."""
    try:
        # Nothing is encrypted, so no certificates are loaded, which takes 50 ms; nor is any proxy asked.
        return httpx.get(address, timeout=5, verify=False, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
