"""Which tests plain Python passes: source and test in one namespace, in a process for each test.

python -S plain_python.py < [[source, test], …] > [true, …]
"""

import builtins
import json
import os
import resource
import subprocess
import sys
import types
from collections.abc import Sequence
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


def passes(source: str, test: str) -> bool | None:
    """Whether plain Python gets to the end of source and test; for unittest.main(), whether it succeeds."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            namespace = _prepare()
            for text in (source, test):
                exec(compile(text, "<text>", "exec"), namespace)
            status = 0
        except SystemExit as error:
            status = int("unittest.main()" not in test or bool(error.code))
        finally:
            os._exit(status)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if ended < 0 else ended == 0


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
    json.dump([passes(*case) for case in json.load(sys.stdin)], sys.stdout)
