"""Environments of many episodes in processes of their own: time limits, deaths, and episodes that are rebuilt.

    pool = EnvironmentPool(config.environment)
    pool.reset([Episode(key, row, seed)])                  → [Answer(Reply("Guess a number.")) or Answer(error="…")]
    pool.step([Episode(key, row, seed, heard=(digest,))], ["5"])       → [Answer(Reply("It is higher.", reward=0.0))]

An episode lives in one process. If that is killed, because another episode's call overran, or if the run is, the
episode is rebuilt: reset, then every response that it was given, comparing the digests of the replies. Whatever an
environment does is an Answer with an error, never an exception. Not covered: what environments are
(ares/environments/kinds.py), the other end of the socket (ares/environments/process.py).
"""

import itertools
import json
import logging
import os
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from ares.config import ConfigError, EnvironmentConfig
from ares.environments import kinds
from ares.environments.environment import Answer, Episode, Reply
from ares.environments.tools import describe_tools
from rewards.child_process import ChildProcess, ProcessGone, plain

logger = logging.getLogger(__name__)

SCRIPT = str(Path(__file__).with_name("process.py"))
START_TIMEOUT = 600.0
"""Seconds that loading an environment's file may take."""
VARIABLES = (
    "ARES_SANDBOX_PACKAGES",
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "NO_PROXY",
    "OMP_NUM_THREADS",
    "PATH",
    "TMPDIR",
    "TZ",
    "no_proxy",
)
"""Environment variables that a process is given, with those of the settings: no others, which may be credentials."""


class NoReply(Exception):
    """Why an episode has no reply, in one line."""


class EnvironmentPool:
    """The environments of a run. Its methods may be called from several threads; processes start at first use."""

    def __init__(self, config: EnvironmentConfig) -> None:
        self.config = config
        self._lock = threading.Lock()
        self._homes: dict[str, EnvironmentProcess] = {}
        self._processes = [EnvironmentProcess(config) for _ in range(config.processes)]
        self._next = itertools.cycle(self._processes)
        self._closed = threading.Event()

    def describe(self) -> list[dict[str, Any]]:
        """JSON schemas of the tools that the model may call; none for environments without.

        Raises ConfigError in one line if the environment cannot be loaded, in a process of its own.
        """
        if unset := [name for name in self.config.variables if name not in os.environ]:
            raise ConfigError(f"environment.variables: {unset[0]} is not set")
        first = self._processes[0]
        try:
            first.thread.submit(first.load, self.config.kind).result()
        except NoReply as error:
            raise ConfigError(f"environment: {error}") from error
        return describe_tools(kinds.tools_of(self.config.kind, self.config))

    def reset(self, episodes: Sequence[Episode]) -> list[Answer]:
        """Begin episodes; the reply's observation is the first one. Compared with `heard`, if that is known."""
        return self.step(episodes, [None] * len(episodes))

    def step(self, episodes: Sequence[Episode], texts: Sequence[str | None]) -> list[Answer]:
        """What each episode's environment says to its response; None: to its beginning. Processes work side by side,
        the episodes of each in turn."""
        with self._lock:
            for episode in episodes:
                if episode.key not in self._homes:
                    self._homes[episode.key] = next(self._next)
            homes = [self._homes[episode.key] for episode in episodes]
        answers: list[Answer] = []
        try:
            of_each = zip(homes, episodes, texts, strict=True)
            asked = [home.thread.submit(home.answer, episode, text) for home, episode, text in of_each]
            with suppress(CancelledError):  # they were closed
                answers = [each.result() for each in asked]
        except BaseException:  # interrupted: the call under way may take long
            self.close()
            raise
        if self._closed.is_set():
            raise RuntimeError("the environments were closed while they were asked")
        return answers

    def end(self, keys: Iterable[str]) -> None:
        """Forget episodes."""
        with self._lock:
            for key in keys:
                if (home := self._homes.pop(key, None)) is not None:
                    home.thread.submit(home.forget, key)

    def close(self) -> None:
        """Kill the processes. Idempotent; calls under way raise RuntimeError."""
        self._closed.set()
        for process in self._processes:
            process.close()


class EnvironmentProcess:
    """A process of environments, started at the first call and again after it was killed. Used by its own thread."""

    def __init__(self, config: EnvironmentConfig) -> None:
        self.config = config
        self.thread = ThreadPoolExecutor(1, "environments")
        self._child: ChildProcess | None = None
        self._limits: dict[str, float] = {}
        """Seconds that a step may take, for each kind that it has loaded."""
        self._live: dict[str, int] = {}
        """Responses that each of its live episodes was given."""

    def answer(self, episode: Episode, text: str | None) -> Answer:
        """The reply to a response; None: to the beginning of the episode."""
        own = episode.row.get("environment")
        kind = self.config.kind if own is None or own == "" or own != own else str(own)  # NaN, as pandas fills columns
        file, is_file, _ = kind.rpartition(".py:")
        self._turn = 0
        try:
            # Else data would choose what is executed, and nothing would notice that the file has changed.
            if is_file and file != self.config.kind.rpartition(".py:")[0]:
                raise NoReply("a row may name a class of environment.kind's file, a game or tools, and no other file")
            self.load(kind)
            if text is None or self._live.get(episode.key) != len(episode.said):
                reply = self._rebuild(episode, kind, episode.said if text is not None else ())
            if text is not None:
                reply = self._step(episode, kind, text)
        except NoReply as error:
            self._live.pop(episode.key, None)
            when = f"turn {self._turn}" if self._turn else "reset"
            return Answer(error=f"environment {kind}, row {episode.row.get('id')!r}, {when}: {error}")
        return Answer(reply)

    def load(self, kind: str) -> None:
        """Have the process, started if need be, make environments of a kind. Raises NoReply."""
        if self._child is not None and not self._child.is_alive():
            logger.warning("a process of environments died between two calls: its episodes are rebuilt")
            self._end()
        if self._child is None:
            given = (*VARIABLES, *self.config.variables)
            variables = {name: os.environ[name] for name in given if name in os.environ}
            self._child = ChildProcess(SCRIPT, self.config.model_dump_json(), variables=variables)
        if kind not in self._limits:
            loaded = self._ask({"do": "load", "kind": kind}, START_TIMEOUT)
            self._limits[kind] = self.config.timeout * loaded["calls"]

    def forget(self, key: str) -> None:
        """Have the process end an episode."""
        if self._live.pop(key, None) is not None:
            with suppress(NoReply):
                self._ask({"do": "forget", "key": key}, self.config.timeout)

    def close(self) -> None:
        """Kill the process."""
        self.thread.shutdown(wait=False, cancel_futures=True)
        if (child := self._child) is not None:
            child.kill()

    def _rebuild(self, episode: Episode, kind: str, said: Sequence[str]) -> Reply:
        """The reply to the last of what was said, or to the reset."""
        self._turn = 0
        row = plain(episode.row)
        reply = self._reply({"do": "reset", "kind": kind, "key": episode.key, "row": row, "seed": episode.seed})
        self._live[episode.key] = 0
        self._compare(reply, episode)
        for text in said:
            reply = self._step(episode, kind, text)
            self._compare(reply, episode)
        return reply

    def _step(self, episode: Episode, kind: str, text: str) -> Reply:
        self._turn = self._live[episode.key] + 1
        reply = self._reply({"do": "step", "kind": kind, "key": episode.key, "text": text})
        self._live[episode.key] += 1
        return reply

    def _compare(self, reply: Reply, episode: Episode) -> None:
        """Raises NoReply if it is not the one that was heard."""
        if self._turn < len(episode.heard) and reply.digest() != episode.heard[self._turn]:
            raise NoReply("not reproducible: it answered differently to the same row, seed and responses")

    def _reply(self, call: dict[str, Any]) -> Reply:
        return Reply.read(self._ask(call, self._limits[call["kind"]]))

    def _ask(self, call: dict[str, Any], limit: float) -> dict[str, Any]:
        """The process's answer. Raises NoReply; if it overran or died, it is gone with all its episodes."""
        assert self._child is not None
        try:
            answer = json.loads(self._child.ask(json.dumps(call).encode(), limit))
        except ProcessGone as error:
            self._end()
            raise NoReply(str(error)) from error
        if "error" in answer:
            raise NoReply(answer["error"])
        return answer

    def _end(self) -> None:
        """The process is gone: its episodes are no longer live."""
        self._child = None
        self._limits.clear()
        self._live.clear()
