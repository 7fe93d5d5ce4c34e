"""Reward functions of the user: `path.py:function` with TRL's signature f(completions, **columns) or verl's
compute_score(data_source, solution_str, ground_truth, extra_info), plain or async.

Covered: calling the function in its own way, in a process of its own (ares/grading/function_process.py) that is killed
and replaced when it overruns. Not covered: loading the file (ares/config/extensions.py), checking what it returns
(ares/grading/grader.py).

The contract: calls come one after the other, on the main thread of one process that lives as long as the run; a sample
of a call that overruns `reward.timeout`, or under which the process dies, has no score. TRL's signature is one call a
shard and may take that long for each of its completions; an async compute_score answers a shard's samples together.
"""

import inspect
import logging
import math
import pickle
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pandas as pd

from ares.config import ConfigError
from ares.data import MESSAGES
from ares.grading.grader import RewardError
from rewards.child_process import environment

logger = logging.getLogger(__name__)

SCRIPT = str(Path(__file__).with_name("function_process.py"))
START_TIMEOUT = 600.0
"""Seconds that executing the file may take: it may load a model."""


class UserFunction:
    """A function of the user as a scorer. Its process starts with the first rows."""

    def __init__(self, function: Callable[..., Any], path: Path, name: str, timeout: float) -> None:
        """Raises ConfigError where the function has neither signature."""
        parameters = inspect.signature(function).parameters
        if not {"completions", "solution_str"} & set(parameters):
            raise ConfigError(
                f"reward.kind={path}:{name}: the function takes neither `completions` (TRL) nor `solution_str` (verl); "
                f"its parameters are {', '.join(parameters)}"
            )
        self.whole_shards = "completions" in parameters
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 (its kind is asked, not whether there is one)
        )
        self.timeout = timeout
        self._process = _Process(path, name)

    def __call__(self, rows: pd.DataFrame) -> list[float | None]:
        """Scores of rows (columns of the problem, and `response`). Raises RewardError where the function raises."""
        size = len(rows)
        if self.whole_shards:
            return self._process.call(_completions(rows), self.timeout * size, default=[None] * size)
        samples = [_sample(row) for row in rows.to_dict("records")]
        if self.is_async:
            values = self._process.call(samples, self.timeout * size, default=[None] * size, each=self.timeout)
        else:
            values = [self._process.call(sample, self.timeout, default=None) for sample in samples]
        return [_score(value) for value in values]

    def close(self) -> None:
        """End the process."""
        self._process.close()


class _Process:
    """One process of a function, started when it is called and started anew after it was killed or died."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self._lock = threading.Lock()
        self._running: tuple[subprocess.Popen[bytes], Connection[Any, Any]] | None = None
        self._finalizer: Callable[[], Any] = lambda: None

    def call(self, arguments: Any, limit: float, default: Any, each: float = math.inf) -> Any:
        """What the function returns; `default` where it takes more than `limit` seconds or its process dies."""
        with self._lock:
            try:
                if self._running is None:
                    self._start()
                return self._asked((arguments, min(each, limit)), limit)
            except TimeoutError:
                logger.warning("%s:%s took more than %.4g s and was killed: no score", self.path, self.name, limit)
            except (EOFError, ConnectionError):
                logger.warning("%s:%s: its process died under a call: no score", self.path, self.name)
            self._finalizer()
            self._running = None
            return default

    def close(self) -> None:
        """Kill it."""
        self._finalizer()
        self._running = None

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            # -P: the modules beside the script are no libraries. In a session of its own it outlives a Ctrl-C long
            # enough for the run to end it.
            command = [sys.executable, "-P", SCRIPT, str(self.path), self.name, str(theirs.fileno())]
            process = subprocess.Popen(command, env=environment(), pass_fds=[theirs.fileno()], start_new_session=True)
        connection: Connection[Any, Any] = Connection(ours.detach())
        self._running = process, connection
        self._finalizer = weakref.finalize(self, _end, process, connection)
        try:
            self._received(START_TIMEOUT)
        except Exception:
            self.close()
            raise

    def _asked(self, call: Any, limit: float) -> Any:
        assert self._running is not None
        self._running[1].send_bytes(pickle.dumps(call))
        return self._received(limit)

    def _received(self, limit: float) -> Any:
        assert self._running is not None
        connection = self._running[1]
        if not connection.poll(limit):
            raise TimeoutError
        done, value = pickle.loads(connection.recv_bytes())
        if done:
            return value
        raise RewardError(f"reward.kind={self.path}:{self.name} failed: {value}")


def _end(process: subprocess.Popen[bytes], connection: "Connection[Any, Any]") -> None:
    process.kill()
    process.wait()
    connection.close()


def _completions(rows: pd.DataFrame) -> dict[str, Any]:
    """What TRL passes: completions and prompts in the prompt's own form, and every column of the data set."""
    hidden = ("response", "token_ids", "log_probs", "prompt_token_ids", "token_entropies", "canvas", MESSAGES)
    columns: dict[str, list[Any]] = {str(name): rows[name].tolist() for name in rows.columns if name not in hidden}
    asked = rows[MESSAGES].tolist() if MESSAGES in rows else [None] * len(rows)
    answers = rows["response"].tolist()
    return columns | {
        "prompts": [text if chat is None else chat for chat, text in zip(asked, rows["prompt"], strict=True)],
        "completions": [
            text if chat is None else [{"role": "assistant", "content": text}]
            for chat, text in zip(asked, answers, strict=True)
        ],
    }


def _sample(row: Mapping[Any, Any]) -> dict[str, Any]:
    """What verl passes."""
    return {
        "data_source": row.get("data_source"),
        "solution_str": row["response"],
        "ground_truth": row["answer"],
        "extra_info": row.get("extra_info"),
    }


def _score(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "score" not in value:
        raise RewardError(f"The reward function returned a dict without 'score' (keys: {', '.join(map(str, value))})")
    return value["score"]
