"""Prefect's API for a command: the server that is configured, or one of the command's own.

Covered: which of the two; a server of its own, on loopback, on SQLite, that ends with the command even if that is
killed (Prefect would leave its temporary server behind). Not covered: a server with a UI (flows/servers/services.py).
"""

import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL, PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

from ares.errors import UserError
from flows.prefect_client import impatient_client
from flows.servers import service

START_SECONDS = 120.0


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
    except PrefectHTTPStatusError as error:
        if error.response.status_code in (401, 403):
            raise UserError(
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
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (`stop` closes it)
        self.process = service.start(
            "uvicorn", "--factory", "prefect.server.api.server:create_app", "--host", "127.0.0.1", "--port", str(port),
            "--log-level", "error", settings={"PREFECT_UI_ENABLED": "false"}, output=self._said,
        )  # fmt: skip

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Wait until the server answers, and use it inside. Raises UserError if it does not start."""
        if not service.wait_for(self.process, f"{self.url}/health", START_SECONDS):
            self._said.seek(0)
            *_, last = [b"it said nothing", *self._said.read().splitlines()]
            raise UserError(
                f"The local Prefect server did not start (exit code {self.process.poll()}): "
                f"{last.decode(errors='replace')}. Its database lies in PREFECT_HOME (default: ~/.prefect)"
            )
        # Nobody sees its logs, and Prefect would complain about each that it could not send at the end.
        with temporary_settings({PREFECT_API_URL: self.url, PREFECT_LOGGING_TO_API_ENABLED: False}):
            yield

    def stop(self) -> None:
        """End the server."""
        service.end([self.process])
        self._said.close()
