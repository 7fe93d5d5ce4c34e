"""A phase: one durable part of a step, run as a Prefect task whose small result is kept under a key and checked.

Covered: the key (ares/runs: Step.key), results under the run directory, retries, the check that a kept result can be
read and its files are intact. Not covered: what phases do (the other modules of this package).
"""

import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, Literal, ParamSpec, TypeVar, get_type_hints

from prefect.context import TagsContext
from prefect.serializers import JSONSerializer
from prefect.tasks import Task
from pydantic import BaseModel, ValidationError

from ares.runs import Step
from ares.store import Ref, sealed_text, unsealed_text

logger = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R", bound=BaseModel)
TITLE: ContextVar[str] = ContextVar("title")
"""Name of the task run that is about to start."""


class SealedJSON(JSONSerializer):
    """JSON with a checksum, since a resume trusts the numbers in kept results."""

    type: Literal["sealed-json"] = "sealed-json"
    object_decoder: str | None = None
    """None: `Phase._read` decodes, since classes may be renamed."""

    def dumps(self, obj: Any) -> bytes:
        """Raises TypeError."""
        return sealed_text(super().dumps(obj).decode()).encode()

    def loads(self, blob: bytes) -> Any:
        """Raises DamagedArtifact."""
        return super().loads(unsealed_text(blob.decode()).encode())


class Phase(Generic[P, R]):
    """A function `async (step, …inputs) → result` as a phase. Inputs and result are JSON values, models and refs."""

    def __init__(self, name: str, function: Callable[..., Awaitable[R]], retries: int) -> None:
        self.name = name
        self.function = function
        self.result_type: type[R] = get_type_hints(function)["return"]
        self._configured: dict[Path, Task[Any, Any]] = {}
        """By results folder, since making a task takes milliseconds."""
        self.task: Task[Any, Any] = Task(
            function,
            name=name,
            retries=retries,
            # A retry within about 1.5 s of a failure can be overwritten by the CRASHED state of the run before it.
            retry_delay_seconds=2,
            retry_condition_fn=_is_retried,
            persist_result=True,
            result_serializer=SealedJSON(),
            cache_key_fn=lambda _, arguments: arguments["step"].key(name, _inputs(arguments)),
            cache_expiration=timedelta(days=3650),
            task_run_name=_title,
        )

    async def __call__(self, step: Step, *inputs: Any, label: str = "") -> R:
        """Run the phase, or take its kept result if the files it names are intact."""
        results = step.run.store.results.absolute()
        if results not in self._configured:
            self._configured[results] = self.task.with_options(result_storage=results)
        configured = self._configured[results]
        TITLE.set(f"{self.name}{f' {label}' if label else ''}")
        started = time.perf_counter()
        with untagged():
            state = await configured(step, *inputs, return_state=True)
            result = self._read(await state.aresult())
            if result is None or (state.name == "Cached" and not step.run.store.kept(list(_refs(result)))):
                result = await configured.with_options(refresh_cache=True)(step, *inputs)
        step.timings[f"timing_s/{self.name}"] = (
            step.timings.get(f"timing_s/{self.name}", 0.0) + time.perf_counter() - started
        )
        return result

    def _read(self, result: Any) -> R | None:
        """The result, fresh or as Prefect keeps it ({"__class__", "data"}); None if its fields do not fit.

        The class name is ignored: it may be an older version's.
        """
        if isinstance(result, self.result_type):
            return result
        try:
            return self.result_type.model_validate(result["data"])
        except (KeyError, TypeError, ValidationError):
            return None


def phase(name: str, retries: int = 0) -> Callable[[Callable[..., Awaitable[R]]], Phase[Any, R]]:
    """Make a function a phase. `retries`: how often Prefect retries it after an error."""
    return lambda function: Phase(name, function, retries)


def _title() -> str:
    return TITLE.get()


def untagged() -> TagsContext:
    """Inside, tasks do not inherit tags: for each, Prefect would ask the server for a concurrency slot."""
    return TagsContext(current_tags=set())


def _is_retried(task: Task[Any, Any], run: Any, state: Any) -> bool:
    """Whether Prefect retries a phase after an error. Logs it for the run, since Prefect logs it on the task only."""
    if not getattr(state.data, "may_pass", True):  # a grader's error that would occur again
        return False
    logger.warning("%s failed and is tried again: %s", run.name, state.message)
    return True


def _inputs(arguments: dict[str, Any]) -> str:
    plain = {name: _plain(value) for name, value in arguments.items() if name != "step"}
    return json.dumps(plain, sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _refs(value: Any) -> Iterator[Ref]:
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _refs(getattr(value, name))
    elif isinstance(value, list):
        for item in value:
            yield from _refs(item)
