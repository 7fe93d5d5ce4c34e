"""Prefect's client for callers that must not wait: by itself it tries for minutes when a server is away."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

ANSWER_SECONDS = 10.0


@contextmanager
def impatient_client(api: str | None = None) -> Iterator[SyncPrefectClient]:
    """A client with the password and certificates of Prefect's settings. api: instead of PREFECT_API_URL.

    Calls raise httpx.TransportError or PrefectHTTPStatusError.
    """
    settings: dict[Any, Any] = {PREFECT_CLIENT_MAX_RETRIES: 0} | ({PREFECT_API_URL: api} if api else {})
    patience = {"timeout": ANSWER_SECONDS}
    with temporary_settings(settings), get_client(httpx_settings=patience, sync_client=True) as client:
        yield client
