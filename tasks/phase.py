"""A phase: one durable part of a step, whose small result is kept under a key and checked when it is taken again.

    key ─▶ in the step's phases.jsonl, and the files that the result names are intact? ─▶ that result
             │ no
             ▼
           the conductor runs the function (Prefect: as a task run) ─▶ the result is appended ─▶ that result

Covered: keys of inputs, kept results, timings. Not covered: the file (ares/store/sealed_lines.py), what else the key
depends on (ares/runs: Step.key), what phases do (the other modules of this package).
"""

import json
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from ares.runs import Step
from ares.store import Kept

logger = logging.getLogger(__name__)
R = TypeVar("R", bound=BaseModel)


class Phase(Generic[R]):
    """A function `async (step, …inputs) → result` as a phase. Inputs and result are JSON values, models and refs."""

    def __init__(self, name: str, function: Callable[..., Awaitable[R]], retries: int = 0) -> None:
        self.name = name
        self.function = function
        self.retries = retries
        self.result_type: type[R] = get_type_hints(function)["return"]

    async def __call__(self, step: Step, *inputs: Any, label: str = "") -> R:
        """Take the kept result, or run the phase and keep what it returns. label: for its title, beside its name."""
        title, key = f"{self.name} {label}".rstrip(), self.key(step, *inputs)
        with step.timed(self.name):
            result = self._kept(step, key)
            if result is not None:
                logger.debug("%s of step %d is kept", title, step.number)
            else:
                work = partial(self.function, step, *inputs)
                result = await step.run.conductor.phase(title, work, self.retries)
                step.memo.keep(Kept(key, self.name, result.model_dump(mode="json")))
        return result

    def key(self, step: Step, *inputs: Any) -> str:
        """What the result depends on: equal keys, equal results."""
        return step.key(self.name, json.dumps(to_jsonable_python(inputs), sort_keys=True))

    def _kept(self, step: Step, key: str) -> R | None:
        """The kept result; None if there is none, its files are gone or damaged, or another version wrote it."""
        found = step.memo.find(key)
        if found is None or not step.run.store.intact(Kept(key, self.name, found).refs()):
            return None
        try:
            return self.result_type.model_validate(found)
        except ValidationError:
            return None


def phase(name: str, retries: int = 0) -> Callable[[Callable[..., Awaitable[R]]], Phase[R]]:
    """Make a function a phase. `retries`: how often it is tried again after an error."""
    return lambda function: Phase(name, function, retries)
