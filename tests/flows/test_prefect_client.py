"""A Prefect server with a password, behind a proxy with TLS and a certificate of its own, as parts of ares ask it."""

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

from ares.errors import UserError
from flows.prefect_client import impatient_client
from flows.servers.local_server import check_answers
from flows.servers.metrics import RunCollector
from tests.prefect_server import stub
from tests.tls_proxy import tls_proxy, write_certificate

PASSWORD = "someone:a word"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address of the API over TLS, and the certificate."""
    certificate, key = write_certificate(tmp_path)
    with stub(queued=1, password=PASSWORD) as inside, tls_proxy(inside, certificate, key) as port:
        yield f"https://127.0.0.1:{port}/api", certificate


def test_queued_runs_are_counted_where_there_is_a_password(guarded: tuple[str, Path], tmp_path: Path) -> None:
    url, certificate = guarded
    collector = RunCollector(tmp_path, url, {})
    with temporary_settings({PREFECT_API_URL: url, PREFECT_API_SSL_CERT_FILE: str(certificate)}):
        assert collector.queued() is None
        with temporary_settings({PREFECT_API_AUTH_STRING: PASSWORD}):
            assert collector.queued() == 1.0


def test_a_server_whose_certificate_only_prefects_settings_name_is_found(guarded: tuple[str, Path]) -> None:
    url, certificate = guarded
    with temporary_settings({PREFECT_API_URL: url}), pytest.raises(UserError, match="certificate"):
        check_answers()
    for trusting in ({PREFECT_API_SSL_CERT_FILE: str(certificate)}, {PREFECT_API_TLS_INSECURE_SKIP_VERIFY: True}):
        refused = pytest.raises(UserError, match="PREFECT_API_AUTH_STRING=user:password")
        with temporary_settings({PREFECT_API_URL: url, **trusting}), refused:
            check_answers()
        with temporary_settings({PREFECT_API_URL: url, PREFECT_API_AUTH_STRING: PASSWORD, **trusting}):
            check_answers()
            with impatient_client() as client:
                assert client.count_flow_runs() == 1
