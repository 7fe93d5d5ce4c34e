"""A flow run of a command, the run's own log in Prefect's Logs tab, and as JSON lines for log shippers.

Covered: records of ares at INFO and above; the last event of a suspended run. Not covered: the Logs tabs of steps
(flows/prefect_conductor.py), logs of libraries, the terminal and `log.txt` (flows/cli/logs.py).
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO, TypeVar

OURS = ("ares", "algorithms", "flows", "rewards", "sandbox", "tasks")
FORMAT = "ARES_LOG_FORMAT"
"""Environment variable: `json` for JSON lines instead of text."""
T = TypeVar("T")


def is_json() -> bool:
    """Whether JSON lines are wanted."""
    return os.environ.get(FORMAT) == "json"


def has_ui() -> bool:
    """Whether flow runs are shown to anybody: the server that a command starts for itself has no UI."""
    return "PREFECT_API_URL" in os.environ


class JsonLines(logging.StreamHandler[TextIO]):
    """Writes a record as a JSON object to stdout: time, level, logger, message, and the fields of its `about`."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)

    def format(self, record: logging.LogRecord) -> str:
        """A record as a line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        return json.dumps(line | getattr(record, "about", {}), ensure_ascii=False)


@contextmanager
def run_log() -> Iterator[None]:
    """Inside a flow: records of ares go to its flow run, which stays suspended if it leaves so."""
    from prefect import runtime
    from prefect.events import emit_event
    from prefect.exceptions import Pause

    handlers: list[logging.Handler] = []
    if has_ui():
        handlers.append(LogsTab(runtime.flow_run.id))
    if is_json() and not any(isinstance(handler, JsonLines) for handler in logging.getLogger().handlers):
        handlers.append(JsonLines())  # in a process of a worker, not of the command line
    try:
        with records_to(*handlers):
            yield
    except Pause:
        if has_ui():
            # Prefect's engine sent heartbeats until now: without another event the run would be marked as crashed.
            resource = {"prefect.resource.id": f"prefect.flow-run.{runtime.flow_run.id}"}
            emit_event("prefect.flow-run.Suspended", resource=resource)
        raise


@contextmanager
def records_to(*handlers: logging.Handler) -> Iterator[None]:
    """Inside, records of ares at INFO and above go to these handlers too."""
    pairs = [(logging.getLogger(room), handler) for room in OURS for handler in handlers]
    for logger, handler in pairs:
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger, handler in pairs:
            logger.removeHandler(handler)


async def run_in_flow(kind: str, title: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Do the work of a command in a flow run of its own; kind: the flow's name."""
    from prefect import flow

    @flow(name=kind, flow_run_name=title, persist_result=False)
    async def flow_run() -> T:
        with run_log():
            return await work()

    return await flow_run()


class LogsTab(logging.Handler):
    """Sends records to the Logs tab of a flow run, in batches. None: nobody gets them."""

    def __init__(self, flow_run: object) -> None:
        from prefect.logging.handlers import APILogHandler

        super().__init__(logging.INFO)
        self._flow_run = flow_run
        self._api = APILogHandler()

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record, whichever thread logs it."""
        if self._flow_run is not None:
            self._api.emit(logging.makeLogRecord(record.__dict__ | {"flow_run_id": str(self._flow_run)}))
