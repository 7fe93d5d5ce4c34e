"""Works as `python -m MODULE`, `python -c CODE` or `python FILE`, in a process that is forked.

pytest-xdist starts it for its workers, Ray for its own, tests for `ares` commands. It asks the fork server, with the
standard library alone, and ends as that process does.
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


def main() -> None:
    """Have the fork server start a process with this one's arguments, environment, directory and standard streams."""
    wait_until_open()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[FORK_SERVER])
        streams = array.array("i", [0, 1, 2])
        connection.sendmsg([b"\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
        connection.sendall(json.dumps((sys.argv[1:], dict(os.environ), os.getcwd())).encode() + b"\n")
        code = os.waitstatus_to_exitcode(int(connection.makefile().readline()))
    if code < 0:
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
