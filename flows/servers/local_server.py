"""A temporary Prefect API for a run without a server: on loopback, on SQLite, ending with the process that started it.

Prefect would start one by itself, which a SIGKILL of the run leaves behind for ever. This one watches its parent. Run
as a module it is the server: `python -m flows.servers.local_server PORT PARENT`.
"""

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from ares.errors import UserError
from flows.loading import loading
from flows.prefect_http import as_client
from rewards.child_process import end_with

logger = logging.getLogger("prefect.server")
START_SECONDS = 120.0
ANSWER_SECONDS = 10.0


class ServerError(UserError, RuntimeError):
    """The local Prefect server did not start, or the configured one does not answer."""


@contextmanager
def local_api() -> Iterator["LocalServer | None"]:
    """A local API for the duration, unless PREFECT_API_URL (or the Prefect profile) names a server: then None.

    Raises ServerError if that server does not answer.
    """
    # Importing Prefect takes a second, in which the server can start: a server that only Prefect's profile names is
    # found later, by `connected`.
    if ("prefect" in sys.modules or "PREFECT_API_URL" in os.environ) and (named := _named()) is not None:
        _check_answers(named)
        yield None
        return
    server = LocalServer()
    try:
        yield server
    finally:
        server.stop()


def _named() -> str | None:
    from prefect.settings import PREFECT_API_URL

    return PREFECT_API_URL.value()


def _check_answers(url: str) -> None:
    """Raise ServerError if no server answers at a URL, or it wants a password; a slow answer counts as one."""
    import httpx

    try:
        answer = httpx.get(f"{url}/admin/version", timeout=ANSWER_SECONDS, **as_client(url))
    except httpx.ReadTimeout:
        return
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise ServerError(
            f"PREFECT_API_URL={url}: no Prefect server answers there ({error}). Start it (`ares up`), or continue "
            "without: `unset PREFECT_API_URL` (a `prefect profile` may name it too), and a run brings its own server"
        ) from error
    if answer.status_code in (401, 403):
        raise ServerError(
            f"PREFECT_API_URL={url}: the server asks for a password, or refuses the one it is given. "
            "Set PREFECT_API_AUTH_STRING=user:password, as its PREFECT_SERVER_API_AUTH_STRING has it"
        )


class LocalServer:
    """The server process. It starts at once; `connected` waits for it."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/api"
        command = [sys.executable, "-m", "flows.servers.local_server", str(self.port), str(os.getpid())]
        # Nobody sees this server's UI, and it has no deployments to schedule.
        off = ("UI", "SERVER_SERVICES_SCHEDULER", "SERVER_SERVICES_LATE_RUNS", "SERVER_SERVICES_FOREMAN",
               "SERVER_SERVICES_CANCELLATION_CLEANUP", "SERVER_SERVICES_PAUSE_EXPIRATIONS",
               "SERVER_SERVICES_REPOSSESSOR", "SERVER_SERVICES_TRIGGERS")  # fmt: skip
        environment = os.environ | {f"PREFECT_{name}_ENABLED": "false" for name in off}
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self._logging = threading.Thread(target=_log, args=(self.process.stdout,), daemon=True)
        self._logging.start()

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Wait until the server answers and use it inside, or the one that Prefect's profile names.

        Raises ServerError if it does not start, or does not answer.
        """
        if (named := _named()) is not None:
            self.stop()
            _check_answers(named)
            yield
            return
        import httpx
        from prefect.settings import PREFECT_API_URL, temporary_settings

        deadline = time.monotonic() + START_SECONDS
        while True:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise ServerError(
                    f"The local Prefect server did not start (exit code {self.process.poll()}). "
                    "Its database lies in PREFECT_HOME (default ~/.prefect); is that writable?"
                )
            try:
                # With verify, httpx would load all certificates for each call, 50 ms, though nothing is encrypted.
                if httpx.get(f"{self.url}/health", timeout=5, verify=False).status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.1)
        with temporary_settings({PREFECT_API_URL: self.url}):
            yield

    def stop(self) -> None:
        """End the server."""
        self.process.terminate()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._logging.join(timeout=1)


def _log(output: IO[bytes]) -> None:
    """Log what the server prints."""
    for line in output:
        logger.warning("%s", line.decode(errors="replace").rstrip())


def _serve(port: int, parent: int) -> None:
    end_with(parent)
    with loading():
        import uvicorn
        from prefect.server.api.server import create_app

        app = create_app()
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]))
