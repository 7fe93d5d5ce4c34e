"""Python child processes that can import what their parent can, answer its messages, and exit when it does.

Here because every package that needs it may import from rewards/. Standard library only. Not covered: the sandbox,
whose processes must not find our modules.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any


def environment(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment for a child with this process's import path: these variables, by default all."""
    return dict(variables) | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}


class ProcessGone(Exception):
    """A child was killed since its answer took too long, or it has died; the message says which."""


class ChildProcess:
    """A script in a process and session of its own; what it prints goes where the parent's own output goes.

    Its arguments are those given and the descriptor of a socket, over which it answers each message (answer_messages).
    variables: of its environment.
    """

    def __init__(self, script: str, *arguments: str, variables: Mapping[str, str] = os.environ) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            # -P: the modules beside the script must not be importable. In a session of its own the process outlives a
            # Ctrl-C long enough for the run to end it. The order of a set of strings is the same in every process.
            process = subprocess.Popen(
                [sys.executable, "-u", "-P", script, *arguments, str(theirs.fileno())],
                env=environment(variables) | {"PYTHONHASHSEED": "0"},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._connection: Connection[Any, Any] = Connection(ours.detach())
        self.is_alive: Callable[[], bool] = lambda: process.poll() is None
        self.kill = weakref.finalize(self, _end, process)
        """Kill it and its own children. Idempotent, and safe while another thread waits for an answer: that is told."""

    def ask(self, message: bytes, limit: float) -> bytes:
        """Its answer. Raises ProcessGone; it is killed after `limit` seconds."""
        try:
            self._connection.send_bytes(message)
            if self._connection.poll(limit):
                return self._connection.recv_bytes()
            why = f"took more than {limit:g} s"
        except (EOFError, OSError):
            why = "its process died"
        self.kill()
        raise ProcessGone(why)


def _end(process: subprocess.Popen[bytes]) -> None:
    _kill_session(process.pid)
    process.wait()


def _kill_session(session: int) -> None:
    """Kill the processes of a session, of whatever process group: this one last, if it is among them."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    for pid in sorted(pids, key=lambda pid: pid == os.getpid()):
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == session:
                os.kill(pid, signal.SIGKILL)


def answer_messages(answer: Callable[[bytes], bytes]) -> None:
    """In the child: answer each message over the socket that the last argument names, until the parent is gone."""
    own, connection = os.getpid(), Connection(int(sys.argv[-1]))
    end_with(os.getppid())  # while an answer is made, nothing would notice that the socket has closed
    while True:
        try:
            message = connection.recv_bytes()
        except (EOFError, ConnectionResetError):
            return
        reply = answer(message)
        if os.getpid() != own:  # the user's code has forked: there is one socket
            os._exit(0)
        connection.send_bytes(reply)


def end_with(parent: int) -> None:
    """In the child, or a fork of it: kill its session as soon as `parent` is gone, even while the main thread is busy.

    A parent that is killed cannot stop its children itself. A session that neither of the two leads, as a terminal's,
    is none of ours: there this process ends alone.
    """
    session = os.getsid(0)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        if session in (os.getpid(), parent):
            _kill_session(session)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def plain(value: Any) -> Any:
    """Arrays, tensors, tuples, iterators, fractions, dates and the like as plain numbers, strings, None, lists and
    dicts. Anything else becomes its repr."""
    if hasattr(value, "tolist"):  # NumPy, PyTorch, pandas
        value = value.tolist()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, Set | bytes):  # unordered, or no text
        return repr(value)
    if isinstance(value, Iterable):
        return [plain(inner) for inner in value]
    if hasattr(value, "isoformat"):
        return value.isoformat()
    try:
        return float(value)
    except (TypeError, ValueError):
        return repr(value)


def where_raised(error: BaseException, path: str) -> str:
    """The innermost line of a file that an error passed through, and the error, in one line."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    told = " ".join(traceback.format_exception_only(error)[-1].split())
    return (f"{path}:{own[-1].lineno} in {own[-1].name}: " if own else "") + told
