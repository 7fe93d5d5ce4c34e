"""The checker's side of the conversation with one candidate: limits, liveness, values.

Time is the candidate's own CPU time, read from its CPU clock; wall time is only a generous backstop, because a loaded
machine must not fail an honest program. A request is answered or the session fails, once and for good.
"""

import builtins
import os
import select
import signal
import socket
import struct
import time
import types
from collections.abc import Iterator
from typing import Any

from . import proxies, values, wire
from .candidate import EXIT_OUT_OF_MEMORY

MAX_OUTPUT_BYTES = 64 << 10
USAGE = struct.Struct("=idq")  # wait status, CPU seconds, peak resident bytes
_FDS = struct.Struct("3i")
_FDS_SPACE = socket.CMSG_SPACE(_FDS.size)
# Asked of the kernel at once: a buffer above 128 KiB is mapped and unmapped for every call.
_USUAL_BYTES, _MOST_BYTES = 16 << 10, 1 << 20
_MAX_CALLBACKS = 100_000  # of one request
_MAX_ITERATOR_ITEMS = 100_000
_BUILTIN_EXCEPTIONS = {
    name: kind for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)
}


class CandidateFailed(BaseException):
    """The candidate is dead, too slow or talks nonsense. Not for a test's `except Exception` to eat."""

    def __init__(self, outcome: str, detail: str) -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.detail = detail


class ProgramError(Exception):
    """An exception of the program's that has no built-in class."""


class Zygote:
    """The checker's line to its zygote, which alone can start and kill candidates."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control

    def spawn(self) -> tuple[int, list[int]]:
        """(pid, [connection, stdout file, stderr file]) of a new candidate."""
        self._control.send(b"spawn")
        data, ancillary, _, _ = self._control.recvmsg(64, _FDS_SPACE)
        if not data:
            raise wire.Disconnected
        return int(data), list(_FDS.unpack(ancillary[0][2]))

    def kill(self) -> dict[str, Any]:
        """Kill the candidate; its wait status, CPU seconds and peak resident bytes."""
        self._control.send(b"kill")
        status, cpu, peak_rss = USAGE.unpack(self._control.recv(64))
        return {"status": status, "cpu": cpu, "peak_rss": peak_rss}


class Session:
    """One candidate process and the conversation with it."""

    def __init__(self, zygote: Zygote, cpu_seconds: float, wall_seconds: float, memory_bytes: int) -> None:
        self._zygote = zygote
        self._cpu_seconds = cpu_seconds
        self._wall_seconds = wall_seconds
        self._memory_bytes = memory_bytes
        pid, (connection, self._stdout, self._stderr) = zygote.spawn()
        self._connection = wire.stream_socket(connection)
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._clock = (~pid << 3) | 2  # CLOCK_PROCESS_CPUTIME_ID of that process
        self._buffer = b""
        self._next_id = 0
        self._proxies: dict[int, proxies.Proxy] = {}
        self._callbacks: list[Any] = []
        self._exceptions: dict[str, type[BaseException]] = {}
        self.raised: BaseException | None = None  # the last exception that came from the program
        self.failure: CandidateFailed | None = None
        self.usage: dict[str, Any] | None = None  # once dead
        self.start_clock()

    # Limits

    def cpu(self) -> float:
        """CPU seconds of the candidate so far."""
        try:
            return time.clock_gettime(self._clock)
        except OSError:  # it is dead and its clock with it; end of file follows
            return self._cpu_at_start

    def start_clock(self) -> None:
        """Grant a whole new allowance of CPU and wall time."""
        self._cpu_at_start = 0.0
        self._cpu_at_start = self.cpu()
        self._wall_deadline = time.monotonic() + self._wall_seconds

    def used(self) -> float:
        """CPU seconds since start_clock()."""
        return self.cpu() - self._cpu_at_start

    def _fail(self, outcome: str, detail: str) -> CandidateFailed:
        self.failure = CandidateFailed(outcome, detail)
        self.stop()
        return self.failure

    def _wait(self) -> None:
        """Return when there is something to read; fail when the allowance is spent."""
        while True:
            cpu_left = self._cpu_seconds - self.used()
            wall_left = self._wall_deadline - time.monotonic()
            if cpu_left <= 0:
                raise self._fail("timeout", f"more than {self._cpu_seconds:g} s of CPU time")
            if wall_left <= 0:
                raise self._fail("timeout", f"more than {self._wall_seconds:g} s of wall time")
            if self._poll.poll(1000 * min(cpu_left + 0.001, wall_left)):
                return

    def _died(self) -> CandidateFailed:
        self.stop()
        assert self.usage is not None
        status, used = self.usage["status"], self.usage["cpu"]
        outcome, detail = (
            "runtime_error",
            f"the program ended its process with status {os.waitstatus_to_exitcode(status)}",
        )
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            detail = f"the program's process was ended by {signal.Signals(number).name}"
            # A PID namespace's first process never sees SIGXCPU, and RLIMIT_CPU then kills: usage tells them apart.
            if number == signal.SIGXCPU or (
                number == signal.SIGKILL and used - self._cpu_at_start >= self._cpu_seconds
            ):
                outcome = "timeout"
            elif number == signal.SIGKILL and self.usage["peak_rss"] > self._memory_bytes // 2:
                outcome = "memory"
        elif os.WEXITSTATUS(status) == EXIT_OUT_OF_MEMORY:
            outcome, detail = "memory", "out of memory"
        self.failure = CandidateFailed(outcome, detail)
        return self.failure

    def stop(self) -> None:
        """Kill the candidate, if it lives, and take its usage."""
        if self.usage is None:
            self.usage = self._zygote.kill()
            self._connection.close()

    def output(self, limit: int = MAX_OUTPUT_BYTES) -> tuple[bytes, bytes]:
        """What it wrote to stdout and stderr, at most limit bytes each. Ends the session."""
        self.stop()
        texts = []
        for fd in (self._stdout, self._stderr):
            texts.append(os.pread(fd, limit, 0))
            os.close(fd)
        return texts[0], texts[1]

    def stdout_bytes(self) -> int:
        """Size of what it wrote to stdout."""
        return os.fstat(self._stdout).st_size

    # Conversation

    def send(self, message: Any) -> None:
        """Send one message; a dead candidate fails the session."""
        try:
            wire.send(self._connection, message)
        except wire.Disconnected:
            raise self._died() from None

    def receive(self) -> dict[str, Any]:
        """The next message of the candidate's; fails the session on silence, death or nonsense."""
        wanted = _USUAL_BYTES
        while True:
            if len(self._buffer) >= 4:
                (size,) = struct.unpack_from("<I", self._buffer)
                if size > wire.MAX_REPLY_BYTES:
                    raise self._fail("runtime_error", f"a result of {size} bytes is too large")
                if len(self._buffer) >= 4 + size:
                    break
                wanted = max(wanted, 4 + size - len(self._buffer))
            self._wait()
            try:
                piece = self._connection.recv(min(wanted, _MOST_BYTES))
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise self._died()
            self._buffer += piece
        body, self._buffer = self._buffer[4 : 4 + size], self._buffer[4 + size :]
        try:
            message = wire.decode_body(body)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise self._fail("runtime_error", "the program wrote into its own connection")
        return message

    def _decode(self, data: Any) -> Any:
        try:
            return values.decode(data, self._resolve)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - foreign data: any failure means that it was not ours
            raise self._fail("runtime_error", f"malformed result: {type(error).__name__}") from None

    def _resolve(self, data: list[Any]) -> proxies.Proxy:
        tag, index, type_name, traits = data
        if tag != "h" or type(index) is not int or type(type_name) is not str:
            raise ValueError("unknown tag")
        if index not in self._proxies:
            self._proxies[index] = proxies.Proxy(self, index, type_name[:60], traits == "v")
        return self._proxies[index]

    def _encode(self, value: Any) -> Any:
        return values.encode(value, self._reference)

    def _reference(self, value: Any) -> list[Any]:
        if isinstance(value, proxies.Proxy):
            return ["h", value._index]
        if isinstance(value, Iterator):
            items = []
            for item in value:
                items.append(self._encode(item))
                if len(items) > _MAX_ITERATOR_ITEMS:
                    raise proxies.NeedsInProcess
            return ["iterator", ["l", items]]
        if isinstance(value, (types.FunctionType, types.MethodType)):
            self._callbacks.append(value)
            return ["callback", len(self._callbacks) - 1]
        # The test's own kind of object: it only makes sense in one process with the program.
        raise proxies.NeedsInProcess

    def request(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Ask the candidate; its reply. Raises what the program raised, as a class of the checker's own."""
        if self.failure is not None:
            raise self.failure
        self._next_id += 1
        self.send({"kind": kind, "id": self._next_id, **fields})
        callbacks = 0
        while "callback" in (reply := self.receive()):
            callbacks += 1
            if callbacks > _MAX_CALLBACKS:
                raise self._fail("runtime_error", "too many calls of the test's functions")
            self.send(self._call_back(reply))
        if reply.get("id") != self._next_id:
            raise self._fail("runtime_error", "the program wrote into its own connection")
        if "error" in reply:
            raise self._exception(reply)
        return reply

    def _call_back(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            function = self._callbacks[message["callback"]]
            args = [self._decode(value) for value in message["args"]]
            kwargs = {str(name): self._decode(value) for name, value in message["kwargs"].items()}
        except (LookupError, TypeError, AttributeError):
            raise self._fail("runtime_error", "the program wrote into its own connection") from None
        try:
            return {"value": self._encode(function(*args, **kwargs))}
        except Exception as error:  # noqa: BLE001 - the test's function raised: the program that called it shall see
            return {"error": [type(error).__name__], "message": str(error)[:300]}

    def _exception(self, reply: dict[str, Any]) -> BaseException:
        """The program's exception, as the nearest class that the checker knows."""
        names = [name for name in reply["error"] if isinstance(name, str)] if isinstance(reply["error"], list) else []
        message = str(reply.get("message"))[:300]
        known = (self._exceptions.get(name) or _BUILTIN_EXCEPTIONS.get(name) for name in names)
        kind = next((kind for kind in known if kind is not None), ProgramError)
        try:
            self.raised = kind(message)
        except TypeError:  # UnicodeDecodeError and the like want more than a message
            self.raised = ProgramError(f"{kind.__name__}: {message}")
        return self.raised

    def define_exceptions(self, names: dict[str, Any]) -> dict[str, type[BaseException]]:
        """Local classes for the program's own exceptions, so that a test can catch them by name."""
        for name, (kind, *rest) in names.items():
            if kind == "exception":
                bases = [_BUILTIN_EXCEPTIONS[base] for base in rest[0] if base in _BUILTIN_EXCEPTIONS]
                self._exceptions[name] = type(name, (bases[0] if bases else Exception,), {})
        return self._exceptions

    # What proxies use

    def call(self, on: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the candidate's object; carry in-place changes over to the arguments."""
        sent = [self._encode(value) for value in args]
        named = {name: self._encode(value) for name, value in kwargs.items()}
        reply = self.request("call", on=on, args=sent, kwargs=named)
        for position, data in reply.get("changed", ()):
            _update_in_place(args[position], self._decode(data))
        if type(reply.get("same")) is int and 0 <= reply["same"] < len(args):
            return args[reply["same"]]
        return self._decode(reply.get("value"))

    def operate(self, on: int, operation: str, *args: Any) -> Any:
        """One operation on the candidate's object."""
        encoded = [self._encode(value) for value in args]
        return self._decode(self.request("operate", on=on, op=operation, args=encoded).get("value"))

    def plain(self, on: int) -> Any:
        """The plain value under a container subclass."""
        return self._decode(self.request("plain", on=on).get("value"))

    def data(self, name: str) -> Any:
        """The value of a top-level name."""
        return self._decode(self.request("data", name=name).get("value"))

    def next_items(self, on: int, count: int) -> tuple[list[Any], bool]:
        """Up to count items of the candidate's iterator, and whether it ended."""
        reply = self.request("next", on=on, count=count)
        items = self._decode(reply.get("value"))
        if type(items) is not list:
            raise self._fail("runtime_error", "malformed result")
        return items, reply.get("end") is True


def _update_in_place(old: Any, new: Any) -> None:
    """Give a mutable argument its new content, keeping the identity of inner containers that kept their place."""
    if type(old) is not type(new):
        return
    if isinstance(old, list):
        for position, (before, after) in enumerate(zip(old, new, strict=False)):
            if type(before) is type(after) and type(before) in values.MUTABLE:
                _update_in_place(before, after)
                new[position] = before
        old[:] = new
    elif isinstance(old, bytearray):
        old[:] = new
    elif isinstance(old, dict):
        for key, after in new.items():
            before = old.get(key)
            if type(before) is type(after) and type(before) in values.MUTABLE:
                _update_in_place(before, after)
                new[key] = before
        old.clear()
        old.update(new)
    elif isinstance(old, set):
        old.clear()
        old.update(new)
    else:
        old.clear()
        old.extend(new)
