"""Length-prefixed frames over stream sockets: pool and checker, checker and candidate.

Orders go down, from the pool to a checker and from that to a candidate: in marshal's format, which is quick and only
safe to read from whom one trusts. What comes up is JSON.
"""

import _socket
import json
import marshal
import struct
from collections.abc import Callable
from typing import Any

# Bound here, since a program may replace json.loads.
_encode = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode
_decode = json.JSONDecoder().decode
_LENGTH = struct.Struct("<I")
MAX_ORDER_BYTES = 256 << 20
_WITHOUT_REFERENCES = 2  # the last version of marshal that has none: values that are one stay apart
MAX_REPLY_BYTES = 64 << 20
_READ_BYTES = 16 << 10  # at once: a buffer above 128 KiB is mapped and unmapped for every call


def stream_socket(fd: int) -> _socket.socket:
    """The socket behind a descriptor, without the standard library's wrapper, which is slow to make.

    With its kind given, Python need not ask the kernel, which a filter refuses.
    """
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fd)


def encode_frame(message: Any) -> bytes:
    """A message as one frame. Raises ValueError above MAX_REPLY_BYTES."""
    return _framed(_encode(message).encode(), MAX_REPLY_BYTES)


def encode_order(order: dict[str, Any]) -> bytes:
    """An order as one frame. Raises ValueError above MAX_ORDER_BYTES."""
    return _framed(marshal.dumps(order, _WITHOUT_REFERENCES), MAX_ORDER_BYTES)


def _framed(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise ValueError(f"a frame of {len(body)} bytes, the limit is {limit}")
    return _LENGTH.pack(len(body)) + body


def decode_body(body: bytes) -> dict[str, Any]:
    """The message in a frame's body, as encode_frame() writes it. Raises ValueError or RecursionError."""
    # Any other character, forged, could make the whole text take four bytes each.
    message = _decode(body.decode("ascii"))
    if not isinstance(message, dict):
        raise ValueError("not an object")
    return message


class Frames:
    """Reads a stream socket frame by frame, in as few reads as possible."""

    def __init__(self, connection: _socket.socket, limit: int = MAX_ORDER_BYTES) -> None:
        """limit: bytes of a frame."""
        self._connection = connection
        self._limit = limit
        self._buffer = bytearray()

    def body(self, wait: Callable[[], None] | None = None) -> bytes:
        """The next frame. Raises ConnectionError, ValueError (too large, before it is read), or whatever `wait` raises.

        wait: called before each read, and not kept; returns when there is something to read.
        """
        buffer = self._buffer
        while len(buffer) < _LENGTH.size:
            self._read(wait)
        (size,) = _LENGTH.unpack_from(buffer)
        if size > self._limit:
            raise ValueError(f"a frame of {size} bytes, the limit is {self._limit}")
        end = _LENGTH.size + size
        while len(buffer) < end:
            self._read(wait)
        body = bytes(buffer[_LENGTH.size : end])
        del buffer[:end]
        return body

    def message(self) -> dict[str, Any]:
        """The message in the next frame. Raises as body() and decode_body()."""
        return decode_body(self.body())

    def order(self) -> dict[str, Any]:
        """The order in the next frame. Raises as body()."""
        order: dict[str, Any] = marshal.loads(self.body())
        return order

    def _read(self, wait: Callable[[], None] | None) -> None:
        if wait is not None:
            wait()
        piece = self._connection.recv(_READ_BYTES)
        if not piece:
            raise ConnectionResetError("the other side closed the connection, or died")
        self._buffer += piece
