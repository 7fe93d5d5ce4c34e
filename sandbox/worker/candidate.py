"""The candidate process: loads the program's source, which it alone has, and serves it; it never sees a test."""

import _socket
import atexit
import builtins
import contextlib
import decimal
import gc
import importlib
import io
import os
import socket
import sys
import threading
import types
from typing import Any

from . import arrays, server, wire
from .confinement import Confinement

EXIT_OUT_OF_MEMORY = 97
RANDOM_SEED = 20240607  # a verdict should not depend on the day
_REHEARSAL = """
def solve(first, second):
    pairs = sorted([(str(item), item) for item in second], key=lambda pair: pair[0])
    found = {key: value for key, value in pairs}
    for index in range(len(pairs)):
        if index > 1 and isinstance(first, list):
            return [max(first), min(first), sum(first)]
    while len(found) > 5:
        found.popitem()
    return (first, [second, tuple(found)], found)
"""
LAST_ID = 19
_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2, "/dev/fd/0": 0, "/proc/self/fd/0": 0}
_open_file = open
_set_stack_size = threading.stack_size
_most_stack_bytes = 1 << 30
FILE = "<solution>"
_RPC = 3  # its number among the descriptors that stay open


def main(confinement: Confinement, fds: list[int]) -> None:
    """Body of the forked process. Never returns.

    fds: stdin, stdout, stderr and the connection to the checker.
    """
    global _most_stack_bytes
    status = 1
    try:
        confinement.confine_user(False, fds)
        connection = wire.stream_socket(_RPC)
        requests = wire.Frames(connection)
        request = requests.order()
        _most_stack_bytes = request["memory_bytes"] // 2
        if request["stdin"] is not None:
            _provide_files(request["stdin"], request["source"])
        confinement.confine_calls(False, request["memory_bytes"], request["cpu_seconds"])
        if request["is_checker"]:
            arrays.compare_strictly()
        if request["stdin"] is not None:
            status = _run_script(connection, request)
        else:
            _serve_functions(connection, requests, request)
            status = 0
    except ConnectionError:
        status = 0
    except MemoryError:
        status = EXIT_OUT_OF_MEMORY
    finally:
        os._exit(status)


def stack_size(size: int = 0) -> int:
    """threading.stack_size() for programs, which ask for half a gigabyte so as to recurse deeply.

    All of it would count against their memory; since Python 3.11 their own calls hardly use any.
    """
    return _set_stack_size(min(size, _most_stack_bytes))


def _provide_files(stdin: str, source: str) -> None:
    """Give a script its input, and its own text if it may open its file."""
    file = _file_of(stdin)
    os.dup2(file, 0)
    os.close(file)
    if "__file__" in source or "argv" in source:
        _STREAMS[sys.argv[0]] = _file_of(source)
    sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    builtins.open = io.open = _open


def _file_of(text: str) -> int:
    # A file rather than a pipe: nobody has to feed it, and a program may read it in any way.
    file = os.memfd_create("text")
    with os.fdopen(os.dup(file), "wb") as writer:
        writer.write(text.encode("utf-8", "surrogatepass"))
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _load(source: str, module: types.ModuleType) -> tuple[str, BaseException] | None:
    """Compile and run the source in the module; None, or the phase that failed and how."""
    sys.modules[module.__name__] = module  # dataclasses and pickle look their module up there
    vars(module).update(__file__=sys.argv[0], __builtins__=builtins)  # as for a program run from a file
    if any(name in source for name in ("inspect", "linecache", "traceback")):
        cache = importlib.import_module("linecache").cache
        for name in (FILE, sys.argv[0]):  # of functions, and of classes
            cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    phase = "compile"
    try:
        code = compile(source.removeprefix("\ufeff"), FILE, "exec", dont_inherit=True)
        phase = "load"
        exec(code, module.__dict__)
    except BaseException as error:  # noqa: BLE001 - whatever the program raises, or the compiler (a null byte, nesting)
        return phase, error
    return None


def rehearsal() -> list[bytes]:
    """What a checker sends a candidate: a program of our own, then calls of its function. Their ids end at LAST_ID."""
    limits = {"stdin": None, "is_checker": False, "memory_bytes": 256 << 20, "cpu_seconds": 60}
    orders: list[dict[str, Any]] = [{"source": _REHEARSAL, **limits}]
    arguments: list[Any] = [["l", [3, 1, 2]], 7, "text", ["t", [1.5, None, True]], ["d", ["a", "b"], [1, 2]]]
    for number in range(LAST_ID + 1):
        values = [arguments[number % len(arguments)], ["l", [["l", [1, 2]], ["t", ["x", number]]]]]
        changes: dict[str, Any] = {"changed": [], "dropped": []} if number else {}
        orders.append({"do": "call", "id": number, "args": [["name", "solve"], *values], **changes})
    return [wire.encode_order(order) for order in orders]


def rehearse() -> None:
    """Serve a program of our own from its arrival to its last answer, as a candidate does.

    In the zygote, before the first fork: the interpreter specializes code, fills caches and allocates memory as it
    runs, which candidates then need not repeat.
    """
    ours, theirs = socket.socketpair()
    ours.sendall(b"".join(rehearsal()))
    ours.shutdown(socket.SHUT_WR)
    limit = sys.getrecursionlimit()
    with contextlib.suppress(ConnectionError):
        requests = wire.Frames(theirs)
        _serve_functions(theirs, requests, requests.order())
    sys.setrecursionlimit(limit)
    del sys.modules[server.MODULE_NAME]
    ours.close()
    theirs.close()


def _serve_functions(connection: _socket.socket, requests: wire.Frames, request: dict[str, Any]) -> None:
    module = types.ModuleType(server.MODULE_NAME)
    failure = _load(request["source"], module)
    if failure is not None:
        connection.sendall(wire.encode_frame({"phase": failure[0], **server.describe(failure[1])}))
        return
    connection.sendall(wire.encode_frame({"loaded": True, "precision": decimal.getcontext().prec}))
    server.Server(connection, requests, module).serve()


def _run_script(connection: _socket.socket, request: dict[str, Any]) -> int:
    """Run the source as a script, until it, its threads and its exit handlers have finished. Its exit status."""
    streams: list[Any] = [sys.stdout, sys.stderr]
    module = types.ModuleType("__main__")
    failure = _load(request["source"], module)
    if failure is not None and isinstance(failure[1], SystemExit) and not failure[1].code:
        failure = None
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if failure is not None:
        with contextlib.suppress(OSError, ValueError):
            streams[1].write(f"{type(failure[1]).__name__}: {server.describe(failure[1])['text']}\n")
    for _ in range(2):  # a stream that it opened itself is flushed when it is freed
        now: list[Any] = [getattr(sys, name, None) for name in ("stdout", "stderr")]
        for stream in [*streams, *now]:
            with contextlib.suppress(Exception):  # a stream of the program's own may miss its globals by then
                stream.flush()
        module.__dict__.clear()
        gc.collect()
    if failure is None:
        return 0
    with contextlib.suppress(OSError):
        connection.sendall(wire.encode_frame({"phase": failure[0], **server.describe(failure[1])}))
    return 1


def _open(file: Any, *args: Any, **kwargs: Any) -> Any:
    """open() for scripts: the names of their streams work without /proc, and that of their own file."""
    name = os.fspath(file) if isinstance(file, os.PathLike) else file
    if isinstance(name, str) and name in _STREAMS:
        file = os.dup(_STREAMS[name])
        if name == sys.argv[0]:
            os.lseek(file, 0, os.SEEK_SET)
    return _open_file(file, *args, **kwargs)
