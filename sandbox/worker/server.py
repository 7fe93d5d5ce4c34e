"""The candidate's side of the conversation: what the checker may ask of a loaded program.

Nothing here is trusted once the source has run: a program can forge any frame. What it says is only ever decoded into
plain values and compared in the checker, so a forged answer is worth no more than a returned one. (A test that runs
here is another matter: in_process.py.)
"""

import _socket
import builtins
import math
import operator
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from . import in_process, packages, remote, values, wire

MODULE_NAME = "solution"
_MESSAGE_CHARS = 64 << 10
_KEPT_BYTES = 64 << 10  # of what it wrote to a stream
_FUNCTIONS = vars(math) | vars(builtins) | vars(operator)
OPERATIONS: dict[str, Callable[..., Any]] = {
    **{name: _FUNCTIONS.get(f"__{name}__") or _FUNCTIONS[name] for name in remote.OPERATIONS},
    "next": next,
    "value": lambda value: value,
}
"""What a test may do with the program's objects."""


def describe(error: BaseException, writer: values.Writer | None = None) -> dict[str, Any]:
    """An exception as class names (most derived first), its text and, with a writer, its arguments."""
    text = in_process.text_of(error)[:_MESSAGE_CHARS]
    reply: dict[str, Any] = {"error": [kind.__name__ for kind in type(error).__mro__], "text": text}
    if writer is not None:
        args = error.args
        if isinstance(error, OSError) and len(args) == 2 and error.filename is not None:  # OSError takes it out
            args = (*args, error.filename)
        reply["args"] = [writer.encode(argument) for argument in args]
    return reply


class Server:
    """Serves one loaded program until the checker closes the connection."""

    def __init__(self, connection: _socket.socket, requests: wire.Frames, module: types.ModuleType) -> None:
        self._connection = connection
        self._requests = requests
        self._module = module
        self._objects: list[Any] = []
        self._number_of: dict[int, int] = {}
        self._limit = sys.getrecursionlimit()  # the program's
        self._kinds: dict[type, int] = {}  # subclasses of data types that the checker knows of
        self._shared = values.Shared()

    def _refer(self, value: Any) -> list[Any]:
        """["h", number, whether it is an iterator, whether it is of a package's class] of an object that stays here."""
        return ["h", self._number(value), isinstance(value, Iterator), packages.is_value(value)]

    def _number(self, value: Any) -> int:
        number = self._number_of.get(id(value))
        if number is None:
            number = self._number_of[id(value)] = len(self._objects)
            self._objects.append(value)
        return number

    def _describe(self, value: Any, base: type) -> list[Any]:
        """What a subclass of a data type adds: [number of the value, that of the class, its names if they are new]."""
        kind, names = type(value), None
        if kind not in self._kinds:
            self._kinds[kind] = len(self._kinds)
            names = sorted({name for each in kind.__mro__[: kind.__mro__.index(base)] for name in vars(each)})
        return [self._number(value), self._kinds[kind], names]

    def _resolve(self, reader: values.Reader, data: list[Any], depth: int) -> Any:
        if data[0] == "name":
            names = vars(self._module)
            if data[1] not in names:
                raise NameError(f"name {data[1]!r} is not defined")
            return names[data[1]]
        return self._objects[data[1]]

    def _as_program(self, do: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run the program's code, with its own recursion limit, which ours may exceed."""
        sys.setrecursionlimit(self._limit)
        try:
            return do(*args, **kwargs)
        finally:
            self._limit = sys.getrecursionlimit()
            sys.setrecursionlimit(max(self._limit, values.RECURSION_LIMIT))

    def _call(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do something with the program's objects, after the test's changes in shared values.

        The answer has the program's changes in them, whether it returns or raises.
        """
        reader = values.Reader(self._resolve, self._shared)
        changed = reader.follow(request.get("changed", []))
        self._shared.note(changed)
        self._shared.drop(request.get("dropped", []))
        args = [reader.decode(value) for value in request["args"]]
        kwargs = {name: reader.decode(value) for name, value in request.get("kwargs", {}).items()}
        self._shared.note()
        self._mark = self._shared.mark  # what an answer that cannot be given has added is forgotten
        result, error = None, None
        try:
            result = self._as_program(OPERATIONS[request["do"]], *args, **kwargs)
        except BaseException as raised:  # noqa: BLE001 - whatever the program raises is its answer
            error = raised
        writer = values.Writer(self._refer, self._shared, self._describe)
        changes = writer.changes()
        reply: dict[str, Any] = {"changed": changes} if changes else {}
        if error is not None:
            return reply | describe(error, writer)
        return reply | {"value": writer.encode(result)}

    def serve(self) -> None:
        """Answer requests for ever; the zygote kills this process when the checker is done."""
        streams = sys.stdout, sys.stderr
        shared = self._shared
        sys.setrecursionlimit(max(self._limit, values.RECURSION_LIMIT))
        while True:
            request = self._requests.order()
            self._mark = shared.mark
            try:
                if request["do"] == "run":
                    reply = self._as_program(in_process.run, self._module, request)
                else:
                    reply = self._call(request)
                frame = wire.encode_frame({**reply, "id": request["id"]})
                shared.note(number for number, _ in reply.get("changed", ()))
            except BaseException as error:  # noqa: BLE001 - whatever the program raises is its answer
                shared.roll_back(self._mark)
                frame = wire.encode_frame({**describe(error), "id": request["id"]})
            for fd, stream in enumerate(streams, start=1):
                try:
                    stream.flush()
                    # Or what a few calls print would be too much. A file with a name is one of the program's own.
                    if os.lseek(fd, 0, os.SEEK_CUR) > _KEPT_BYTES and os.fstat(fd).st_nlink == 0:
                        os.ftruncate(fd, _KEPT_BYTES)
                        os.lseek(fd, _KEPT_BYTES, os.SEEK_SET)
                except (OSError, ValueError):  # closed, or more than a file may hold
                    continue
            self._connection.sendall(frame)
