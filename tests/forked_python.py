"""What pytest-xdist starts in place of `python -u -c CODE`, and Ray in place of `python FILE …`: asks the fork server
for such a process; ends with it.

Also the fork server's client, with the standard library alone.
"""

import array
import json
import os
import socket
import sys
import time

FORK_SERVER = "ARES_TEST_FORK_SERVER"
"""Environment variable: the fork server's socket, which is there once it can be asked."""


def wait_until_open(seconds: float = 300) -> None:
    """Return when the fork server is ready."""
    deadline = time.monotonic() + seconds
    while not os.path.exists(os.environ[FORK_SERVER]):
        assert time.monotonic() < deadline, "the fork server did not start"
        time.sleep(0.05)


def asked(kind: str, arguments: list[str], environment: dict[str, str], streams: list[int]) -> socket.socket:
    """Ask the fork server for a process of a kind (`command` or `python`) with these arguments, environment and
    standard streams, in this directory."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ[FORK_SERVER])
    connection.sendmsg([b"\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))])
    connection.sendall(json.dumps((kind, arguments, environment, os.getcwd())).encode() + b"\n")
    return connection


if __name__ == "__main__":
    wait_until_open()
    with asked("python", sys.argv[1:], dict(os.environ), [0, 1, 2]) as connection, connection.makefile() as told:
        _, status = told.readlines()
    sys.exit(os.waitstatus_to_exitcode(int(status)))
