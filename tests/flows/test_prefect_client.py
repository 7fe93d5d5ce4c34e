"""A Prefect server with a password, behind a proxy with TLS and a certificate of its own, as parts of ares ask it."""

import base64
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_SSL_CERT_FILE,
    PREFECT_API_TLS_INSECURE_SKIP_VERIFY,
    PREFECT_API_URL,
    temporary_settings,
)

from flows.prefect_client import impatient_client
from flows.servers.local_server import ServerError, check_answers
from flows.servers.metrics import RunCollector
from tests.tls_proxy import tls_proxy, write_certificate

PASSWORD = "someone:a word"


class GuardedApi(http.server.BaseHTTPRequestHandler):
    """Prefect's API with one flow run; only its health is public."""

    def do_GET(self) -> None:
        if "/csrf-token" in self.path:
            self._answer(b"{}", 404)  # as a server without that protection
            return
        (self._answer if self.path.endswith("/health") else self._answer_known)(b"true")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer_known(b"1")

    def _answer_known(self, content: bytes) -> None:
        known = self.headers["Authorization"] == f"Basic {base64.b64encode(PASSWORD.encode()).decode()}"
        self._answer(content if known else b'{"exception_message": "Unauthorized"}', 200 if known else 401)

    def _answer(self, content: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address of the API over TLS, and the certificate."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), GuardedApi)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    certificate, key = write_certificate(tmp_path)
    with tls_proxy(server.server_address[1], certificate, key) as port:
        yield f"https://127.0.0.1:{port}/api", certificate
    server.shutdown()
    server.server_close()


def test_queued_runs_are_counted_where_there_is_a_password(guarded: tuple[str, Path], tmp_path: Path) -> None:
    url, certificate = guarded
    collector = RunCollector(tmp_path, url, {})
    with temporary_settings({PREFECT_API_URL: url, PREFECT_API_SSL_CERT_FILE: str(certificate)}):
        assert collector._queued() is None
        with temporary_settings({PREFECT_API_AUTH_STRING: PASSWORD}):
            assert collector._queued() == 1.0


def test_a_server_whose_certificate_only_prefects_settings_name_is_found(guarded: tuple[str, Path]) -> None:
    url, certificate = guarded
    with temporary_settings({PREFECT_API_URL: url}), pytest.raises(ServerError, match="certificate"):
        check_answers()
    for trusting in ({PREFECT_API_SSL_CERT_FILE: str(certificate)}, {PREFECT_API_TLS_INSECURE_SKIP_VERIFY: True}):
        refused = pytest.raises(ServerError, match="PREFECT_API_AUTH_STRING=user:password")
        with temporary_settings({PREFECT_API_URL: url, **trusting}), refused:
            check_answers()
        with temporary_settings({PREFECT_API_URL: url, PREFECT_API_AUTH_STRING: PASSWORD, **trusting}):
            check_answers()
            with impatient_client() as client:
                assert client.count_flow_runs() == 1
