"""`ares …` forked from a process that has imported what training imports: ten CPU seconds less than a fresh start.

The command is a process of its own all the same: it can be killed, and leaves nothing behind in the tests' process.
"""

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.loaded_cli"])


def run_forked(arguments: list[str], environment: dict[str, str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Run `ares ARGUMENTS` (killed_cli.py) with this environment alone and take what it prints.

    Raises subprocess.TimeoutExpired.
    """
    (out, printed), (err, complained) = FORKS.Pipe(duplex=False), FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_command, args=(arguments, environment, printed, complained))
    process.start()
    printed.close()
    complained.close()
    with ThreadPoolExecutor(2) as readers:
        # Pipes end when the last process that holds them ends: a survivor of a kill would make this time out.
        texts = [readers.submit(_read, end) for end in (out, err)]
        try:
            stdout, stderr = (text.result(timeout=seconds) for text in texts)
        except TimeoutError:
            process.kill()
            raise subprocess.TimeoutExpired(arguments, seconds) from None
    process.join()
    assert process.exitcode is not None
    return subprocess.CompletedProcess(["ares", *arguments], process.exitcode, stdout, stderr)


def _read(end: Connection) -> str:
    with open(end.fileno(), "rb", closefd=False) as file:
        return file.read().decode()


def _command(arguments: list[str], environment: dict[str, str], printed: Connection, complained: Connection) -> None:
    for standard, end in ((1, printed), (2, complained)):
        os.dup2(end.fileno(), standard)
        end.close()
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["ares", *arguments]
    import pytest
    from prefect.settings import PREFECT_API_URL, temporary_settings
    from ray._raylet import Config

    from tests.forked_workers import fork_workers

    fork_workers(pytest.MonkeyPatch())
    Config.initialize("")  # Ray and Prefect read their settings when they were imported.
    with temporary_settings({PREFECT_API_URL: environment.get("PREFECT_API_URL")}):
        try:
            runpy.run_module("tests.killed_cli", run_name="__main__")
        finally:
            atexit._run_exitfuncs()  # a process of multiprocessing ends without
