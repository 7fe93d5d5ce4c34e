"""Parts of a run as child flow runs of its flow run, recorded at Prefect's server in the background.

Covered: a step's flow run, created during the step before it; its states, sent in order by one thread; stopping when
the run is suspended; continuing while Prefect's server is away. Not covered: what a step does (flows/train.py).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import cache, cached_property
from inspect import signature
from typing import Any, ParamSpec, TypeVar
from uuid import uuid4

import httpx
from prefect import Flow, Task
from prefect._internal.control_listener import get_intent
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.client.schemas.responses import SetStateStatus
from prefect.context import FlowRunContext, TagsContext
from prefect.exceptions import Pause, PrefectHTTPStatusError
from prefect.flow_engine import AsyncFlowRunEngine, _send_heartbeats
from prefect.logging.loggers import flow_run_logger
from prefect.settings import PREFECT_API_URL
from prefect.states import (
    Cancelled,
    Completed,
    Pending,
    Running,
    exception_to_crashed_state,
    exception_to_failed_state,
)

from flows.prefect_http import as_client

logger = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
Part = Callable[..., Awaitable[None]]
ANSWER_SECONDS = 5.0
END_SECONDS = 20.0
"""How long the end of a run waits for its last states to be sent."""


class ChildRuns:
    """The flow runs of a run's parts. Create it inside the run's flow.

    They are records only: no part waits for them, and a failed request is a warning.
    """

    def __init__(self) -> None:
        context = FlowRunContext.get()
        assert context is not None
        assert context.flow_run is not None
        self._context, self._run = context, context.flow_run
        self._thread = ThreadPoolExecutor(1, "prefect-records")
        self._last: Future[Any] | None = None
        self._expected: dict[str, Future[FlowRun]] = {}

    def expect(self, part: Part, title: str, *arguments: int) -> None:
        """Have the flow run of a coming part created in the background."""
        if title not in self._expected:
            self._expected[title] = self._later(self._create, part, title, arguments)

    async def conducted(self, part: Part, title: str, *arguments: int) -> None:
        """Run `part(*arguments)` as a child flow run called `title`, or as a plain call while the server is away.

        Raises Pause if the run was suspended.
        """
        self.expect(part, title, *arguments)
        try:
            child = await asyncio.wrap_future(self._expected.pop(title))
        except (httpx.TransportError, PrefectHTTPStatusError) as error:
            lost = str(error) or type(error).__name__
            logger.warning("%s: Prefect's server is away (%s); the run continues without it", title, lost)
            await part(*arguments)
            return
        self._tell(child, Running())
        own = {"flow": _flow(part), "flow_run": child, "parameters": child.parameters}
        heartbeats = _send_heartbeats(AsyncFlowRunEngine(flow=_flow(part), flow_run=child), join_on_exit=False)
        with self._context.model_copy(update=own | {"run_results": {}, "task_run_dynamic_keys": {}}), heartbeats:
            try:
                await part(*arguments)
            except BaseException as error:
                if isinstance(error, Exception):
                    flow_run_logger(child, _flow(part)).exception("Encountered exception during execution: %r", error)
                self._tell(child, await _state_after(error))
                raise
            self._tell(child, Completed())

    def end(self) -> None:
        """Wait until everything is sent, up to END_SECONDS."""
        for created in self._expected.values():
            self._later(self._cancel, created)
        if self._last is not None and wait([self._last], END_SECONDS).not_done:
            logger.warning("Prefect was not told how the last step of %s ended: no answer", self._run.name)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _tell(self, child: FlowRun, state: State[Any]) -> None:
        child.state = state
        self._later(self._set_state, child, state)

    def _later(self, request: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> Future[T]:
        """Queue a request, to be made in the caller's context (Prefect's settings, logging)."""
        context = copy_context()
        self._last = future = self._thread.submit(lambda: context.run(request, *arguments, **named))
        return future

    # ---- in the thread ---------------------------------------------------------------------------------------------

    @cached_property
    def _client(self) -> SyncPrefectClient:
        return get_client(sync_client=True)

    def _create(self, part: Part, title: str, arguments: tuple[int, ...]) -> FlowRun:
        """Create a flow run, below a task run that stands for it in the run. Raises Pause if the run was suspended.

        The task run's key is unique. Prefect's own keys count calls: a Retry, which begins at another step, would be
        handed the finished child of the same count without running anything.
        """
        _check_reachable()
        # Prefect polls for suspension every 10 s, too slow for short steps.
        state = self._client.read_flow_run(self._run.id).state
        if state and state.is_paused():
            self._context.flow_run_suspension_request.mark_requested(state)  # the step in flight stops at a phase
            raise Pause(state=state)
        flow, task = _flow(part), _task(part)
        place = self._client.create_task_run(task, self._run.id, dynamic_key=uuid4().hex, name=title, state=Pending())
        return self._client.create_flow_run(
            flow, name=title, parameters=dict(zip(signature(part).parameters, arguments, strict=True)),
            parent_task_run_id=place.id, state=Pending(), tags=TagsContext.get().current_tags,
        )  # fmt: skip

    def _set_state(self, child: FlowRun, state: State[Any]) -> None:
        try:
            _check_reachable()
            answer = self._client.set_flow_run_state(child.id, state)
            refused = None if answer.status == SetStateStatus.ACCEPT else getattr(answer.details, "reason", answer)
        except Exception as error:  # noqa: BLE001 - it is logged below; the run directory is the truth
            refused = str(error) or type(error).__name__
        if refused is not None:
            logger.warning("%s: Prefect does not know that it is %s: %s", child.name, state.name, refused)

    def _cancel(self, created: Future[FlowRun]) -> None:
        if created.exception() is None:
            self._set_state(created.result(), Cancelled(message="The run ended before this part began."))


@cache
def _flow(part: Part) -> Flow[..., Any]:
    return Flow(part, name=f"ares-{part.__name__.replace('_', '-')}", persist_result=False)


@cache
def _task(part: Part) -> Task[..., Any]:
    return Task(part, name=_flow(part).name)


async def _state_after(error: BaseException) -> State[Any]:
    """The state of a part that raised: it failed, or its run or process ended."""
    if isinstance(error, Exception):
        return await exception_to_failed_state(error, message="Flow run encountered an exception:")
    if isinstance(error, Pause):
        return Cancelled(message="The run was suspended. Resumed, it makes another flow run of this part.")
    if get_intent() == "cancel":
        return Cancelled(message="The run was cancelled.")
    return await exception_to_crashed_state(error)


def _check_reachable() -> None:
    """Raise httpx.TransportError if the server is away: Prefect's client would retry for minutes."""
    url = PREFECT_API_URL.value()
    if url and httpx.get(f"{url}/health", timeout=ANSWER_SECONDS, **as_client(url)).status_code != 200:
        raise httpx.ConnectError("no answer")
