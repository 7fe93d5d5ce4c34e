"""A run in Prefect's UI: its steps as child flow runs, their phases as task runs, its log and alarms.

    flow run "first" (ares-train)
    └─ flow run "first step-000012"          one a step: tags, parameters, log
       ├─ task run "rollout 0"               one a phase
       ├─ task run "score 0"
       └─ task run "update"

Steps and phases are plain awaits. A thread sends their records to the server with Prefect's client, those of steps
first: a kill loses what a slow server has not taken yet, and a step that was committed may then be shown as running.
One of Prefect's own subflows waits 1 to 2.5 s for the server; these wait for nothing. While the server is away the run
continues, with a warning. Suspend ends the run at its next step or phase.
Not covered: what a step does (flows/train.py), the run's flow (flows/deployed.py), retries (ares/runs/conductor.py).
"""

import asyncio
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from queue import Empty, PriorityQueue
from threading import Thread
from typing import Any, TypeVar
from uuid import UUID, uuid4

from prefect import Flow, Task, runtime
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import State
from prefect.events import emit_event
from prefect.exceptions import Pause, TerminationSignal
from prefect.states import Cancelled, Completed, Crashed, Failed, Pending, Running, Suspended

from ares.runs import Conductor, Run
from flows.prefect_client import LOOK_SECONDS, find_suspension
from flows.run_log import LogsTab, has_ui, records_to

logger = logging.getLogger(__name__)
R = TypeVar("R")
Request = Callable[[SyncPrefectClient], object]
STEPS, OTHERS, END = 0, 1, 2
"""Order in which requests are sent."""
EVENT, RESOURCE = "ares.alarm", "ares.run"
"""What a warning of a run is to Prefect."""
END_SECONDS = 20.0
"""How long the end of a run waits for its last records to be sent."""


@dataclass
class Record:
    """A flow run or task run at Prefect's server. `id` is None until it is there, and if the server was away."""

    title: str
    rank: int
    """STEPS of a flow run, OTHERS of a task run."""
    id: UUID | None = None


class PrefectConductor(Conductor):
    """Shows a run in Prefect's UI. Use it as a context manager, inside the run's flow and in its main thread."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._run_id = UUID(str(runtime.flow_run.id))
        self._step: Record | None = None
        self._suspended: State[Any] | None = None
        self._requests: PriorityQueue[tuple[int, int, str, Request]] = PriorityQueue()
        self._numbers = count()
        self._thread = Thread(target=copy_context().run, args=(self._send_all,), name="prefect-records", daemon=True)

    def __enter__(self) -> "PrefectConductor":
        self._thread.start()
        self._send("whose run this is", self._tag)
        return self

    def __exit__(self, *error: object) -> None:
        self._send("", lambda _: None, END)
        self._thread.join(END_SECONDS)
        if self._thread.is_alive():
            logger.warning("Prefect was not told how the last step of %s ended: no answer", self.run.store.name)

    async def step(self, title: str, number: int, work: Callable[[], Awaitable[None]]) -> None:
        """Run a step as a child flow run. Raises Pause if the run was suspended."""
        step = Record(title, STEPS)
        logs = [_StepLog(step, self._send)] if has_ui() else []
        with self._shown(step, partial(self._create_step, step, number)), records_to(*logs):
            self._step = step
            try:
                await work()
            except (asyncio.CancelledError, TerminationSignal):  # another SIGTERM would interrupt the clean-up
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                raise
            finally:
                self._step = None

    async def phase(self, title: str, work: Callable[[], Awaitable[R]], retries: int) -> R:
        """Run a phase as a task run of the step, or of the run itself. Raises Pause if the run was suspended."""
        phase, parent = Record(title, OTHERS), self._step or Record(self.run.store.name, STEPS, self._run_id)
        with self._shown(phase, partial(self._create_phase, phase, parent)):
            return await super().phase(title, work, retries)

    def warn(self, run: str, kind: str, text: str) -> None:
        """Log it, and send the event that `--notify` passes on (deploy/automations.yaml)."""
        super().warn(run, kind, text)
        if has_ui():
            resource = {"prefect.resource.id": f"{RESOURCE}.{run}", "prefect.resource.name": run}
            emit_event(EVENT, resource=resource, payload={"kind": kind, "text": text})

    def pause(self, text: str) -> None:
        """Suspend the run: the UI's Resume goes on, at any time. Raises Pause."""
        suspended: State[Any] = Suspended(message=text)
        told = partial(SyncPrefectClient.set_flow_run_state, flow_run_id=self._run_id, state=suspended, force=True)
        self._send("that the run is paused", told)
        raise Pause(text, state=suspended)

    @contextmanager
    def _shown(self, record: Record, create: Request) -> Iterator[None]:
        """Have a record created, and told how what is inside ended."""
        if self._suspended is not None:
            raise Pause(state=self._suspended)
        self._send(f"of {record.title}", create, record.rank)
        ended: BaseException | None = None
        try:
            yield
        except BaseException as error:
            ended = error
            raise
        finally:
            self._send(f"how {record.title} ended", partial(self._end, record, ended), record.rank)

    def _send(self, about: str, request: Request, rank: int = OTHERS) -> None:
        """Queue a request. about: what Prefect does not know if it fails."""
        self._requests.put((rank, next(self._numbers), about, request))

    # ---- in the thread ---------------------------------------------------------------------------------------------

    def _send_all(self) -> None:
        looked = time.monotonic()
        with get_client(sync_client=True) as client:  # it tries for a minute while a server restarts
            while True:
                with suppress(Empty):
                    rank, _, about, request = self._requests.get(timeout=LOOK_SECONDS)
                    if rank == END:
                        return
                    self._try(client, about, request)
                if time.monotonic() - looked > LOOK_SECONDS:
                    looked = time.monotonic()
                    self._try(client, "whether the run was suspended", self._look, logging.DEBUG)  # it is asked again

    def _try(self, client: SyncPrefectClient, about: str, request: Request, level: int = logging.WARNING) -> None:
        try:
            request(client)
        except Exception as error:  # noqa: BLE001 - it is logged; the run directory is the truth
            reason = str(error) or type(error).__name__  # a timeout has no text
            logger.log(level, "Prefect's server is away, and not told %s: %s; the run continues", about, reason)

    def _tag(self, client: SyncPrefectClient) -> None:
        tags = client.read_flow_run(self._run_id).tags
        client.update_flow_run(self._run_id, tags={*tags, f"run:{self.run.store.name}"})

    def _create_step(self, step: Record, number: int, client: SyncPrefectClient) -> None:
        """Create a flow run, below a task run that stands for it in the run. The key is unique: Prefect's own ones
        count calls, and a Retry begins at another step."""
        place = client.create_task_run(
            _task("step"), self._run_id, dynamic_key=uuid4().hex, name=step.title, state=Pending()
        )
        step.id = client.create_flow_run(
            _STEP, name=step.title, parameters={"number": number}, parent_task_run_id=place.id, state=Running(),
            tags=[f"run:{self.run.store.name}"],
        ).id  # fmt: skip

    def _create_phase(self, phase: Record, parent: Record, client: SyncPrefectClient) -> None:
        if parent.id is not None:
            task = _task(phase.title.partition(" ")[0])
            phase.id = client.create_task_run(
                task, parent.id, dynamic_key=uuid4().hex, name=phase.title, state=Running()
            ).id

    def _end(self, record: Record, error: BaseException | None, client: SyncPrefectClient) -> None:
        set_state: Any = client.set_flow_run_state if record.rank == STEPS else client.set_task_run_state
        if record.id is not None:
            set_state(record.id, self._state_after(error), force=True)

    @staticmethod
    def _state_after(error: BaseException | None) -> State[Any]:
        """The state of a part: it ended well, it failed, or its run or process ended."""
        if error is None:
            return Completed()
        if isinstance(error, Exception):
            return Failed(message=f"{type(error).__name__}: {error}")
        if isinstance(error, Pause):
            return Cancelled(message="The run was suspended. Resumed, it makes another flow run of this part.")
        return Crashed(message=f"The run was interrupted: {type(error).__name__}")

    def _look(self, client: SyncPrefectClient) -> None:
        """Notice a Suspend."""
        if self._suspended is None:
            self._suspended = find_suspension(client, self._run_id)


class _StepLog(logging.Handler):
    """Sends records to the Logs tab of a step."""

    def __init__(self, step: Record, send: Callable[[str, Request], None]) -> None:
        super().__init__(logging.INFO)
        self._step, self._send = step, send

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record: the step's flow run may not be there yet."""
        self._send("of a line of the log", lambda _: LogsTab(self._step.id).emit(record))


def _train_step(number: int) -> None:
    """Named in records only."""


_STEP = Flow(_train_step, name="ares-train-step", persist_result=False)


@cache
def _task(name: str) -> Task[..., Any]:
    return Task(_train_step, name=name, persist_result=False)
