"""The checker's side of the conversation with one candidate: limits, liveness, values.

Time is the candidate's own CPU time, read from its CPU clock; wall time is only a generous backstop, because a loaded
machine must not fail an honest program. A request is answered or the session fails, once and for good. Whatever a
candidate sends, this failure is the worst that it can cause: every byte is handled within `_foreign`.
"""

import contextlib
import errno
import functools
import marshal
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

from . import packages, values, wire
from .candidate import EXIT_OUT_OF_MEMORY
from .remote import Carried, NeedsProcess, Remote, RemoteIterator, carrier, note

MAX_OUTPUT_BYTES = 64 << 10
KILLED = "killed"  # not an outcome: nobody knows who killed the candidate, and the test is run again
ALIVE = -1  # in place of a wait status
PROGRESS = struct.Struct("<i")  # the test that a checker is at, or -1, in a file, in case the checker dies there


class CandidateFailed(BaseException):
    """The candidate is dead, too slow or talks nonsense. Not an Exception, which a test might catch."""

    def __init__(self, outcome: str, detail: str) -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.detail = detail


class Session:
    """One candidate process and the conversation with it."""

    def __init__(self, zygote: socket.socket, cpu_seconds: float, wall_seconds: float, memory_bytes: int) -> None:
        """zygote: the line to it, which alone can start and kill candidates, and keeps one at a time."""
        self._zygote = zygote
        self._cpu_seconds = cpu_seconds
        self._wall_seconds = wall_seconds
        self._memory_bytes = memory_bytes
        pid, fds = self._ask_zygote(b"spawn")
        if len(fds) != 3:
            raise OSError(errno.EMFILE, "descriptors of a candidate were lost: this process has too many open")
        connection, self._stdout, self._stderr = fds
        self._connection = wire.stream_socket(connection)
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._clock = (~pid << 3) | 2  # CLOCK_PROCESS_CPUTIME_ID of that process
        self._frames = wire.Frames(self._connection, wire.MAX_REPLY_BYTES)
        self._next_id = 0
        self._shared = values.Shared()
        self._remotes: dict[int, Remote] = {}
        self._own_names: dict[int, frozenset[str]] = {}  # what classes of the program's add to data types
        self.looked_at: dict[Any, Any] = {}  # values of the program's names, and items of its objects, since it ran
        self.objects = False  # whether the test is about objects of the program's
        self.classes: frozenset[str] = frozenset()  # the names of their classes
        self.raised: BaseException | None = None  # the last exception that came from the program
        self.needs_process = False  # whatever the test makes of it
        self.met_foreign = False  # whether the test was given an object of a package's class, or one to copy
        self.failure: CandidateFailed | None = None
        self.usage: dict[str, Any] | None = None  # once dead
        self.start_clock()

    def _ask_zygote(self, what: bytes) -> tuple[Any, list[int]]:
        self._zygote.send(what)
        answer, fds, _, _ = socket.recv_fds(self._zygote, 128, 3)
        if not answer:
            raise ConnectionResetError("the zygote is gone")
        return marshal.loads(answer), fds

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
        usage = self.stop(is_ending=True)
        status = usage["status"]
        if status == ALIVE:
            return self.fail("runtime_error", "the program closed its connection")
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        # A PID namespace's first process never sees SIGXCPU, and RLIMIT_CPU then kills: usage tells them apart.
        if number == signal.SIGXCPU or (number == signal.SIGKILL and self.used() >= self._cpu_seconds):
            return self.fail("timeout", f"more than {self._cpu_seconds:g} s of CPU time")
        if number == signal.SIGKILL and usage["peak_rss"] > self._memory_bytes // 2:
            return self.fail("memory", "killed, most likely by the kernel: out of memory")
        if number == signal.SIGKILL:  # no candidate can send it to itself
            return self.fail(KILLED, "the program's process was killed by something outside")
        if number:
            return self.fail("runtime_error", f"the program's process was ended by {signal.Signals(number).name}")
        if os.WEXITSTATUS(status) == EXIT_OUT_OF_MEMORY:
            return self.fail("memory", "out of memory")
        return self.fail("runtime_error", f"the program ended its process with status {os.WEXITSTATUS(status)}")

    def stop(self, is_ending: bool = False) -> dict[str, Any]:
        """Kill the candidate, once; its wait status (ALIVE if it should have ended), CPU seconds and peak bytes."""
        if self.usage is None:
            self.usage, _ = self._ask_zygote(b"bury" if is_ending else b"kill")
            self._connection.close()
        return self.usage

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

    def send(self, order: dict[str, Any]) -> None:
        """Send one order; fails the session of a candidate that is dead or does not read it."""
        frame = memoryview(wire.encode_order(order))
        while frame:
            try:
                frame = frame[self._connection.send(frame, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                self._wait(select.POLLOUT)
            except OSError:
                raise self._died() from None

    def receive(self) -> dict[str, Any]:
        """The next message of the candidate's; fails the session on silence, death or nonsense."""
        with self._foreign():
            try:
                body = self._frames.body(self._wait)
            except ValueError as error:
                raise self.fail("runtime_error", f"a result too large: {error}") from None
            except OSError:
                raise self._died() from None
            values.require_small(body, self._memory_bytes)
            message = wire.decode_body(body)
        return message

    @contextlib.contextmanager
    def _foreign(self) -> Iterator[None]:
        """For all that is done with what the candidate sent: whatever that raises is the candidate's failure."""
        try:
            yield
        except values.Oversized as error:
            raise self.fail("memory", str(error)) from None
        except MemoryError:
            raise self.fail("memory", "a result takes more memory than is available") from None
        except Exception as error:  # noqa: BLE001 - what a hostile answer makes the decoding raise
            raise self.fail("runtime_error", f"a malformed result: {type(error).__name__}") from None

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
        if not isinstance(value, Carried | Remote):
            raise self.need_process(f"it hands over a {type(value).__name__}, which is not plain data")
        return value._target

    def need_process(self, why: str) -> NeedsProcess:
        """Have the test run in the program's process instead; returns what to raise."""
        self.needs_process = True
        return NeedsProcess(why)

    def _resolve(self, reader: values.Reader, data: list[Any], depth: int) -> Any:
        tag, number, about, *more = data
        if type(number) is not int or tag not in ("h", "u"):
            raise ValueError("unknown tag")
        if tag == "u":
            return self._carried(reader, depth, number, about, *more)
        self.met_foreign |= more == [True] and bool(packages.modules())
        if number not in self._remotes:
            self._remotes[number] = (RemoteIterator if about is True else Remote)(self, ["h", number])
        return self._remotes[number]

    def _carried(self, reader: values.Reader, depth: int, number: int, kind: int, names: Any, data: Any) -> Any:
        """A value of a subclass of a data type. names: what its class adds, when it is first met."""
        if names is not None:
            self._own_names[kind] = frozenset(map(str, names))
        about = {"_session": self, "_target": ["h", number], "_own": self._own_names[kind]}

        def carry(base: Any, *content: Any) -> Any:
            value = carrier(base)(*content)
            note(value, **about)
            return value

        container = values.CHANGED_BY_TAG.get(data[0]) if isinstance(data, list) else None
        if container is not None:
            return reader.decode(data, depth, functools.partial(carry, container))
        plain = reader.decode(data, depth)
        if type(plain) not in values.CARRIED:
            raise ValueError("no data type that a program can subclass")
        return carry(type(plain), plain)

    def _exception(self, reply: dict[str, Any], reader: values.Reader) -> BaseException:
        """The program's exception: a built-in with its arguments, or a class of its name below the nearest built-in."""
        name, *bases = reply["error"]
        text = reply["text"]
        if not all(isinstance(word, str) for word in (name, text, *bases)):
            raise TypeError("not the names of classes")
        args = [reader.decode(argument) for argument in reply.get("args", [text])]
        if name in values.EXCEPTIONS:
            with contextlib.suppress(TypeError):  # some only take arguments of certain types
                return values.EXCEPTIONS[name](*args)
        base = next(values.EXCEPTIONS[base] for base in (name, *bases) if base in values.EXCEPTIONS)
        body = {"__str__": lambda self: text, "__init__": lambda self, *args: None}
        error: BaseException = type(name[:60], (base,), body)(*args)
        return error

    # What tests use

    def ask(self, do: str, /, *args: Any, **kwargs: Any) -> Any:
        """What the program answers to an operation (server.OPERATIONS). Raises what it raised.

        Both sides then see what the other has changed in the values that they share.
        """
        writer = values.Writer(self._refer, self._shared)
        changes = writer.changes()
        self._shared.note(number for number, _ in changes)
        dropped = self._shared.drop_unheld()
        fields: dict[str, Any] = {"args": [writer.encode(value) for value in args]}
        if kwargs:
            fields["kwargs"] = {name: writer.encode(value) for name, value in kwargs.items()}
        if changes:
            fields["changed"] = changes
        if dropped:
            fields["dropped"] = dropped
        self._shared.note()
        if do != "value":
            self.looked_at = {}
        reply = self._request(do, **fields)
        with self._foreign():
            reader = values.Reader(self._resolve, self._shared)
            changed = reader.follow(reply.get("changed", []))
            error = self._exception(reply, reader) if "error" in reply else None
            answer = reader.decode(reply["value"]) if error is None else None
            self._shared.note(changed)
        if error is None:
            return answer
        if isinstance(error, StopIteration) and do != "next":  # would silently end a test's map() or zip()
            error = RuntimeError("the program raised StopIteration")
        self.raised = error
        raise error

    def do(self, name: str, *args: Any) -> Any:
        """The result of an operation on objects of the program's."""
        answer = self.ask(name, *args)
        if isinstance(answer, Carried | Remote) and any(getattr(value, "_is_made", False) for value in args):
            note(answer, _is_made=name != "getattr")
        return answer

    def value(self, name: str) -> Any:
        """What a name of the program's stands for; the same until the program runs again. Raises KeyError."""
        if name not in self.looked_at:
            self.looked_at[name] = self.ask("value", Remote(self, ["name", name]))
        return self.looked_at[name]

    def run(self, **fields: Any) -> tuple[str, str]:
        """(outcome, detail) of a test in the program's process, as that process reports it."""
        nonce = os.urandom(16).hex()  # at least no answer can be written before the question
        reply = self._request("run", nonce=nonce, **fields)
        with self._foreign():
            outcome, detail = reply["outcome"], reply["detail"]
            if reply["nonce"] != nonce or not (isinstance(outcome, str) and isinstance(detail, str)):
                raise ValueError("not an answer to the question")
            if outcome not in ("accepted", "wrong_answer", "runtime_error", "memory"):
                raise ValueError("no outcome of a test")
        return outcome, detail
