"""Calls a user's function in a process of its own, which is killed and replaced when it overruns or dies.

Covered: starting, limits, restarts. Not covered: the process itself (ares/grading/function_process.py), arguments and
results (ares/grading/functions.py).
"""

import logging
import math
import pickle
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ares.grading.grader import RewardError
from rewards.child_process import environment

logger = logging.getLogger(__name__)

SCRIPT = str(Path(__file__).with_name("function_process.py"))
START_TIMEOUT = 600.0
"""Seconds that executing the file may take: it may load a model."""


class FunctionProcess:
    """A function's process, started at the first call and restarted after it was killed or died."""

    def __init__(self, path: Path, name: str, told: str) -> None:
        self.path, self.name, self.told = path, name, told
        self._lock = threading.Lock()
        self._running: tuple[subprocess.Popen[bytes], Connection[Any, Any]] | None = None
        self._finalizer: Callable[[], Any] = lambda: None

    def call(self, arguments: Any, limit: float, each: float = math.inf) -> tuple[bool, Any]:
        """(True, the function's result), or (False, None) if it takes over `limit` seconds or its process dies.

        For a list of arguments the result is a list of such pairs, (False, None) for those that took over `each`
        seconds. Raises RewardError if the function raises.
        """
        with self._lock:
            try:
                if self._running is None:
                    self._start()
                return True, self._asked((arguments, min(each, limit)), limit)
            except TimeoutError:
                logger.warning("%s took more than %.4g s and was killed: no score", self.told, limit)
            except (EOFError, ConnectionError):
                logger.warning("%s: its process died during a call: no score", self.told)
            self.close()
            return False, None

    def close(self) -> None:
        """Kill the process."""
        self._finalizer()
        self._running = None

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            # -P: the modules beside the script must not be importable. In a session of its own the process outlives a
            # Ctrl-C long enough for the run to end it.
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
        report, may_pass = value
        raise RewardError(f"{self.told} failed: {report}", may_pass)


def _end(process: subprocess.Popen[bytes], connection: "Connection[Any, Any]") -> None:
    process.kill()
    process.wait()
    connection.close()
