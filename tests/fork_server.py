"""A process that has imported what tests import: the workers of pytest-xdist, the tests' `ares` commands and the
workers of their Ray are forked from it.

A fresh worker of pytest-xdist costs twenty CPU seconds of imports, a fresh `ares train` ten, an actor of its Ray six.
A forked one is a process of its own all the same: it can be killed, and leaves nothing behind in the tests' process.
One server serves all processes of a test session. Not for a run with `own_server` (short_runs.py) and not in a
deployment: these start as a user's do.

Run as a module it is the server: `python -m tests.fork_server PARENT`.
"""

import array
import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Iterator
from pathlib import Path

from tests.forked_python import FORK_SERVER

REPOSITORY = Path(__file__).resolve().parents[1]
LOADED = (
    "mlflow.store.tracking.sqlalchemy_store", "flows.ablate", "flows.cli.main", "flows.evaluate", "flows.start",
    "datasets", "hypothesis.strategies", "peft", "pytest", "scipy.stats", "sklearn.metrics",
)  # fmt: skip


def start() -> None:
    """Start the server, which ends with this process."""
    directory = tempfile.mkdtemp(prefix="ares-forks-")
    os.environ[FORK_SERVER] = os.path.join(directory, "requests")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    # Consoles are made, and ask for the number of columns, when their module is imported.
    subprocess.Popen(
        [sys.executable, "-m", "tests.fork_server", str(os.getpid())],
        cwd=REPOSITORY, env=os.environ | {"COLUMNS": "200"}, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def python() -> str:
    """A command that works as `python` does, in a forked process; starts the server if nobody has."""
    if FORK_SERVER not in os.environ:
        start()
    return shlex.join([sys.executable, "-S", "-E", str(Path(__file__).with_name("forked_python.py"))])


def run_code(code: str, seconds: float = 300) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, which is forked if the server runs.

    Raises subprocess.TimeoutExpired.
    """
    command = shlex.split(python()) if FORK_SERVER in os.environ else [sys.executable]
    return subprocess.run(
        [*command, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=seconds, check=False
    )


def _load_and_serve(parent: int) -> None:
    """Fork a process for each request, until the parent is gone."""
    for name in LOADED:
        importlib.import_module(name)
    path = os.environ[FORK_SERVER]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{path}.new")
    listener.listen(64)
    os.rename(f"{path}.new", path)  # who sees it can connect
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forked processes
    gc.freeze()  # none of them looks again at all that was imported, and its pages stay shared
    while os.getppid() == parent:
        if select.select([listener], [], [], 1.0)[0]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                with _ended():
                    listener.close()
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    _serve(connection)
            connection.close()
    os._exit(0)  # the imports have nothing to clean up, and would say so at length


@contextlib.contextmanager
def _ended() -> Iterator[None]:
    """Whatever ends a forked process, it must not continue as the server."""
    try:
        yield
    finally:
        error, code = sys.exception(), 0
        if isinstance(error, SystemExit):
            if isinstance(error.code, str):
                sys.stderr.write(f"{error.code}\n")
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        elif error is not None:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _serve(connection: socket.socket) -> None:
    """A process for a client that waits for it; reports its exit status. It ends when nobody waits."""
    arguments, environment, directory, streams = _received(connection)
    process = os.fork()
    if process == 0:
        with _ended():
            connection.close()
            _take_over(environment, directory, streams)
            import prefect.context
            import ray

            prefect.context.refresh_global_settings_context()  # read from the environment when it was imported
            # The workers of a local Ray that this process starts are forked, too; those of a cluster are not.
            ray.init = functools.partial(ray.init, runtime_env={"py_executable": python()})
            try:
                _run(arguments)
            finally:
                atexit._run_exitfuncs()  # `os._exit` does not
    for stream in streams:
        os.close(stream)
    end = os.pidfd_open(process)
    if end not in select.select([end, connection], [], [])[0]:
        os.kill(process, signal.SIGKILL)
        return
    connection.sendall(f"{os.waitpid(process, 0)[1]}\n".encode())


def _received(connection: socket.socket) -> tuple[list[str], dict[str, str], str, list[int]]:
    """Receive the arguments, environment, directory and standard streams of a process."""
    streams = array.array("i")
    _, ancillary, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(3 * streams.itemsize))
    for _, _, data in ancillary:
        streams.frombytes(data)
    with connection.makefile() as lines:
        arguments, environment, directory = json.loads(lines.readline())
    return arguments, environment, directory, streams.tolist()


def _take_over(environment: dict[str, str], directory: str, streams: list[int]) -> None:
    """Take on another process's environment, directory and standard streams."""
    for standard, stream in enumerate(streams):
        os.dup2(stream, standard)
        os.close(stream)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)


def _run(arguments: list[str]) -> None:
    """What `python` would run: a module (-m), code (-u -c) or a file."""
    sys.modules["__main__"] = types.ModuleType("__main__")  # not this one, which processes would run that are spawned
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__")
    elif "-c" in arguments:
        exec(arguments[-1], vars(sys.modules["__main__"]))
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    _load_and_serve(int(sys.argv[1]))
