"""Ray's worker processes forked from a process that has imported torch, transformers and ares: eight CPU seconds each.

Ray starts ray_worker.py in place of its own script; that sends what it was started with to the server here, which forks
a process, and there Ray's script runs. Not for a run with `own_server` (short_runs.py) and not in a deployment: their
workers start as a user's do.
"""

import functools
import os
import runpy
import select
import signal
import socket
import sys
import time
import traceback
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from tests import forked_commands  # noqa: F401  tells what the forked processes have loaded
from tests.ray_worker import SERVER, received

REPLACEMENT = str(Path(__file__).with_name("ray_worker.py"))


def fork_workers(patch: pytest.MonkeyPatch) -> None:
    """A Ray that this process starts gets its workers from the server, and starts nothing that nobody reads."""
    import ray._private.node
    import ray._private.services

    start = ray._private.services.start_raylet

    @functools.wraps(start)
    def start_raylet(*arguments: Any, **named: Any) -> Any:
        replaced = [REPLACEMENT if argument == _own_script() else argument for argument in arguments]
        assert REPLACEMENT in replaced, "Ray has another way to start its workers"
        return start(*replaced, **named)

    patch.setattr(ray._private.services, "start_raylet", start_raylet)
    for unread in ("start_monitor", "start_log_monitor"):
        patch.setattr(ray._private.node.Node, unread, lambda node: None)


def start_server() -> None:
    """Start the process that all commands and workers of this test process are forked from."""
    forkserver.ensure_running()
    while not os.path.exists(os.environ[SERVER]):
        time.sleep(0.05)


def serve() -> socket.socket:
    """Let workers ask; they are answered from `fork_when_asked` on."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.environ[SERVER])
    listener.listen()
    return listener


def fork_when_asked(listener: socket.socket) -> None:
    """Fork the server from here: a process that has not loaded Ray, which reads its settings when it is imported.

    It has no thread but jemalloc's, which jemalloc starts again in a fork.
    """
    parent = os.getpid()
    others = [task for task in os.listdir("/proc/self/task") if int(task) != parent]
    assert {Path(f"/proc/self/task/{task}/comm").read_text().strip() for task in others} <= {"jemalloc_bg_thd"}
    assert "ray" not in sys.modules
    if os.fork():
        listener.close()
        return
    os.closerange(3, listener.fileno())
    os.closerange(listener.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the workers
    while os.getppid() == parent:
        if select.select([listener], [], [], 1.0)[0]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _work(connection)
            connection.close()
    os._exit(0)


def _work(connection: socket.socket) -> None:
    """Become the worker that Ray has asked for, and end with it."""
    try:
        arguments, environment, directory, streams = received(connection)
        connection.close()
        os.setpgid(0, 0)  # as Ray does
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for standard, stream in enumerate(streams):
            os.dup2(stream, standard)
            os.close(stream)
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(environment)
        from ray._private.runtime_env.context import RuntimeEnvContext

        execute = RuntimeEnvContext.exec_worker

        def run(context: RuntimeEnvContext, worker_arguments: list[str], language: int) -> None:
            """In place of a new Python, which Ray starts when it has set up the worker's environment."""
            if context.command_prefix or context.override_worker_entrypoint or context.py_executable != sys.executable:
                execute(context, worker_arguments, language)
            os.environ.update(context.env_vars)
            _run(worker_arguments)

        RuntimeEnvContext.exec_worker = run  # type: ignore[method-assign]
        _run([_own_script(), *arguments])
    finally:  # whatever ends a worker, it must not go on as the server
        failed = sys.exc_info()[0] is not None
        if failed:
            traceback.print_exc()
        os._exit(failed)


def _own_script() -> str:
    """What Ray would start."""
    import ray._private.services

    return os.path.join(os.path.dirname(ray._private.services.__file__), "workers", "setup_worker.py")


def _run(arguments: list[str]) -> None:
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")
