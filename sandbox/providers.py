"""Where programs are judged: on this machine, or on rented ones, behind the interface of SandboxPool.

A rented machine runs the very same sandbox: its source is uploaded once per machine, and each program with its tests as
one file. An outage is retried on a fresh machine; if it lasts, there is no score.
"""

import base64
import contextlib
import dataclasses
import io
import json
import logging
import secrets
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sandbox.isolation import SandboxUnavailable
from sandbox.pool import SandboxPool
from sandbox.program import Program, TestOutcome, Usage
from sandbox.remote_machines import E2BMachine, Machine, MorphMachine, Outage
from sandbox.worker_process import WorkerLost

logger = logging.getLogger(__name__)

MACHINES: dict[str, Callable[[], Machine]] = {"e2b": E2BMachine, "morph": MorphMachine}
_FOLDER = "/tmp/ares-sandbox"
_CHUNK = 90_000  # one argument of a command may have 128 KiB
_SETUP_SECONDS = 60.0
_OVERHEAD_SECONDS = 30.0


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
    if provider not in MACHINES:
        raise ValueError(f"unknown sandbox provider {provider!r} (known: local, {', '.join(MACHINES)})")
    return RemotePool(provider, MACHINES[provider], num_workers)


def _package() -> bytes:
    """This package, zipped."""
    root = Path(__file__).resolve().parent
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            archive.write(path, Path("sandbox") / path.relative_to(root))
    return buffer.getvalue()


class RemoteWorker:
    """One rented machine that judges programs, as a pool's worker."""

    def __init__(self, start: Callable[[], Machine]) -> None:
        """Rent a machine and put the sandbox on it. Raises WorkerLost on an outage."""
        try:
            self._machine = start()
        except Outage as error:
            raise WorkerLost(str(error)) from error
        self._is_ended = False
        try:
            self._upload("package.zip", _package())
            command = f"cd {_FOLDER} && python3 -m zipfile -e package.zip . && python3 -m sandbox.remote_job"
            layers = json.loads(self._machine.execute(command, _SETUP_SECONDS))["applied"]
        except (Outage, ValueError, KeyError) as error:
            self.kill()
            raise WorkerLost(f"setting up: {error}") from error
        self.report: dict[str, Any] = {"applied": layers.split("+"), "missing": {}}

    def _upload(self, name: str, content: bytes) -> None:
        text = base64.b64encode(content).decode()
        path = f"{_FOLDER}/{name}"
        self._machine.execute(f"umask 077; mkdir -p {_FOLDER}; : > {path}.b64", _SETUP_SECONDS)
        for start in range(0, len(text), _CHUNK):
            chunk = text[start : start + _CHUNK]
            self._machine.execute(f"printf %s '{chunk}' >> {path}.b64", _SETUP_SECONDS)
        self._machine.execute(f"umask 077; base64 -d {path}.b64 > {path}; rm {path}.b64", _SETUP_SECONDS)

    def judge(self, program: Program, fresh_per_test: bool, known: dict[int, TestOutcome], usage: Usage) -> None:
        """As WorkerProcess.judge(); a rented machine gives all outcomes or none."""
        nonce = secrets.token_hex(16)
        job = {"nonce": nonce, "program": {**dataclasses.asdict(program), "fresh_per_test": fresh_per_test}}
        count = len(program.tests) + len(program.stdin_tests or ())
        # As long as a program may take: else one that sleeps through all its tests would look like an outage.
        seconds = _OVERHEAD_SECONDS + 2 * program.wall_limit * count
        try:
            self._upload(f"{nonce}.json", json.dumps(job).encode())
            output = self._machine.execute(f"cd {_FOLDER} && python3 -m sandbox.remote_job {nonce}.json", seconds)
        except Outage as error:
            raise WorkerLost(str(error)) from error
        answer = _answer(output, nonce)
        if answer is None or len(answer["tests"]) != count:
            raise WorkerLost("the machine's answer is incomplete")
        known.update(enumerate(TestOutcome(**test) for test in answer["tests"]))
        usage.set_sum(usage, **answer["usage"])

    def kill(self) -> None:
        """Give the machine back. Idempotent."""
        if self._is_ended:
            return
        self._is_ended = True
        try:
            self._machine.close()
        except Outage as error:
            logger.warning("sandbox: a rented machine could not be shut down: %s", error)


def _answer(output: str, nonce: str) -> dict[str, Any] | None:
    """The line that carries the nonce; all others are noise."""
    for line in output.splitlines():
        with contextlib.suppress(ValueError):
            message = json.loads(line)
            if isinstance(message, dict) and message.get("nonce") == nonce:
                return message
    return None


class RemotePool(SandboxPool):
    """A pool whose workers are rented machines."""

    _ATTEMPTS = 3
    _RETRY_SECONDS = 2.0

    def __init__(self, provider: str, start: Callable[[], Machine], num_workers: int = 1) -> None:
        """Rent the machines. Raises SandboxUnavailable after a lasting outage."""
        self._provider = provider
        self._start = start
        super().__init__(num_workers, "none")

    def _start_worker(self) -> RemoteWorker:
        said = ""
        for attempt in range(self._ATTEMPTS):
            time.sleep(self._RETRY_SECONDS * attempt)
            try:
                return RemoteWorker(self._start)
            except WorkerLost as error:
                said = f"{self._provider}: {error}"
                logger.warning("sandbox: %s", said)
        raise WorkerLost(said)

    def _isolation_of(self, report: dict[str, Any]) -> str:
        return f"{self._provider}:{'+'.join(report['applied'])}"

    def _check_isolation(self, report: dict[str, Any]) -> None:
        """The rented machine is the isolation."""
