"""Ray's workers, forked from a process that has loaded what actors need: once, instead of once per worker.

Covered: a Ray that this process starts (ares/workers/local_ray.py). Not covered: nodes of a cluster; CUDA builds of
torch, with which Ray starts its workers itself: CUDA does not survive a fork, and this is untested.

As a script, which needs only the standard library, it takes the place of Ray's worker script: it asks for a forked
worker and ends; if nobody answers, it becomes the worker that Ray would have started.
"""

import array
import ctypes
import importlib
import importlib.util
import json
import logging
import os
import runpy
import secrets
import select
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SERVER = "ARES_FORK_SERVER"
"""Environment variable: the name of the server's socket, in Linux' abstract namespace."""
SCRIPT = __file__
"""What Ray starts instead of its own script."""
LOADED = ("ares.engines", "ares.learner", "ares.models", "ares.store", "transformers.models.auto.tokenization_auto")
"""Not Ray, which reads its environment when it is imported."""
_OPTIONS = ("--serialized-runtime-env-context=", "--language=")
"""Options that Ray gives the script that sets up a worker's environment."""
_PLAIN = {f"{_OPTIONS[0]}{{}}", f"{_OPTIONS[1]}PYTHON"}
"""Their values if there is nothing to set up."""
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
"""Of C's mallopt."""


def load() -> None:
    """Import what actors need."""
    for name in LOADED:
        importlib.import_module(name)


@contextmanager
def forked_workers() -> Iterator[None]:
    """Inside, a Ray that this process starts gets its workers from a copy of this process as it is now.

    Call it after `load`, before Ray is imported and before any thread can hold a lock. The copy ends with this process,
    however that ends.
    """
    if _is_for_cuda() or "ray" in sys.modules:
        yield
        return
    name = f"ares-{os.getpid()}-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen(64)
        ends, alive = os.pipe()  # its end tells the server that this process has ended
        server = os.fork()
        if server == 0:
            os.close(alive)
            _only(lambda: _serve(listener, ends))
    os.close(ends)
    before = os.environ.get(SERVER)
    os.environ[SERVER] = name
    try:
        yield
    finally:
        os.close(alive)
        os.waitpid(server, 0)
        del os.environ[SERVER]
        if before is not None:
            os.environ[SERVER] = before


def _is_for_cuda() -> bool:
    import torch

    return torch.backends.cuda.is_built()


def _only(work: Callable[[], None]) -> None:
    """Do the work and exit: a forked process must not continue the code it was forked in."""
    code = 1
    try:
        work()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 (as the interpreter does)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _serve(listener: socket.socket, ends: int) -> None:
    """Fork a worker for every request of this user."""
    os.setsid()  # Ctrl-C is for the command
    with open(os.devnull) as nothing:
        for stream in range(3):
            os.dup2(nothing.fileno(), stream)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # workers are not waited for
    watched: list[Any] = [listener, ends]
    while ends not in select.select(watched, [], [])[0]:
        connection, _ = listener.accept()
        with connection:
            if _user_of(connection) == os.getuid() and os.fork() == 0:
                os.close(ends)
                listener.close()
                _only(lambda: _work(connection))  # noqa: B023 (it does not return)


def _user_of(connection: socket.socket) -> int:
    """The user id of the process at the other end."""
    credentials = "3i"
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(credentials))
    return int(struct.unpack(credentials, peer)[1])


def _work(connection: socket.socket) -> None:
    """Become a worker of Ray, with the directory, environment and streams of the process that asked."""
    arguments, environment, directory, streams = received(connection)
    connection.close()
    take_over(environment, directory, streams)
    os.setpgid(0, 0)  # as Ray does
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if any(word not in _PLAIN for word in arguments if word.startswith(_OPTIONS)):
        _become_own(arguments)
    logging.getLogger().handlers.clear()
    logging.captureWarnings(False)
    _keep_freed_memory()
    sys.argv = [word for word in arguments if not word.startswith(_OPTIONS)]
    runpy.run_path(sys.argv[0], run_name="__main__")


def take_over(environment: dict[str, str], directory: str, streams: list[int]) -> None:
    """Take on another process's environment, directory and standard streams."""
    for standard, stream in enumerate(streams):
        os.dup2(stream, standard)
        os.close(stream)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)


def _keep_freed_memory() -> None:
    """Apply what GLIBC_TUNABLES sets for freed memory, which glibc reads only when a program starts."""
    started_with = Path("/proc/self/environ").read_bytes()
    if "malloc" in os.environ.get("GLIBC_TUNABLES", "") and b"GLIBC_TUNABLES=" not in started_with:
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, -1)
        mallopt(_MMAP_MAX, 0)


def received(connection: socket.socket) -> tuple[list[str], dict[str, str], str, list[int]]:
    """Receive arguments, environment, directory and standard streams."""
    streams = array.array("i")
    _, ancillary, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(3 * streams.itemsize))
    for _, _, data in ancillary:
        streams.frombytes(data)
    with connection.makefile() as lines:
        arguments, environment, directory = json.loads(lines.readline())
    return arguments, environment, directory, streams.tolist()


def _ask() -> None:
    """Send this process's arguments, environment, directory and standard streams."""
    asked = json.dumps((sys.argv[1:], dict(os.environ), os.getcwd()))
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect("\0" + os.environ.get(SERVER, ""))
            connection.sendmsg([b"\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
            connection.sendall(asked.encode() + b"\n")
        except OSError:
            _become_own(sys.argv[1:])


def _become_own(arguments: list[str]) -> None:
    """Become the worker that Ray would have started."""
    ray = importlib.util.find_spec("ray")
    assert ray is not None
    assert ray.origin is not None
    script = Path(ray.origin).parent / "_private" / "workers" / "setup_worker.py"
    os.execv(sys.executable, [sys.executable, str(script), *arguments])


if __name__ == "__main__":
    _ask()
