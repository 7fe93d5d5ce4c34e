"""Prefect's server as flows ask it: without its client's patience of minutes, and whether a run was suspended."""

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID

from prefect import runtime
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import State
from prefect.exceptions import Pause
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Suspended

logger = logging.getLogger(__name__)
T = TypeVar("T")
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


async def run_until_suspended(work: Coroutine[Any, Any, T]) -> T:
    """Await the body of this flow run. If the run is suspended, cancel the body and raise Pause."""
    flow_run = UUID(str(runtime.flow_run.id))
    task = asyncio.create_task(work)
    try:
        with impatient_client() as client:
            while not (await asyncio.wait([task], timeout=LOOK_SECONDS))[0]:
                state = None
                try:
                    state = await asyncio.to_thread(find_suspension, client, flow_run)
                except Exception as error:  # noqa: BLE001 (whatever the server says, the work goes on)
                    logger.debug("Prefect's server did not say whether the run was suspended: %s", error)
                if state is not None:
                    raise Pause(state=state)
    finally:
        task.cancel()
        await asyncio.wait([task])
    return task.result()
