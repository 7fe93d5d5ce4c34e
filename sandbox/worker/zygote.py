"""The zygote: a warm interpreter that forks a checker and candidates for every job, and never reads a job itself.

Because it never reads one, only the checker that reads a program's tests can hold them. It watches the job connection
only for its end: when the pool is gone, so is everything here.
"""

import _sitebuiltins
import _socket
import builtins
import contextlib
import gc
import marshal
import os
import select
import signal
import socket
import sys
import threading
import time
from typing import Any

from . import arrays, candidate, checker, confinement, hot_pages, in_process, kernel, packages, wire
from .session import ALIVE, PROGRESS

_OWN_FRAMES = 12  # of ours, below those of a program
_LOW_NUMBERS = 8
_MOMENTS = 200  # milliseconds
# Of a program's threads. The default of 8 MiB counts in full against its memory: 64 threads would fill it.
_STACK_BYTES = 2 << 20


def main(connection: socket.socket, warm: list[str]) -> None:
    """Body of the worker process: confine, report, then one job after another until the pool hangs up.

    warm: modules that are imported for all programs.
    """
    settings = wire.Frames(connection).order()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # what RLIMIT_AS misses must cost a program its process, not the trainer
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    layers = confinement.Confinement(settings["packages"]["paths"])
    layers.mapped, before = packages.memory(proc)
    layers.enter(set(settings["layers"]))
    of_packages = 0  # bytes that packages take, and that count as no program's
    if settings["packages"]["names"]:
        packages.load(settings["packages"]["names"], layers.packages)
        arrays.install()
        layers.mapped, anonymous = packages.memory(proc)
        of_packages = anonymous - before
    # For all forks: once here is cheaper than once in each.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    sys.argv[:] = ["solution.py"]
    os.environ.clear()
    threading.stack_size(_STACK_BYTES)
    threading.stack_size = candidate.stack_size
    sys.setrecursionlimit(sys.getrecursionlimit() + _OWN_FRAMES)
    sys.set_int_max_str_digits(0)  # contests ask for longer numbers; the time limit bounds what they cost
    for name in ("exit", "quit"):  # of `site`, which is not imported
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    builtins.help = _sitebuiltins._Helper()
    of_unittest = [name for name in sys.modules if name.partition(".")[0] == "unittest"]  # loaded by numpy.testing
    in_process.remember([*warm, *packages.modules(), *of_unittest])
    zygote = Zygote(connection, layers, of_packages)
    packages.seed(candidate.RANDOM_SEED)  # nothing draws numbers before a program does
    candidate.rehearse()
    gc.collect()
    gc.freeze()  # otherwise the collector of every fork touches, and so copies, all of these pages
    zygote.hold_hot_pages(proc)
    os.close(proc)
    layers.limit_own_resources()  # only now, since held pages count as locked memory
    connection.sendall(wire.encode_frame({"applied": layers.applied, "missing": layers.missing}))
    zygote.serve()


class Zygote:
    """Forks, kills and reaps; knows programs only as pids."""

    def __init__(self, connection: socket.socket, layers: confinement.Confinement, of_packages: int) -> None:
        """of_packages: bytes of packages that are resident in every process, and that count as no program's."""
        self._connection = connection
        self._of_packages = of_packages
        self._layers = layers
        # Low numbers stay taken: then no descriptor that a fork keeps is in the way of the numbers it assigns.
        while (null := os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)) < _LOW_NUMBERS:
            pass
        self._null = null
        self._progress = os.memfd_create("progress")
        self._candidate = 0

    def hold_hot_pages(self, proc: int) -> None:
        """Have forks copy at once what candidates write anyway, which a machine may refuse."""
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # otherwise a candidate's files in /proc are root's
        connection, outputs = self._fork_candidate()
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        connection.sendall(b"".join(candidate.rehearsal()))
        replies = wire.Frames(connection)
        while replies.message().get("id") != candidate.LAST_ID:
            pass
        with contextlib.suppress(OSError):
            hot_pages.hold(hot_pages.written_by_fork(proc))
        self._kill()
        for fd in (connection.detach(), *outputs):
            os.close(fd)

    def serve(self) -> None:
        """Fork a checker whenever a job waits and none is there to read it; returns when the pool is gone."""
        ready = select.poll()
        ready.register(self._connection, select.POLLIN)
        while True:
            if any(event & select.POLLHUP for _, event in ready.poll()):
                return
            self._serve_checker()

    def _serve_checker(self) -> None:
        """Fork a checker, which reads the job itself, and serve it until it ends."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._layers.stay_in_own_pids()
        child = os.fork()
        if child == 0:
            streams = [self._null] * 3
            checker.main(self._layers, [*streams, self._connection.fileno(), theirs.fileno(), self._progress])
        theirs.close()
        events = select.poll()
        events.register(ours, select.POLLIN)
        events.register(self._connection, 0)  # only for its end
        while True:
            for fd, event in events.poll():
                if fd == self._connection.fileno() and event & select.POLLHUP:
                    self._abandon(child)
            message = ours.recv(64)
            if message == b"spawn":
                self._spawn(ours)
            elif message in (b"kill", b"bury"):
                ours.send(marshal.dumps(self._kill(is_ending=message == b"bury")))
            else:
                break
        ours.close()
        left = self._kill()
        _, status, usage = os.wait4(child, 0)
        if status != 0:
            (index,) = PROGRESS.unpack(os.pread(self._progress, PROGRESS.size, 0))
            died = {"status": status, "test": index, "peak_rss": self._own(usage.ru_maxrss), "cpu": left["cpu"]}
            self._connection.sendall(wire.encode_frame({"died": died}))

    def _spawn(self, control: socket.socket) -> None:
        """Fork a candidate, after the end of the last; give the checker its connection, stdout and stderr file."""
        self._kill()
        connection, outputs = self._fork_candidate()
        socket.send_fds(control, [marshal.dumps(self._candidate)], [connection.fileno(), *outputs])
        for fd in (connection.detach(), *outputs):
            os.close(fd)

    def _fork_candidate(self) -> tuple[_socket.socket, list[int]]:
        """Fork a candidate; its connection, and its files of stdout and stderr."""
        # Without the standard library's wrapper: what runs between forks writes to shared pages, which are then copied.
        ours, theirs = _socket.socketpair()
        # Files rather than pipes: nobody need drain them, and RLIMIT_FSIZE caps them.
        outputs = [os.memfd_create(name) for name in ("stdout", "stderr")]
        null = os.open("/dev/null", os.O_RDONLY)  # its own: flags of an open file are shared by all that hold it
        self._layers.prepare_candidate()
        self._candidate = os.fork()
        if self._candidate == 0:
            candidate.main(self._layers, [null, *outputs, theirs.fileno()])
        for fd in (theirs.detach(), null):
            os.close(fd)
        return ours, outputs

    def _kill(self, is_ending: bool = False) -> dict[str, Any]:
        """Kill the candidate, if there is one; its wait status, CPU seconds and peak resident bytes.

        is_ending: its connection is closed, and it has a moment to end by itself; the status is ALIVE if it does not.
        """
        if not self._candidate:
            return {"status": 0, "cpu": 0.0, "peak_rss": 0}
        pid, status = 0, 0
        for _ in range(_MOMENTS if is_ending else 0):
            pid, status, usage = os.wait4(self._candidate, os.WNOHANG)
            if pid:
                break
            time.sleep(0.001)
        if not pid:
            os.kill(self._candidate, signal.SIGKILL)
            _, status, usage = os.wait4(self._candidate, 0)
            status = ALIVE if is_ending else status
        self._candidate = 0
        cpu = usage.ru_utime + usage.ru_stime
        return {"status": status, "cpu": cpu, "peak_rss": self._own(usage.ru_maxrss)}

    def _own(self, kibibytes: int) -> int:
        """Bytes of a process's resident memory that are not the packages'."""
        return max((kibibytes << 10) - self._of_packages, 0)

    def _abandon(self, child: int) -> None:
        """The pool is gone: end everything below."""
        for pid in (child, self._candidate):
            if pid:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        os._exit(0)
