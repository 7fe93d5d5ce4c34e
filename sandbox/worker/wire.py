"""Length-prefixed JSON frames over stream sockets: pool and checker, checker and candidate."""

import json
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

# Made once: json.dumps() and json.loads() make or look up theirs at every call, which shows in a process that is forked
# for one program and finds all its memory cold.
_encoder = json.JSONEncoder(check_circular=False)
_chunks: Callable[[Any, int], tuple[str, ...]] = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None,  # of markers of circular references
    _encoder.default,
    json.encoder.encode_basestring_ascii,
    None,  # no indent
    ":",
    ",",
    _encoder.sort_keys,
    _encoder.skipkeys,
    _encoder.allow_nan,
)
_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_LENGTH = struct.Struct("<I")
MAX_JOB_BYTES = 256 << 20
MAX_REPLY_BYTES = 64 << 20  # of one frame written by a candidate


class Disconnected(EOFError):
    """The other side closed the connection, or died."""


class FrameTooLarge(ValueError):
    """A frame announces, or would need, more bytes than its reader accepts."""


class Malformed(ValueError):
    """A frame that is no JSON, or not of the expected shape."""


def stream_socket(fd: int) -> socket.socket:
    """The socket behind a descriptor; with its kind given, Python need not ask the kernel, which a filter refuses."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fd)


def encode_frame(message: Any, limit: int = MAX_JOB_BYTES) -> bytes:
    """A message as one frame. Raises FrameTooLarge above limit bytes."""
    body = "".join(_chunks(message, 0)).encode()
    if len(body) > limit:
        raise FrameTooLarge(f"a frame of {len(body)} bytes, the limit is {limit}")
    return _LENGTH.pack(len(body)) + body


def decode_body(body: bytes) -> Any:
    """The message in a frame's body, as encode_frame() writes it. Raises ValueError or RecursionError."""
    text = body.decode("ascii")  # any other character, forged, would have all of the text take four bytes a character
    try:
        message, end = _scan(text, 0)
    except StopIteration:
        raise ValueError("not JSON") from None
    if end != len(text):
        raise ValueError("more than one JSON value")
    return message


def send(connection: socket.socket, message: Any, limit: int = MAX_JOB_BYTES) -> None:
    """Send one message. Raises Disconnected when the reader is gone."""
    frame = encode_frame(message, limit)
    try:
        connection.sendall(frame)
    except (BrokenPipeError, ConnectionResetError) as error:
        raise Disconnected from error


def _receive_exactly(connection: socket.socket, size: int, wait: Callable[[], None] | None) -> bytes:
    pieces = []
    while size:
        if wait is not None:
            wait()
        try:
            piece = connection.recv(min(size, 1 << 20))
        except ConnectionResetError as error:
            raise Disconnected from error
        if not piece:
            raise Disconnected
        pieces.append(piece)
        size -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def receive(connection: socket.socket, limit: int = MAX_JOB_BYTES, wait: Callable[[], None] | None = None) -> Any:
    """Receive one message; `wait` is called before each read and returns when there is something to read.

    Raises Disconnected, FrameTooLarge (before reading the body), Malformed, or whatever `wait` raises.
    """
    (size,) = _LENGTH.unpack(_receive_exactly(connection, _LENGTH.size, wait))
    if size > limit:
        raise FrameTooLarge(f"a frame of {size} bytes, the limit is {limit}")
    body = _receive_exactly(connection, size, wait)
    try:
        return decode_body(body)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}"[:200]) from error


def receive_within(connection: socket.socket, seconds: float) -> Any:
    """Receive one message of a trusted sender within so many wall seconds. Raises TimeoutError, Disconnected."""
    deadline = time.monotonic() + seconds

    def wait() -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no frame within {seconds:.1f} s")
        connection.settimeout(left)

    return receive(connection, wait=wait)
