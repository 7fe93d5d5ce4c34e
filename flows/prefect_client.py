"""Prefect's server as flows ask it: without its client's patience of minutes, and whether a run was suspended."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import State
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Suspended

ANSWER_SECONDS = 10.0
LOOK_SECONDS = 1.0
"""Between looks at whether a run was suspended."""


@contextmanager
def impatient_client(api: str | None = None) -> Iterator[SyncPrefectClient]:
    """A client with the password and certificates of Prefect's settings. api: instead of PREFECT_API_URL.

    Calls raise httpx.TransportError or PrefectHTTPStatusError.
    """
    settings: dict[Any, Any] = {PREFECT_CLIENT_MAX_RETRIES: 0} | ({PREFECT_API_URL: api} if api else {})
    patience = {"timeout": ANSWER_SECONDS}
    with temporary_settings(settings), get_client(httpx_settings=patience, sync_client=True) as client:
        yield client


def find_suspension(client: SyncPrefectClient, flow_run: UUID) -> State[Any] | None:
    """The state of a flow run that was suspended, which may now be resumed at any time; None if it was not.

    The UI's button allows 300 s for Resume, and then fails the run.
    """
    state = client.read_flow_run(flow_run).state
    if state is None or not state.is_paused():
        return None
    client.set_flow_run_state(flow_run, Suspended(message=state.message), force=True)
    return state
