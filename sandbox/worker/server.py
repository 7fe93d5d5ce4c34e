"""The candidate's side of the conversation: what the checker may ask of a loaded program.

Nothing here is trusted once the source has run: a program can forge any frame. What it says is only ever decoded into
plain values and compared in the checker, so a forged answer is worth no more than a returned one. (A test that runs
here is another matter: in_process.py.)
"""

import collections
import contextlib
import operator
import os
import socket
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from . import in_process, values, wire

MODULE_NAME = "solution"
_MESSAGE_CHARS = 300
_KEPT_BYTES = 64 << 10  # of what it wrote to a stream
# Of an answer that is checked for changes at the next one: types of its containers, and their most items.
_TRACKED = frozenset((list, dict, set, bytearray, collections.Counter, collections.defaultdict, collections.deque))
_MOST_TRACKED = 10_000


def describe(error: BaseException, writer: values.Writer | None = None) -> dict[str, Any]:
    """An exception as class names (most derived first), its text and, with a writer, its arguments."""
    try:
        text = str(error)[:_MESSAGE_CHARS]
    except BaseException:  # noqa: BLE001 - a program's own __str__
        text = "?"
    reply: dict[str, Any] = {"error": [kind.__name__ for kind in type(error).__mro__], "text": text}
    if writer is not None:
        args = error.args
        if isinstance(error, OSError) and len(args) == 2 and error.filename is not None:  # OSError takes it out
            args = (*args, error.filename)
        reply["args"] = [writer.encode(argument) for argument in args]
    return reply


def _items(container: Any) -> list[Any]:
    return [*container, *container.values()] if isinstance(container, dict) else list(container)


def _differ(containers: list[Any], were: list[list[Any]]) -> bool:
    """Whether any container no longer holds the very objects it held. (To encode them again would take far longer.)"""
    return any(
        len(now := _items(container)) != len(was) or not all(map(operator.is_, now, was))
        for container, was in zip(containers, were, strict=True)
    )


class Server:
    """Serves one loaded program until the checker closes the connection."""

    def __init__(self, connection: socket.socket, requests: wire.Frames, module: types.ModuleType) -> None:
        self._connection = connection
        self._requests = requests
        self._module = module
        self._objects: list[Any] = []
        self._number_of: dict[int, int] = {}
        # By what answered, an iterator or (None) any function: containers of its last answer, and what was in them.
        self._answered: dict[int | None, tuple[list[Any], list[list[Any]]]] = {}
        self._handlers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "call": self._call,
            "value": self._value,
            "next": self._next,
            "run": lambda request: in_process.run(self._module, request),
        }

    def _refer(self, value: Any) -> list[Any]:
        """["h", number, whether it is an iterator] of an object that stays here."""
        number = self._number_of.get(id(value))
        if number is None:
            number = self._number_of[id(value)] = len(self._objects)
            self._objects.append(value)
        return ["h", number, isinstance(value, Iterator)]

    def _resolve(self, data: list[Any]) -> Any:
        if data[0] == "name":
            names = vars(self._module)
            if data[1] not in names:
                raise NameError(f"name {data[1]!r} is not defined")
            return names[data[1]]
        return self._objects[data[1]]

    def _call(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call a function. What it changed in its arguments travels back, whether it returns or raises."""
        function = self._resolve(request["on"])
        reader = values.Reader(self._resolve)
        args = [reader.decode(value) for value in request["args"]]
        kwargs = {name: reader.decode(value) for name, value in request["kwargs"].items()}
        reply: dict[str, Any] = {}
        error = None
        try:
            result = function(*args, **kwargs)
        except BaseException as raised:  # noqa: BLE001 - whatever the program raises is its answer
            error = raised
        last, was = self._last_answer(request, None)
        writer = values.Writer(self._refer, [*reader.objects, *last])
        if reader.objects and self._are_changed(request, args, kwargs):
            reply["changed"] = [writer.contents(value) for value in reader.objects]
        if last and _differ(last, was):
            reply["last"] = [writer.contents(value) for value in last]
        if error is None:
            self._answer(reply, None, result, writer, last)
        else:
            reply |= describe(error, writer)
        return reply

    def _are_changed(self, request: dict[str, Any], args: list[Any], kwargs: dict[str, Any]) -> bool:
        again = values.Writer(lambda value: ["h"])
        sent = [*request["args"], *request["kwargs"].values()]
        for before, value in zip(sent, (*args, *kwargs.values()), strict=True):
            if type(before) is list and before[0] not in ("h", "name") and again.encode(value) != before:
                return True
        return False

    def _value(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"value": values.Writer(self._refer).encode(self._resolve(["name", request["name"]]))}

    def _next(self, request: dict[str, Any]) -> dict[str, Any]:
        number = request["on"][1]
        reply: dict[str, Any] = {}
        try:
            item = next(self._objects[number])
        except StopIteration:
            reply["end"] = True
        last, was = self._last_answer(request, number)
        writer = values.Writer(self._refer, last)
        if last and _differ(last, was):
            reply["last"] = [writer.contents(value) for value in last]
        if "end" not in reply:
            self._answer(reply, number, item, writer, last)
        return reply

    # A function may return the same list again and again, and change it in between. The checker, which has copies, is
    # told of changes in the last answer, and whether the next is the same list.

    def _last_answer(self, request: dict[str, Any], key: int | None) -> tuple[list[Any], list[list[Any]]]:
        """Containers of the last answer, and what was in them; nothing if the other side has not kept them."""
        last, was = self._answered.pop(key, ([], []))
        return (last, was) if request.get("last") == len(last) else ([], [])

    def _answer(
        self, reply: dict[str, Any], key: int | None, value: Any, writer: values.Writer, last: list[Any]
    ) -> None:
        known = len(writer.objects)
        reply["value"] = writer.encode(value)
        known_ids = set(map(id, last))
        is_again = any(id(part) in known_ids for part in (value if isinstance(value, tuple) else (value,)))
        containers = [*(last if is_again else ()), *writer.objects[known:]]
        if containers and _TRACKED.issuperset(map(type, containers)) and sum(map(len, containers)) <= _MOST_TRACKED:
            reply["again"] = is_again
            self._answered[key] = containers, list(map(_items, containers))

    def serve(self) -> None:
        """Answer requests for ever; the zygote kills this process when the checker is done."""
        streams = sys.stdout, sys.stderr
        while True:
            request = self._requests.message()
            try:
                reply = self._handlers[request["do"]](request)
                frame = wire.encode_frame({**reply, "id": request["id"]}, wire.MAX_REPLY_BYTES)
            except BaseException as error:  # noqa: BLE001 - whatever the program raises is its answer
                frame = wire.encode_frame({**describe(error), "id": request["id"]})
            for fd, stream in enumerate(streams, start=1):
                with contextlib.suppress(OSError, ValueError):  # closed, or more than a file may hold
                    stream.flush()
                    # Or what a few calls print would be too much. A file with a name is one of the program's own.
                    if os.lseek(fd, 0, os.SEEK_CUR) > _KEPT_BYTES and os.fstat(fd).st_nlink == 0:
                        os.ftruncate(fd, _KEPT_BYTES)
                        os.lseek(fd, _KEPT_BYTES, os.SEEK_SET)
            self._connection.sendall(frame)
