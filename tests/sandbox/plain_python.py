"""Which tests plain Python passes: source and test in one namespace, in a process for each test.

python -S plain_python.py < [[source, test], …] > [true, …]
"""

import builtins
import contextlib
import itertools
import json
import os
import resource
import subprocess
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_CPU_SECONDS = 2


def judge_plainly(cases: Sequence[tuple[str, str]], folder: Path) -> list[bool | None]:
    """Whether each (source, test) passes in a process whose sets have the order that the sandbox's have.

    None: it was killed, or took more than two CPU seconds. folder: where programs may write.
    """
    command = [sys.executable, "-S", str(Path(__file__).resolve())]
    environment = {"PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command, input=json.dumps(cases), capture_output=True, text=True, check=True, env=environment, cwd=folder
    )
    passed: list[bool | None] = json.loads(done.stdout)
    return passed


def judge(source: str, tests: Sequence[str]) -> list[bool | None]:
    """Whether plain Python gets to the end of source and each test; for unittest.main(), whether it succeeds.

    The source is run once, since its imports take most of the time, and each test in a process forked from there.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with _ended():
            namespace = _prepare()
            exec(compile(source, "<source>", "exec"), namespace)
            os.write(writing, json.dumps([_passes(namespace, test, writing) for test in tests]).encode())
    os.close(writing)
    with open(reading) as told:
        text = told.read()
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    passed: list[bool | None] = json.loads(text) if text else [None if ended < 0 else False] * len(tests)
    return passed


def _passes(namespace: dict[str, Any], test: str, writing: int) -> bool | None:
    child = os.fork()
    if child == 0:
        with _ended(is_suite="unittest.main()" in test):
            os.close(writing)
            exec(compile(test, "<test>", "exec"), namespace)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if ended < 0 else ended == 0


@contextlib.contextmanager
def _ended(is_suite: bool = False) -> Iterator[None]:
    """End this process with what is inside: with 0 if it comes to its end, or if a suite says so."""
    status = 1
    try:
        yield
        status = 0
    except SystemExit as error:
        status = int(not is_suite or bool(error.code))
    finally:
        os._exit(status)


def _prepare() -> dict[str, Any]:
    """The namespace of an empty __main__, in a process with a limit and without output."""
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    vars(module).update(__file__="solution.py", __builtins__=builtins)
    sys.argv = ["solution.py"]
    for fd in (1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), fd)
    return vars(module)


if __name__ == "__main__":
    groups = itertools.groupby(json.load(sys.stdin), key=lambda case: case[0])
    found = [passed for source, cases in groups for passed in judge(source, [test for _, test in cases])]
    json.dump(found, sys.stdout)
