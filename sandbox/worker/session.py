"""The checker's side of the conversation with one candidate: limits, liveness, values.

Time is the candidate's own CPU time, read from its CPU clock; wall time is only a generous backstop, because a loaded
machine must not fail an honest program. A request is answered or the session fails, once and for good. Whatever a
candidate sends, this failure is the worst that it can cause: every byte is handled within `_Foreign`.
"""

import builtins
import contextlib
import os
import select
import signal
import socket
import struct
import time
from typing import Any, Self

from . import values, wire
from .candidate import EXIT_OUT_OF_MEMORY

MAX_OUTPUT_BYTES = 64 << 10
KILLED = "killed"  # not an outcome: nobody knows who killed the candidate, and the test is run again
ALIVE = -1  # in place of a wait status
USAGE = struct.Struct("=idq")  # wait status, CPU seconds, peak resident bytes
_FDS = struct.Struct("3i")
_FDS_SPACE = socket.CMSG_SPACE(_FDS.size)
_EXCEPTIONS = {  # not groups, which are made of exceptions
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException) and not issubclass(kind, BaseExceptionGroup)
}


class CandidateFailed(BaseException):
    """The candidate is dead, too slow or talks nonsense. Not an Exception, which a test might catch."""

    def __init__(self, outcome: str, detail: str) -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.detail = detail


class Zygote:
    """The checker's line to its zygote, which alone can start and kill candidates."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control

    def spawn(self) -> tuple[int, list[int]]:
        """(pid, [connection, stdout file, stderr file]) of a new candidate."""
        self._control.send(b"spawn")
        data, ancillary, _, _ = self._control.recvmsg(64, _FDS_SPACE)
        if not data:
            raise wire.ConnectionClosed
        return int(data), list(_FDS.unpack(ancillary[0][2]))

    def kill(self, is_ending: bool = False) -> dict[str, Any]:
        """Kill the candidate; its wait status (ALIVE if it should have ended), CPU seconds and peak resident bytes."""
        self._control.send(b"bury" if is_ending else b"kill")
        status, cpu, peak_rss = USAGE.unpack(self._control.recv(64))
        return {"status": status, "cpu": cpu, "peak_rss": peak_rss}


class Remote:
    """An object of the program's that is not a plain value: it can be called and handed back, and equals itself."""

    __slots__ = ("_session", "_target")

    def __init__(self, session: "Session", target: list[Any]) -> None:
        self._session = session
        self._target = target

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._session.call(self._target, args, kwargs)


class RemoteIterator(Remote):
    """An iterator of the program's, taken one item at a time."""

    __slots__ = ("_is_ended",)

    def __init__(self, session: "Session", target: list[Any]) -> None:
        super().__init__(session, target)
        self._is_ended = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if not self._is_ended:
            items = self._session.next_item(self._target)
            if items:
                return items[0]
            self._is_ended = True
        raise StopIteration


class _Foreign:
    """Wraps all that is done with what the candidate sent: whatever that raises is the candidate's failure."""

    def __init__(self, session: "Session") -> None:
        self._session = session

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, Exception):
            return
        outcome, detail = "runtime_error", f"a malformed result: {type(error).__name__}"
        if isinstance(error, MemoryError):
            outcome, detail = "memory", "a result takes more memory than is available"
        elif isinstance(error, values.Oversized):
            outcome, detail = "memory", str(error)
        raise self._session.fail(outcome, detail) from None


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
        self._frames = wire.Frames(self._connection, wire.MAX_REPLY_BYTES)
        self._next_id = 0
        self._remotes: dict[int, Remote] = {}
        self._values: dict[str, Any] = {}  # of the program's names, since it last ran
        self._answered: dict[int | None, list[Any]] = {}  # containers of last answers, as server.py keeps them
        self.raised: BaseException | None = None  # the last exception that came from the program
        self.failure: CandidateFailed | None = None
        self.usage: dict[str, Any] | None = None  # once dead
        self.start_clock()

    # Limits

    def cpu(self) -> float:
        """CPU seconds of the candidate so far."""
        if self.usage is not None:
            return float(self.usage["cpu"])
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

    def fail(self, outcome: str, detail: str) -> CandidateFailed:
        """End the session with this outcome; returns the failure to raise."""
        self.failure = CandidateFailed(outcome, detail)
        self.stop()
        return self.failure

    def _wait(self, event: int = select.POLLIN) -> None:
        """Return when the connection can be read (or written to); fail when the allowance is spent."""
        self._poll.modify(self._connection, event)
        while True:
            cpu_left = self._cpu_seconds - self.used()
            wall_left = self._wall_deadline - time.monotonic()
            if cpu_left <= 0:
                raise self.fail("timeout", f"more than {self._cpu_seconds:g} s of CPU time")
            if wall_left <= 0:
                raise self.fail("timeout", f"more than {self._wall_seconds:g} s of wall time")
            if self._poll.poll(1000 * min(cpu_left + 0.001, wall_left)):
                return

    def _died(self) -> CandidateFailed:
        self.stop(is_ending=True)
        assert self.usage is not None
        status = self.usage["status"]
        if status == ALIVE:
            self.failure = CandidateFailed("runtime_error", "the program closed its connection")
            return self.failure
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        # A PID namespace's first process never sees SIGXCPU, and RLIMIT_CPU then kills: usage tells them apart.
        if number == signal.SIGXCPU or (number == signal.SIGKILL and self.used() >= self._cpu_seconds):
            self.failure = CandidateFailed("timeout", f"more than {self._cpu_seconds:g} s of CPU time")
        elif number == signal.SIGKILL and self.usage["peak_rss"] > self._memory_bytes // 2:
            self.failure = CandidateFailed("memory", "killed, most likely by the kernel: out of memory")
        elif number == signal.SIGKILL:  # no candidate can send it to itself
            self.failure = CandidateFailed(KILLED, "the program's process was killed by something outside")
        elif number:
            name = signal.Signals(number).name
            self.failure = CandidateFailed("runtime_error", f"the program's process was ended by {name}")
        elif os.WEXITSTATUS(status) == EXIT_OUT_OF_MEMORY:
            self.failure = CandidateFailed("memory", "out of memory")
        else:
            ended = f"the program ended its process with status {os.WEXITSTATUS(status)}"
            self.failure = CandidateFailed("runtime_error", ended)
        return self.failure

    def stop(self, is_ending: bool = False) -> None:
        """Kill the candidate, if it lives, and record its usage."""
        if self.usage is None:
            self.usage = self._zygote.kill(is_ending)
            self._connection.close()

    def output(self, limit: int = MAX_OUTPUT_BYTES) -> tuple[bytes, bytes]:
        """What it wrote to stdout and stderr, at most limit bytes each. Ends the session."""
        self.stop()
        texts = []
        for fd in (self._stdout, self._stderr):
            texts.append(os.pread(fd, limit, 0))
            os.close(fd)
        return texts[0], texts[1]

    def written(self, limit: int) -> bytes | None:
        """What it wrote to stdout; None if that is more than limit bytes."""
        return None if os.fstat(self._stdout).st_size > limit else os.pread(self._stdout, limit, 0)

    # Conversation

    def send(self, message: Any) -> None:
        """Send one message; fails the session of a candidate that is dead or does not read it."""
        frame = memoryview(wire.encode_frame(message))
        while frame:
            try:
                frame = frame[self._connection.send(frame, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                self._wait(select.POLLOUT)
            except OSError:
                raise self._died() from None

    def receive(self) -> dict[str, Any]:
        """The next message of the candidate's; fails the session on silence, death or nonsense."""
        try:
            body = self._frames.body(self._wait)
        except wire.FrameTooLarge as error:
            raise self.fail("runtime_error", f"a result too large: {error}") from None
        except MemoryError:
            raise self.fail("memory", "a result takes more memory than is available") from None
        except (wire.ConnectionClosed, OSError):
            raise self._died() from None
        with _Foreign(self):
            values.require_small(body, self._memory_bytes)
            message = wire.decode_body(body)
            if not isinstance(message, dict):
                raise TypeError("not an object")
        return message

    def _request(self, do: str, **fields: Any) -> dict[str, Any]:
        if self.failure is not None:
            raise self.failure
        self._next_id += 1
        self.send({"do": do, "id": self._next_id, **fields})
        reply = self.receive()
        if reply.get("id") != self._next_id:
            raise self.fail("runtime_error", "the program wrote into its own connection")
        return reply

    def _refer(self, value: Any) -> list[Any]:
        if isinstance(value, Remote):
            return value._target
        raise TypeError(f"a {type(value).__name__} is not plain data, and stays with the test")

    def _resolve(self, data: list[Any]) -> Remote:
        tag, number, is_iterator = data
        if tag != "h" or type(number) is not int:
            raise ValueError("unknown tag")
        if number not in self._remotes:
            self._remotes[number] = (RemoteIterator if is_iterator is True else Remote)(self, ["h", number])
        return self._remotes[number]

    def _exception(self, reply: dict[str, Any], reader: values.Reader) -> BaseException:
        """The program's exception: a built-in with its arguments, or a class of its name below the nearest built-in."""
        name, *bases = reply["error"]
        text = reply["text"]
        if not all(isinstance(word, str) for word in (name, text, *bases)):
            raise TypeError("not the names of classes")
        args = [reader.decode(argument) for argument in reply.get("args", [text])]
        if name in _EXCEPTIONS:
            with contextlib.suppress(TypeError):  # some only take arguments of certain types
                return _EXCEPTIONS[name](*args)
        base = next(_EXCEPTIONS[base] for base in (name, *bases) if base in _EXCEPTIONS)
        body = {"__str__": lambda self: text, "__init__": lambda self, *args: None}
        error: BaseException = type(name[:60], (base,), body)(*args)
        return error

    # What tests use

    def call(self, on: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call something of the program's; carry over what it changed in its arguments. Raises what it raised."""
        writer = values.Writer(self._refer)
        sent = [writer.encode(value) for value in args]
        named = {name: writer.encode(value) for name, value in kwargs.items()}
        self._values = {}
        last = self._answered.pop(None, [])
        reply = self._request("call", on=on, args=sent, kwargs=named, last=len(last))
        with _Foreign(self):
            reader = values.Reader(self._resolve, [*writer.objects, *last])
            if "changed" in reply:
                for value, contents in zip(writer.objects, reply["changed"], strict=True):
                    reader.refill(value, contents)
            if "error" not in reply:
                return self._answer(reply, None, reader, last)
            self._follow(reply, reader, last)
            error = self._exception(reply, reader)
        if isinstance(error, StopIteration):  # would silently end a test's map() or zip()
            error = RuntimeError("the program raised StopIteration")
        self.raised = error
        raise error

    def next_item(self, on: list[Any]) -> list[Any]:
        """The next item of an iterator of the program's, alone in a list; an empty list at its end."""
        self._values = {}
        last = self._answered.pop(on[1], [])
        reply = self._request("next", on=on, last=len(last))
        with _Foreign(self):
            reader = values.Reader(self._resolve, last)
            if "error" not in reply and reply.get("end") is not True:
                return [self._answer(reply, on[1], reader, last)]
            self._follow(reply, reader, last)
            if reply.get("end") is True:
                return []
            self.raised = self._exception(reply, reader)
        raise self.raised

    def _answer(self, reply: dict[str, Any], key: int | None, reader: values.Reader, last: list[Any]) -> Any:
        self._follow(reply, reader, last)
        known = len(reader.objects)
        value = reader.decode(reply["value"])
        if "again" in reply:
            self._answered[key] = [*(last if reply["again"] is True else ()), *reader.objects[known:]]
        return value

    def _follow(self, reply: dict[str, Any], reader: values.Reader, last: list[Any]) -> None:
        """Carry over what the program has since changed in its last answer."""
        if "last" in reply:
            for value, contents in zip(last, reply["last"], strict=True):
                reader.refill(value, contents)

    def value(self, name: str) -> Any:
        """What a name of the program's stands for; the same until the program runs again. Raises KeyError."""
        if name not in self._values:
            reply = self._request("value", name=name)
            with _Foreign(self):
                if "error" not in reply:
                    self._values[name] = values.Reader(self._resolve).decode(reply["value"])
        return self._values[name]

    def run(self, **fields: Any) -> tuple[str, str]:
        """(outcome, detail) of a test in the program's process, as that process reports it."""
        nonce = os.urandom(16).hex()  # at least no answer can be written before the question
        reply = self._request("run", nonce=nonce, **fields)
        with _Foreign(self):
            outcome, detail = reply["outcome"], reply["detail"]
            if reply["nonce"] != nonce or not (isinstance(outcome, str) and isinstance(detail, str)):
                raise ValueError("not an answer to the question")
            if outcome not in ("accepted", "wrong_answer", "runtime_error", "memory"):
                raise ValueError("no outcome of a test")
        return outcome, detail
