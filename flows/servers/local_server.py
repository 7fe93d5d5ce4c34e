"""Prefect's API for a command: the server that is configured, or one of the command's own.

Covered: which of the two; a server of its own, on loopback, on SQLite, that ends with the command even if that is
killed (Prefect would leave its temporary server behind). Not covered: a server with a UI (flows/servers/services.py).
"""

import fcntl
import re
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TextIO

import httpx
import prefect
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL, PREFECT_HOME, PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

from ares.errors import UserError
from flows.prefect_client import impatient_client
from flows.servers import service

START_SECONDS = 120.0
STARTED = "ares-started"
"""File in PREFECT_HOME: the version of Prefect whose server last made its tables there."""


@contextmanager
def local_api() -> Iterator["LocalServer | None"]:
    """A local API for the duration, unless PREFECT_API_URL or the Prefect profile names a server: then None.

    Raises UserError if that server does not answer.
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
    """Raise UserError if the configured server does not answer, or wants a password; a slow answer counts as one."""
    url = PREFECT_API_URL.value()
    try:
        with impatient_client() as client:
            client.api_version()
    except httpx.ReadTimeout:
        return
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise UserError(
            f"PREFECT_API_URL={url}: no Prefect server answers there ({error}). Start it (`ares up`), or continue "
            "without: `unset PREFECT_API_URL` (a `prefect profile` may name it too), and a run brings its own server"
        ) from error
    except (PrefectHTTPStatusError, ValueError) as error:  # a page is not JSON
        status = error.response.status_code if isinstance(error, PrefectHTTPStatusError) else 200
        if status in (401, 403):
            raise UserError(
                f"PREFECT_API_URL={url}: the server asks for a password, or refuses the one it is given. "
                "Set PREFECT_API_AUTH_STRING=user:password, as its PREFECT_SERVER_API_AUTH_STRING has it"
            ) from error
        if status != 503:  # its database is busy
            said = f"status {status}" if status != 200 else "a page"
            raise UserError(f"PREFECT_API_URL={url}: no Prefect API there ({said}). Does it end in /api?") from error


def _lock_first_start() -> TextIO | None:
    """Wait for the first server in PREFECT_HOME, which makes its tables; None if one has answered.

    Two would make the same tables, and one or both would fail. Raises UserError.
    """
    home = PREFECT_HOME.value()
    try:
        home.mkdir(parents=True, exist_ok=True)
        started = (home / STARTED).open("a+")
    except OSError as error:
        raise UserError(f"PREFECT_HOME={home}: cannot be written: {error.strerror}") from error
    fcntl.flock(started, fcntl.LOCK_EX)
    started.seek(0)
    if started.read() == prefect.__version__:
        started.close()
        return None
    return started


class LocalServer:
    """The server process. It starts at once, in a new PREFECT_HOME after those before it; `connected` waits for it."""

    def __init__(self) -> None:
        first = _lock_first_start()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/api"
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (`stop` closes it)
        self.process = service.start(
            "uvicorn", "--factory", "prefect.server.api.server:create_app", "--host", "127.0.0.1", "--port", str(port),
            "--log-level", "error", settings={"PREFECT_UI_ENABLED": "false"}, output=self._said,
        )  # fmt: skip
        if first is not None:
            Thread(target=self._note_start, args=(first,), daemon=True).start()

    def _note_start(self, first: TextIO) -> None:
        """Let others start once this server answers, or has ended."""
        with first:
            if service.wait_for(self.process, f"{self.url}/health", START_SECONDS):
                first.truncate(0)
                first.write(prefect.__version__)

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Wait until the server answers, and use it inside. Raises UserError if it does not start."""
        if not service.wait_for(self.process, f"{self.url}/health", START_SECONDS):
            self._said.seek(0)
            said = ["it said nothing", *self._said.read().decode(errors="replace").splitlines()]
            cause = [line for line in said if re.match(r"[\w.]*(Error|Exception)\b", line)] or said
            raise UserError(
                f"The local Prefect server did not start (exit code {self.process.poll()}): {cause[-1]}. "
                "Its database lies in PREFECT_HOME (default: ~/.prefect)"
            )
        # Nobody sees its logs, and Prefect would complain about each that it could not send at the end.
        with temporary_settings({PREFECT_API_URL: self.url, PREFECT_LOGGING_TO_API_ENABLED: False}):
            yield

    def stop(self) -> None:
        """End the server."""
        service.end([self.process])
        self._said.close()
