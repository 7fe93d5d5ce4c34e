"""The candidate's side of the conversation: objects of the program, and what the checker may ask of them.

Nothing here is trusted once the source has run: a program can forge any frame. What it says is only ever decoded into
plain values and compared in the checker, so a forged answer is worth no more than a returned one.
"""

import builtins
import itertools
import operator
import socket
import sys
import types
from collections.abc import Callable
from typing import Any

from . import values, wire

MODULE_NAME = "solution"
_MESSAGE_CHARS = 300
_CONTAINERS = (list, tuple, dict, set, frozenset)
_ORIGINAL_BUILTINS = dict(vars(builtins))  # before any program could patch them

# Operations on an object that a proxy may forward: name -> (function, number of further operands).
OPERATIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "getattr": (getattr, 1),
    "setattr": (setattr, 2),
    "delattr": (delattr, 1),
    "item": (operator.getitem, 1),
    "set_item": (operator.setitem, 2),
    "del_item": (operator.delitem, 1),
    "is_instance": (lambda kind, value: isinstance(value, kind), 1),
    "iterator": (iter, 0),
    "length": (len, 0),
    "truth": (bool, 0),
    "text": (str, 0),
    "representation": (repr, 0),
    "integer": (int, 0),
    "real": (float, 0),
    "enter": (lambda value: value.__enter__(), 0),
    "leave": (lambda value: value.__exit__(None, None, None), 0),
}


def describe(error: BaseException) -> dict[str, Any]:
    """An exception as class names (most derived first) and a short message."""
    try:
        message = str(error)[:_MESSAGE_CHARS]
    except BaseException:  # noqa: BLE001 - a program's own __str__
        message = "?"
    return {"error": [kind.__name__ for kind in type(error).__mro__], "message": message}


class Server:
    """Serves calls on one loaded program until the checker closes the connection."""

    def __init__(self, connection: socket.socket, module: types.ModuleType) -> None:
        self._connection = connection
        self._module = module
        self._objects: list[Any] = []
        self._index_of: dict[int, int] = {}
        self._handlers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "call": self._call,
            "next": self._next,
            "data": self._data,
            "plain": self._plain,
            "operate": self._operate,
            "in_process": self._in_process,
        }

    def _reference(self, value: Any) -> list[Any]:
        """["h", index, class name, traits]; the trait v: a container subclass, with a plain value underneath."""
        index = self._index_of.get(id(value))
        if index is None:
            index = self._index_of[id(value)] = len(self._objects)
            self._objects.append(value)
        return ["h", index, type(value).__name__[:60], "v" if issubclass(type(value), _CONTAINERS) else ""]

    def _encode(self, value: Any) -> Any:
        return values.encode(value, self._reference)

    def _resolve(self, data: list[Any]) -> Any:
        if data[0] == "h":
            return self._objects[data[1]]
        if data[0] == "iterator":
            return iter(self._decode(data[1]))
        if data[0] == "callback":
            return self._callback(data[1])
        raise ValueError(f"unknown tag {data[0]!r}")

    def _decode(self, data: Any) -> Any:
        return values.decode(data, self._resolve)

    def _callback(self, index: int) -> Callable[..., Any]:
        def function(*args: Any, **kwargs: Any) -> Any:
            named = {name: self._encode(value) for name, value in kwargs.items()}
            message = {"callback": index, "args": [self._encode(value) for value in args], "kwargs": named}
            wire.send(self._connection, message, wire.MAX_REPLY_BYTES)
            reply = wire.receive(self._connection)
            if "error" in reply:
                kind = getattr(builtins, reply["error"][0], RuntimeError)
                raise kind(reply["message"])
            return self._decode(reply["value"])

        return function

    def names(self) -> dict[str, Any]:
        """What the program defined at its top level: name -> kind, with a reference where it can be called."""
        found: dict[str, Any] = {}
        for name, value in list(vars(self._module).items()):
            if not isinstance(name, str) or name.startswith("__"):
                continue
            if isinstance(value, types.ModuleType):
                found[name] = ["module", value.__name__]
            elif isinstance(value, type) and issubclass(value, BaseException) and value.__module__ == MODULE_NAME:
                found[name] = ["exception", [kind.__name__ for kind in value.__mro__]]
            elif callable(value):
                found[name] = ["callable", self._encode(value)]
            else:
                found[name] = ["data"]  # fetched when a test names it: tables can be large
        return found

    def _call(self, request: dict[str, Any]) -> dict[str, Any]:
        function = self._objects[request["on"]]
        args = [self._decode(value) for value in request["args"]]
        kwargs = {name: self._decode(value) for name, value in request["kwargs"].items()}
        result = function(*args, **kwargs)
        reply: dict[str, Any] = {}
        # In-place changes of arguments travel back, and so does "the result is that very argument".
        changed = []
        for position, (value, sent) in enumerate(zip(args, request["args"], strict=True)):
            if type(value) in values.MUTABLE:
                now = self._encode(value)
                if now != sent:
                    changed.append([position, now])
                if result is value:
                    reply["same"] = position
        if changed:
            reply["changed"] = changed
        reply["value"] = None if "same" in reply else self._encode(result)
        return reply

    def _next(self, request: dict[str, Any]) -> dict[str, Any]:
        items = list(itertools.islice(self._objects[request["on"]], request["count"]))
        return {"value": ["l", [self._encode(item) for item in items]], "end": len(items) < request["count"]}

    def _data(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"value": self._encode(vars(self._module)[request["name"]])}

    def _plain(self, request: dict[str, Any]) -> dict[str, Any]:
        """The plain value under a container subclass, past anything it overrides."""
        value = self._objects[request["on"]]
        base = next(base for base in _CONTAINERS if isinstance(value, base))
        return {"value": self._encode(base(dict.items(value) if base is dict else base.__iter__(value)))}

    def _operate(self, request: dict[str, Any]) -> dict[str, Any]:
        function, operands = OPERATIONS[request["op"]]
        arguments = [self._decode(value) for value in request["args"]][:operands]
        return {"value": self._encode(function(self._objects[request["on"]], *arguments))}

    def _in_process(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run a test among the program's own objects, with the original builtins. Its word is not trusted."""
        namespace = {**vars(self._module), "__builtins__": _ORIGINAL_BUILTINS}
        try:
            for text in (request["setup"], request["test"]):
                exec(compile(text, "<test>", "exec", dont_inherit=True), namespace)
            if request["calls_check"]:
                namespace["check"](namespace[request["entry_point"]])
        except AssertionError as error:
            return {"failed": describe(error)}
        return {"value": None}

    def serve(self) -> None:
        """Answer requests for ever; the zygote kills this process when the checker is done."""
        stdout, stderr = sys.stdout, sys.stderr
        while True:
            request = wire.receive(self._connection)
            try:
                reply = self._handlers[request["kind"]](request)
                frame = wire.encode_frame({**reply, "id": request["id"]}, wire.MAX_REPLY_BYTES)
            except BaseException as error:  # noqa: BLE001 - whatever the program raises is its answer
                frame = wire.encode_frame({**describe(error), "id": request["id"]})
            for stream in (stdout, stderr):
                if not stream.closed:
                    stream.flush()
            self._connection.sendall(frame)
