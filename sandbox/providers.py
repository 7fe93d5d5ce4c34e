"""Where programs are judged: on this machine, or on rented ones, behind the interface of SandboxPool.

A rented machine runs the very same sandbox: its source is uploaded once per machine, and each program with its tests as
one file, which the machine deletes before the program starts. An outage is retried on a fresh machine; if it lasts,
there is no score. What the machine runs is this module, too:

    python -m sandbox.providers JOB_FILE       # judge the program in the file, and answer in one line of JSON
    python -m sandbox.providers                # answer with the layers of isolation
"""

import base64
import contextlib
import dataclasses
import importlib
import io
import json
import logging
import os
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sandbox.isolation import IsolationReport, SandboxUnavailable
from sandbox.pool import SandboxPool
from sandbox.program import Program, TestOutcome, Usage
from sandbox.worker_process import WorkerLost

logger = logging.getLogger(__name__)

_FOLDER = "/tmp/ares-sandbox"
_CHUNK = 90_000  # one argument of a command may have 128 KiB; a multiple of 4, as base64 comes
_LIFE_SECONDS = 3600
_BOOT_SECONDS = 120.0
_SETUP_SECONDS = 60.0
_OVERHEAD_SECONDS = 30.0


@dataclasses.dataclass(frozen=True)
class Machine:
    """A rented machine with a shell and Python 3.11 or later."""

    execute: Callable[[str, float], str]
    """(shell command, seconds) -> its standard output. Raises if it fails or takes longer."""
    close: Callable[[], object]
    """Give the machine back; one that cannot be reached ends by its own time limit."""


def _rent_from_e2b() -> Machine:
    """A sandbox of e2b.dev, made from a template with Python 3.11 or later."""
    machine: Any = importlib.import_module("e2b").Sandbox.create(
        template=os.environ.get("E2B_TEMPLATE", "code-interpreter-v1"),
        timeout=_LIFE_SECONDS,
        api_key=os.environ["E2B_API_KEY"],
        allow_internet_access=False,
    )
    return Machine(lambda command, seconds: machine.commands.run(command, timeout=seconds).stdout, machine.kill)


def _rent_from_morph() -> Machine:
    """An instance of morph.so, started from a snapshot with Python 3.11 or later."""
    api = importlib.import_module("morphcloud.api")
    client: Any = api.MorphCloudClient(api_key=os.environ["MORPH_API_KEY"], base_url=os.environ.get("MORPH_BASE_URL"))
    machine = client.instances.start(
        snapshot_id=os.environ["MORPH_SNAPSHOT_ID"], ttl_seconds=_LIFE_SECONDS, ttl_action="stop"
    )
    machine.wait_until_ready(timeout=_BOOT_SECONDS)

    def execute(command: str, seconds: float) -> str:
        result = machine.exec(["bash", "-c", command], timeout=seconds)
        if result.exit_code != 0:
            raise OSError(f"status {result.exit_code}: {result.stderr[-300:]}")
        return str(result.stdout)

    return Machine(execute, machine.stop)


PROVIDERS: dict[str, tuple[str, tuple[str, ...], Callable[[], Machine]]] = {
    "e2b": ("e2b", ("E2B_API_KEY",), _rent_from_e2b),
    "morph": ("morphcloud", ("MORPH_API_KEY", "MORPH_SNAPSHOT_ID"), _rent_from_morph),
}
"""name: (its SDK, environment variables that must be set, how to rent a machine)."""


def open_sandbox(
    provider: str = "local", num_workers: int = 1, min_isolation: str = "standard", packages: Sequence[str] = ()
) -> SandboxPool:
    """A pool at a provider: local, e2b or morph. Raises SandboxUnavailable, ValueError, ImportError (SDK missing).

    With rented machines, the machine is the isolation and min_isolation is ignored; packages exist only on this one.
    """
    if provider == "local":
        return SandboxPool(num_workers, min_isolation, packages=packages)
    if packages:
        raise SandboxUnavailable(f"packages ({', '.join(packages)}) need provider local: {provider} has none of them")
    if provider not in PROVIDERS:
        raise ValueError(f"unknown sandbox provider {provider!r} (known: local, {', '.join(PROVIDERS)})")
    sdk, variables, rent = PROVIDERS[provider]
    try:
        importlib.import_module(sdk)
    except ImportError as error:
        raise ImportError(f"the {provider} provider needs its SDK: pip install {sdk} ({error})") from error
    unset = [name for name in variables if not os.environ.get(name)]
    if unset:
        raise ValueError(f"the {provider} provider needs the environment variables {', '.join(unset)}")
    return rented_pool(provider, rent, num_workers)


def _package() -> bytes:
    """This package, zipped."""
    root = Path(__file__).resolve().parent
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            archive.write(path, Path("sandbox") / path.relative_to(root))
    return buffer.getvalue()


@contextlib.contextmanager
def _reaching() -> Iterator[None]:
    """Whatever an SDK, httpx or the system raise means that the machine cannot be used."""
    try:
        yield
    except Exception as error:
        raise WorkerLost(f"{type(error).__name__}: {error}") from error


class RentedWorker:
    """One rented machine that judges programs, as a pool's worker."""

    @_reaching()
    def __init__(self, rent: Callable[[], Machine]) -> None:
        """Rent a machine and put the sandbox on it. Raises WorkerLost on an outage."""
        self._machine = rent()
        self._is_ended = False
        try:
            self._upload("package.zip", _package())
            layers = self._answer("python3 -m zipfile -e package.zip . && python3 -m sandbox.providers", _SETUP_SECONDS)
        except BaseException:
            self.kill()
            raise
        self.report = IsolationReport(tuple(layers), {})

    def _upload(self, name: str, content: bytes) -> None:
        text = base64.b64encode(content).decode()
        for start in range(0, len(text), _CHUNK):
            chunk = f"printf %s '{text[start : start + _CHUNK]}' | base64 -d"
            self._machine.execute(f"umask 077; mkdir -p {_FOLDER}; {chunk} >> {_FOLDER}/{name}", _SETUP_SECONDS)

    def _answer(self, command: str, seconds: float) -> Any:
        """What the sandbox there says, in the last line of a command's output."""
        return json.loads(self._machine.execute(f"cd {_FOLDER} && {command}", seconds).splitlines()[-1])

    @_reaching()
    def judge(self, program: Program, known: dict[int, TestOutcome], usage: Usage) -> None:
        """As WorkerProcess.judge(); a rented machine gives all outcomes or none."""
        count = len(program.tests) + len(program.stdin_tests or ())
        # As long as a program may take: else one that sleeps through all its tests would look like an outage.
        seconds = _OVERHEAD_SECONDS + 2 * program.wall_limit * count
        self._upload("job.json", json.dumps(dataclasses.asdict(program)).encode())
        tests, used = self._answer("python3 -m sandbox.providers job.json", seconds)
        known.update(enumerate(TestOutcome(**test) for test in tests))
        usage.add(**used)

    def kill(self) -> None:
        """Give the machine back. Idempotent."""
        if not self._is_ended:
            self._is_ended = True
            try:
                self._machine.close()
            except Exception as error:  # noqa: BLE001 - whatever an SDK raises
                logger.warning("sandbox: a rented machine could not be shut down: %s", error)


def rented_pool(provider: str, rent: Callable[[], Machine], num_workers: int = 1) -> SandboxPool:
    """A pool whose workers are rented machines; layers inside them come on top. Raises SandboxUnavailable."""
    return SandboxPool(num_workers, rented=(provider, partial(RentedWorker, rent)))


def main(job_file: str | None = None) -> object:
    """The answer of a rented machine, whose sandbox has the layers that it offers: the machine is the isolation."""
    with SandboxPool(min_isolation="none") as pool:
        if job_file is None:
            return pool.isolation.partition(":")[2].split("+")
        program = Program(**json.loads(Path(job_file).read_text()))
        Path(job_file).unlink()
        (verdict,) = pool.run([program])
    usage = {"cpu": verdict.exec_time, "peak_rss": verdict.peak_rss, "stdout": verdict.stdout, "stderr": verdict.stderr}
    return [[dataclasses.asdict(test) for test in verdict.tests], usage]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])) + "\n")
