"""A part of a run as a flow run of its own, under the run's flow run.

Covered: the name and identity of a step's flow run, leaving when the run was suspended, working on while Prefect's
server is away. Not covered: what a step does (flows/train.py).
"""

import logging
from collections.abc import Awaitable, Callable
from types import FunctionType
from uuid import UUID, uuid4

import httpx
from prefect import Flow, get_client, runtime
from prefect.exceptions import Pause, PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL

from flows.prefect_http import as_client

logger = logging.getLogger(__name__)
ANSWER_SECONDS = 5.0


async def conducted(part: Callable[..., Awaitable[None]], title: str, *arguments: int) -> None:
    """Run `part(*arguments)` as a child flow run called `title`; as a plain call while the server is away.

    `part` may be called a second time, when the server is lost on the way: its finished phases are kept. Raises Pause
    when the run was suspended.
    """
    if await _server_answers():
        try:
            await _leave_when_suspended()
            await _child(part, title)(*arguments)
            return
        except (httpx.TransportError, PrefectHTTPStatusError) as error:
            lost = str(error) or type(error).__name__
    else:
        lost = "no answer"
    logger.warning("%s: Prefect's server is away (%s); the run continues without it", title, lost)
    await part(*arguments)


def _child(part: Callable[..., Awaitable[None]], title: str) -> Flow[..., Awaitable[None]]:
    """A flow with an identity of its own.

    Prefect recognises a child by its function's name and its position, and on a Retry hands back the result of the
    finished child in that position without running anything; but a retried run starts at another step than before.
    """
    assert isinstance(part, FunctionType)
    own = FunctionType(part.__code__, part.__globals__, part.__name__, part.__defaults__, part.__closure__)
    own.__qualname__ = f"{part.__name__}-{uuid4().hex}"
    own.__doc__, own.__annotations__, own.__module__ = part.__doc__, part.__annotations__, part.__module__
    return Flow(own, name=f"ares-{part.__name__.replace('_', '-')}", flow_run_name=title, persist_result=False)


async def _leave_when_suspended() -> None:
    """Prefect tells a flow of its suspension by an event or a question every ten seconds: some short steps too late."""
    if PREFECT_API_URL.value() and runtime.flow_run.id:
        async with get_client() as client:
            state = (await client.read_flow_run(UUID(str(runtime.flow_run.id)))).state
        if state and state.is_paused():
            raise Pause(state=state)


async def _server_answers() -> bool:
    url = PREFECT_API_URL.value()
    if not url:
        return True
    try:
        async with httpx.AsyncClient(**as_client(url)) as client:
            return (await client.get(f"{url}/health", timeout=ANSWER_SECONDS)).status_code == 200
    except httpx.TransportError:
        return False
