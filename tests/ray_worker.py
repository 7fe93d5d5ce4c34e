"""What Ray starts in place of its worker script: hands all it was started with to forked_workers.py, and ends."""

import array
import json
import os
import socket
import sys

SERVER = "ARES_TEST_WORKERS"
"""Environment variable: the socket of the server."""


def received(connection: socket.socket) -> tuple[list[str], dict[str, str], str, list[int]]:
    """Arguments, environment, working directory and standard streams that were sent."""
    streams = array.array("i")
    _, ancillary, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(3 * streams.itemsize))
    for _, _, data in ancillary:
        streams.frombytes(data)
    arguments, environment, directory = json.loads(connection.makefile().read())
    return arguments, environment, directory, streams.tolist()


def main() -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ[SERVER])
    connection.sendmsg([b"\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
    connection.sendall(json.dumps((sys.argv[1:], dict(os.environ), os.getcwd())).encode())


if __name__ == "__main__":
    main()
