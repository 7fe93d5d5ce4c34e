"""Rented machines: the same verdicts, and outages, which are retried before there is no score."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import create_autospec

import pytest

from sandbox import Program, SandboxPool, SandboxUnavailable
from sandbox.providers import Machine, open_sandbox, rented_pool

PROGRAMS = [
    Program(source="print('[]')\ndef f(x): return x + 1", tests=["assert f(1) == 2", "assert f(2) == 3"]),
    Program(source="def f(x): return 0", tests=["assert f(0) == 0", "assert f(2) == 3"]),
    Program(source="print(int(input()) + 1)", stdin_tests=[("1", "2")]),
    Program(source="x = '" + "y" * 200_000 + "'\ndef f(): return len(x)", tests=["assert f() == 200_000"]),
]
EXPECTED = [("accepted", 1.0), ("wrong_answer", 0.5), ("accepted", 1.0), ("accepted", 1.0)]


class Shell:
    """Rents machines that are a shell on this one; outages on demand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started = self.ended = 0
        self.failures: list[str] = []  # kinds of request to fail next: start, execute, truncate
        self.allowed: list[float] = []  # seconds for each program
        (folder / "bin").mkdir()
        (folder / "bin" / "python3").symlink_to(sys.executable)

    def fails(self, kind: str) -> bool:
        return self.failures[:1] == [kind] and bool(self.failures.pop(0))

    def rent(self) -> Machine:
        if self.fails("start"):
            raise ConnectionError("away")
        self.started += 1
        return Machine(self.execute, self.close)

    def execute(self, command: str, seconds: float) -> str:
        if self.fails("execute"):
            raise ConnectionError("away")
        is_job = "providers job.json" in command
        self.allowed += [seconds] * is_job
        command = command.replace("/tmp/ares-sandbox", str(self.folder / "machine"))
        environment = {"PATH": f"{self.folder}/bin:/usr/bin:/bin"}
        done = subprocess.run(
            ["/bin/bash", "-c", command], capture_output=True, text=True, env=environment, timeout=60, check=True
        )
        return done.stdout[: len(done.stdout) // 2] if is_job and self.fails("truncate") else done.stdout

    def close(self) -> None:
        self.ended += 1


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def judged(pool: SandboxPool, programs: list[Program] = PROGRAMS) -> list[tuple[str, float | None]]:
    return [(verdict.error_type, verdict.pass_ratio) for verdict in pool.run(programs)]


def test_a_rented_machine_gives_the_local_verdicts(shell: Shell) -> None:
    naps = Program(source="def f(x): return x", tests=["assert f(1) == 1"] * 40, wall_seconds=7.0)
    with rented_pool("shell", shell.rent) as pool:
        assert judged(pool) == EXPECTED
        (verdict,) = pool.run([naps])
    assert verdict.isolation.startswith("shell:")
    assert "seccomp" in verdict.isolation
    assert (shell.started, shell.ended) == (1, 1)
    assert list((shell.folder / "machine").glob("*.json")) == []
    assert shell.allowed[-1] >= 40 * (7.0 + 7.0)  # for reloading and for the test: no outage, however slow it is


@pytest.mark.parametrize("kind", ["start", "execute"])
def test_an_outage_at_the_start_is_a_clear_error(shell: Shell, kind: str) -> None:
    shell.failures = [kind]
    with pytest.raises(SandboxUnavailable, match="away"):
        rented_pool("shell", shell.rent)
    assert shell.started == shell.ended


@pytest.mark.slow
def test_an_outage_while_judging_is_retried_on_a_fresh_machine_and_is_no_score_if_it_lasts(shell: Shell) -> None:
    with rented_pool("shell", shell.rent) as pool:
        for number, kind in enumerate(("execute", "truncate"), start=2):
            shell.failures = [kind]
            assert judged(pool, PROGRAMS[:1]) == EXPECTED[:1]
            assert shell.started == number
        shell.failures = ["execute", "start"]
        assert judged(pool, PROGRAMS[:1]) == [("internal_error", None)]
        assert judged(pool, PROGRAMS[:1]) == EXPECTED[:1]
    assert shell.started == shell.ended == 4


def test_what_a_provider_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("E2B_API_KEY", "MORPH_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("e2b", "morph"):
        with pytest.raises((ValueError, ImportError), match=r"API_KEY|pip install"):
            open_sandbox(name)
        with pytest.raises(SandboxUnavailable, match=r"packages \(numpy\) need provider local"):
            open_sandbox(name, packages=["numpy"])
    with pytest.raises(ValueError, match="known: local, e2b, morph"):
        open_sandbox("daytona")
    with open_sandbox("local") as pool:
        assert judged(pool, PROGRAMS[:1]) == EXPECTED[:1]


def stand_in_for_e2b(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK with its own signatures."""
    e2b = pytest.importorskip("e2b", reason="the e2b SDK is not installed")
    commands = create_autospec(e2b.sandbox_sync.commands.command.Commands, instance=True)
    commands.run.side_effect = lambda command, timeout: SimpleNamespace(stdout=shell.execute(command, timeout))
    sandbox = create_autospec(e2b.Sandbox)

    def create(**asked: object) -> SimpleNamespace:
        shell.rent()
        return SimpleNamespace(commands=commands, kill=shell.close)

    sandbox.create.side_effect = create
    monkeypatch.setattr(e2b, "Sandbox", sandbox)


def stand_in_for_morph(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK with its own signatures."""
    api = pytest.importorskip("morphcloud.api", reason="the morphcloud SDK is not installed")
    machine, instances = (create_autospec(kind, instance=True) for kind in (api.Instance, api.InstanceAPI))

    def start(**asked: object) -> object:
        shell.rent()
        return machine

    def execute(command: list[str], timeout: float) -> SimpleNamespace:
        return SimpleNamespace(exit_code=0, stdout=shell.execute(command[2], timeout), stderr="")

    instances.start.side_effect, machine.exec.side_effect, machine.stop.side_effect = start, execute, shell.close
    client = create_autospec(api.MorphCloudClient)
    client.return_value = SimpleNamespace(instances=instances)
    monkeypatch.setattr(api, "MorphCloudClient", client)


@pytest.mark.parametrize(("name", "stand_in"), [("e2b", stand_in_for_e2b), ("morph", stand_in_for_morph)])
def test_what_the_sdks_are_asked(
    name: str, stand_in: Callable[..., None], shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("E2B_API_KEY", "MORPH_API_KEY", "MORPH_SNAPSHOT_ID"):
        monkeypatch.setenv(variable, "given")
    stand_in(shell, monkeypatch)
    with open_sandbox(name) as pool:
        assert judged(pool, PROGRAMS[:1]) == EXPECTED[:1]
    assert shell.started == shell.ended == 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "key"), [("e2b", "E2B_API_KEY"), ("morph", "MORPH_API_KEY")])
def test_live(name: str, key: str) -> None:
    if not os.environ.get(key):
        pytest.skip(f"{key} is not set")
    with open_sandbox(name) as pool:
        assert judged(pool) == EXPECTED
