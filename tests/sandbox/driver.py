"""Judges programs in a process of its own, under another user or with system calls refused.

    python driver.py REPOSITORY < request.json > reply.json

Standard library and `sandbox` only, so that any interpreter the user can execute will do. The request:
{"programs": [...], "pool": {...}, "refuse": [names of system calls to fail with EPERM]}.
"""

import dataclasses
import json
import logging
import os
import struct
import sys

sys.path.insert(0, sys.argv[1])

from sandbox import Program, SandboxPool, SandboxUnavailable
from sandbox.worker import kernel, seccomp, syscalls


def refuse(names: list[str]) -> None:
    """Let system calls fail with EPERM here and in all children, as a container's own filter does."""
    program = [(0x20, 0, 0, 0)]
    for name in names:
        program += [(0x15, 0, 1, syscalls.number(name)), (0x06, 0, 0, 0x00050001)]
    program.append((0x06, 0, 0, 0x7FFF0000))
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    seccomp.install(b"".join(struct.pack("HBBI", *instruction) for instruction in program))


def main() -> None:
    request = json.load(sys.stdin)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    if request.get("refuse"):
        refuse(request["refuse"])
    options = dict(request["pool"])
    if "layers" in options:
        options["layers"] = tuple(options["layers"])
    reply: dict[str, object] = {"uid": os.getuid(), "pid": os.getpid()}
    try:
        with SandboxPool(**options) as pool:
            reply["isolation"] = pool.isolation
            reply["verdicts"] = [dataclasses.asdict(v) for v in pool.run(Program(**p) for p in request["programs"])]
    except SandboxUnavailable as error:
        reply["unavailable"] = str(error)
    json.dump(reply, sys.stdout)


if __name__ == "__main__":
    main()
