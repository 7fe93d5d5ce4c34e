"""The one Prefect server of a test session, which each run would start for five CPU seconds; a whole one; a stub."""

import atexit
import base64
import contextlib
import http.server
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from flows.servers import service
from flows.servers.local_server import LocalServer
from tests.waiting import wait_for

URL = "ARES_TEST_PREFECT_API_URL"
"""Environment variable: where the server is, for the workers of xdist too."""


def start() -> None:
    """Start the server, which ends with this process."""
    server = LocalServer()
    atexit.register(server.stop)
    os.environ[URL] = server.url


def url() -> str:
    """The server's address, once it answers."""
    if URL not in os.environ:
        start()
    wait_for(lambda: service.answers(f"{os.environ[URL]}/health"), "the Prefect server of the tests", 300)
    return os.environ[URL]


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


def call_api(url: str, method: str, path: str, body: Any = None) -> Any:
    """What Prefect's API answers, once its SQLite is not busy any more."""
    for _ in range(20):
        answer = httpx.request(method, f"{url}/{path}", json=body, timeout=30, verify=False)
        if answer.status_code != 503:
            break
        time.sleep(0.5)
    assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
    return answer.json() if answer.content else None


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


@contextlib.contextmanager
def stub(queued: int = 0, password: str | None = None, page: tuple[int, str] | None = None) -> Iterator[int]:
    """The port of a server that is well and counts so many flow runs, for those who know the password ("user:word").

    page: status and text of all its answers, if it is another server.
    """
    known = password and f"Basic {base64.b64encode(password.encode()).decode()}"

    class Api(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if page is not None:
                self.answer(*page)
            elif "/csrf-token" in self.path:  # as a server without that protection
                self.answer(404, "{}")
            else:
                self.answer_known("true", is_public=self.path.endswith("/health"))

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer_known(str(queued))

        def answer_known(self, text: str, is_public: bool = False) -> None:
            if is_public or known is None or self.headers["Authorization"] == known:
                self.answer(200, text)
            else:
                self.answer(401, '{"exception_message": "Unauthorized"}')

        def answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *arguments: object) -> None:
            """Nobody reads it."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
