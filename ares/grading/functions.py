"""User reward functions: `path.py:function` with TRL's signature f(completions, **columns) or verl's
compute_score(data_source, solution_str, ground_truth, extra_info), plain or async.

Covered: calling a function by its signature and reading its result; its process, which is killed and replaced when it
overruns or dies. Not covered: what runs in that process (ares/grading/function_process.py), loading the file
(ares/config/extensions.py), combining several functions (ares/grading/graders.py).

The contract: calls come one at a time, on the main thread of one process that lives as long as the run; if a call
overruns `reward.timeout` or its process dies, its samples have no score. TRL's signature is called once per shard and
may take that long per completion; an async compute_score answers a shard's samples concurrently.
"""

import inspect
import logging
import math
import pickle
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd

from ares.config import ConfigError
from ares.data import ASKED, OWN
from ares.grading.grader import STEP, RewardError
from rewards.child_process import ChildProcess, ProcessGone

logger = logging.getLogger(__name__)

OF_SAMPLING = (
    "response", "token_ids", "log_probs", "prompt_token_ids", "token_entropies", "canvas", "denoising_passes", ASKED,
    STEP,
)  # fmt: skip
"""Columns that are not the data set's; functions get some of them under other names."""
OF_TRL = {"completions", "completion_ids", "prompts"}
"""Parameters by which TRL's signature is recognized: a function may take one and leave the others to **columns."""
PATIENCE = 60.0
"""Least time limit of the very first call, in seconds: it may load a model."""
SCRIPT = str(Path(__file__).with_name("function_process.py"))
START_TIMEOUT = 600.0
"""Seconds that executing the file may take: it may load a model."""


@dataclass(frozen=True)
class FunctionScore:
    """A function's score of one response."""

    score: float | None = None
    """A finite number; None: the function does not apply to it, or failed."""
    extras: Mapping[str, Any] = field(default_factory=dict)
    """What a returned dict holds besides `score`."""
    failed: bool = False
    """The call overran or its process died: the sample has no score, whatever other functions say."""


class UserFunction:
    """A user's function as a scorer. Its process starts with the first rows, and again after it was killed or died."""

    def __init__(self, function: Callable[..., Any], setting: str, reference: str, timeout: float) -> None:
        """setting: the one that names it by `reference`. Raises ConfigError if it has neither signature."""
        self.told = f"{setting}={reference}"
        parameters = inspect.signature(function).parameters
        self.whole_shards = bool(OF_TRL & set(parameters))
        if not self.whole_shards and "solution_str" not in parameters:
            raise ConfigError(
                f"{self.told}: the function takes neither `completions` (TRL) nor `solution_str` (verl); "
                f"its parameters: {', '.join(parameters) or 'none'}"
            )
        self.compares = not self.whole_shards and "ground_truth" in parameters
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 (what kind it is matters, not whether there is one)
        )
        self.timeout = timeout
        file, _, self._name = reference.rpartition(":")
        self._file = str(Path(file))  # as tracebacks have it
        self._lock = threading.Lock()
        self._child: ChildProcess | None = None

    def __call__(self, rows: pd.DataFrame, first: bool = False) -> list[FunctionScore]:
        """Its scores of rows (columns of the problem, and `response`). Raises RewardError if it raises or returns
        anything but scores. first: the very first call, which must not fail."""
        if self.compares and "answer" not in rows:
            raise RewardError(
                f"{self.told} takes ground_truth, and the rows have no answer: name its column with data.answer_key=…"
            )
        size, each = len(rows), self.timeout
        total = max(each * size, PATIENCE) if first else each * size
        if self.whole_shards:
            done, values = self._call(_of_shard(rows), total)
            answered = [(done, value) for value in self._one_each(values, size)] if done else [(False, None)] * size
        elif self.is_async:
            samples = [_of_sample(row) for row in rows.to_dict("records")]
            done, answers = self._call(samples, total, each=max(each, PATIENCE) if first else each)
            answered = answers if done else [(False, None)] * size
        else:
            limit = max(each, PATIENCE) if first else each
            answered = [self._call(_of_sample(row), limit) for row in rows.to_dict("records")]
        if first and not all(done for done, _ in answered):
            raise RewardError(f"{self.told}: it took more than {max(each, PATIENCE):g} s, or its process died")
        return [
            self._said(value, place) if done else FunctionScore(failed=True)
            for (done, value), place in zip(answered, zip(rows["id"], rows["sample"], strict=True), strict=True)
        ]

    def close(self) -> None:
        """Kill the process; a call would start another."""
        if self._child is not None:
            self._child.kill()
        self._child = None

    def _call(self, arguments: Any, limit: float, each: float = math.inf) -> tuple[bool, Any]:
        """(True, the function's result), or (False, None) if it takes over `limit` seconds or its process dies.

        For a list of arguments the result is a list of such pairs, (False, None) for those that took over `each`
        seconds. Raises RewardError if the function raises.
        """
        with self._lock:
            try:
                if self._child is None:
                    child = ChildProcess(SCRIPT, self._file, self._name)  # ends with this variable if the file raises
                    self._value(child.ask(b"", START_TIMEOUT))
                    self._child = child
                return True, self._value(self._child.ask(pickle.dumps((arguments, min(each, limit))), limit))
            except ProcessGone as error:
                logger.warning("%s: %s: no score", self.told, error)
                self._child = None
                return False, None

    def _value(self, answer: bytes) -> Any:
        done, value = pickle.loads(answer)
        if done:
            return value
        report, may_pass = value
        raise RewardError(f"{self.told} failed: {report}", may_pass)

    def _one_each(self, values: Any, size: int) -> list[Any]:
        if isinstance(values, list) and len(values) == size:
            return values
        what = f"{len(values)} scores" if isinstance(values, list) else f"a {type(values).__name__}"
        raise RewardError(f"{self.told} returned {what} for {size} responses; it must return one each")

    def _said(self, value: Any, place: tuple[Any, Any]) -> FunctionScore:
        extras: dict[str, Any] = {}
        if isinstance(value, dict):
            extras = {str(key): extra for key, extra in value.items() if key != "score"}
            if "score" not in value:
                raise RewardError(f"{self.told} returned a dict without 'score' (keys: {', '.join(extras)})")
            value = value["score"]
        if isinstance(value, list) and value and not self.whole_shards:  # verl takes the first of a tuple
            value = value[0]
        if value is not None and not (isinstance(value, int | float) and math.isfinite(value)):
            raise RewardError(
                f"{self.told} gave {value!r:.80} to problem {place[0]!r}, sample {place[1]}; a score is a finite "
                "number (None: no score)"
            )
        return FunctionScore(None if value is None else float(value), extras)


def _of_shard(rows: pd.DataFrame) -> dict[str, Any]:
    """What TRL passes: prompts, completions and their tokens, every column of the data set as the row holds it, and the
    only part of the trainer's state that a function may depend on: the number of training steps done.

    The completion of a chat prompt is a list of messages, that of a text prompt is text.
    """
    columns: dict[str, list[Any]] = {str(name): rows[name].tolist() for name in rows if name not in OF_SAMPLING}
    own = {name.removeprefix(OWN): columns.pop(name) for name in list(columns) if name.startswith(OWN)}
    asked = rows[ASKED if ASKED in rows else "prompt"].tolist()
    answers = rows["response"].tolist()
    given: dict[str, Any] = {
        "prompts": asked,
        "completions": [
            text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]
            for prompt, text in zip(asked, answers, strict=True)
        ],
    }
    if "token_ids" in rows:
        given["completion_ids"] = [list(map(int, ids)) for ids in rows["token_ids"]]
    if STEP in rows:
        given["trainer_state"] = SimpleNamespace(global_step=int(rows[STEP].iloc[0]))
    return columns | own | given


def _of_sample(row: Mapping[Any, Any]) -> dict[str, Any]:
    """What verl passes."""
    extra_info = row.get("extra_info")
    return {
        "data_source": row.get("data_source"),
        "solution_str": row["response"],
        "ground_truth": row.get("answer"),
        "extra_info": {} if extra_info is None else extra_info,
    }
