"""Rented machines: the same verdicts, nonce-keyed lines, and outages, which are retried before there is no score."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import Program, SandboxPool, SandboxUnavailable
from sandbox.providers import RemotePool, _answer, open_sandbox
from sandbox.remote_machines import Outage
from tests.sandbox.stand_ins import E2BHandler, MorphHandler, Provider, serve

PROGRAMS = [
    Program(source="print('{\"nonce\": 1}')\ndef f(x): return x + 1", tests=["assert f(1) == 2", "assert f(2) == 3"]),
    Program(source="def f(x): return 0", tests=["assert f(0) == 0", "assert f(2) == 3"]),
    Program(source="print(int(input()) + 1)", stdin_tests=[("1", "2")]),
    Program(source="x = '" + "y" * 200_000 + "'\ndef f(): return len(x)", tests=["assert f() == 200_000"]),
]
EXPECTED = [("accepted", 1.0), ("wrong_answer", 0.5), ("accepted", 1.0), ("accepted", 1.0)]


class ShellMachine:
    """A machine that is a shell on this one."""

    ended = 0

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        if provider.fails("start"):
            raise Outage("start")
        provider.started += 1

    def execute(self, command: str, seconds: float) -> str:
        if self._provider.fails("execute"):
            raise Outage("execute")
        code, stdout, stderr = self._provider.shell(command)
        if code:
            raise Outage(stderr)
        return stdout

    def close(self) -> None:
        self._provider.ended += 1


@pytest.fixture
def provider(tmp_path: Path) -> Provider:
    return Provider(tmp_path)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RemotePool, "_RETRY_SECONDS", 0.01)


def rent(provider: Provider) -> RemotePool:
    return RemotePool("shell", lambda: ShellMachine(provider))


def test_no_program_can_take_so_long_that_it_looks_like_an_outage(provider: Provider) -> None:
    allowed: list[float] = []

    class Watched(ShellMachine):
        def execute(self, command: str, seconds: float) -> str:
            if ".json" in command and "remote_job" in command:
                allowed.append(seconds)
            return super().execute(command, seconds)

    naps = Program(source="def f(x): return x", tests=["assert f(1) == 1"] * 40, wall_seconds=7.0)
    with RemotePool("shell", lambda: Watched(provider)) as pool:
        assert pool.run([naps])[0].error_type == "accepted"
    assert allowed[0] >= 40 * (7.0 + 7.0)  # for reloading and for the test


def judged(pool: SandboxPool, programs: list[Program] = PROGRAMS) -> list[tuple[str, float | None]]:
    return [(verdict.error_type, verdict.pass_ratio) for verdict in pool.run(programs)]


def test_a_rented_machine_gives_the_local_verdicts(provider: Provider) -> None:
    with rent(provider) as pool:
        assert judged(pool) == EXPECTED
        assert pool.run(PROGRAMS[:1])[0].isolation.startswith("shell:")
    assert (provider.started, provider.ended) == (1, 1)
    assert list((provider.folder / "machine").glob("*.json")) == []


@pytest.mark.parametrize("failures", [["start"], ["start", "start"], ["execute"], ["start", "execute"]])
def test_an_outage_at_the_start_is_retried(provider: Provider, failures: list[str]) -> None:
    provider.failures = list(failures)
    with rent(provider) as pool:
        assert judged(pool, PROGRAMS[:1]) == EXPECTED[:1]


def test_a_lasting_outage_at_the_start_is_a_clear_error(provider: Provider) -> None:
    provider.failures = ["start"] * 3
    with pytest.raises(SandboxUnavailable, match="shell: start"):
        rent(provider)


@pytest.mark.parametrize("kind", ["execute", "truncate"])
def test_an_outage_while_judging_is_retried_on_a_fresh_machine(provider: Provider, kind: str) -> None:
    with rent(provider) as pool:
        provider.failures = [kind]
        assert judged(pool, PROGRAMS[:2]) == EXPECTED[:2]
    assert (provider.started, provider.ended) == (2, 2)


def test_a_lasting_outage_is_no_score(provider: Provider) -> None:
    with rent(provider) as pool:
        provider.failures = ["execute"] + ["start"] * 6
        (verdict,) = pool.run(PROGRAMS[:1])
        assert (verdict.error_type, verdict.pass_ratio) == ("internal_error", None)
        assert judged(pool, PROGRAMS[:1]) == EXPECTED[:1]


def test_lines_without_the_nonce_are_noise() -> None:
    good = {"nonce": "n", "tests": [], "usage": {}}
    noise = [good | {"nonce": "m"}, good | {"nonce": None}, {"tests": []}, ["nonce"], 3]
    assert _answer("\n".join([*map(json.dumps, noise), "garbage", "{", json.dumps(good)]), "n") == good
    assert _answer("\n".join(map(json.dumps, noise)), "n") is None


def test_an_unknown_provider_is_named() -> None:
    with pytest.raises(ValueError, match="known: local, e2b, morph"):
        open_sandbox("daytona")
    with open_sandbox("local") as pool:
        assert judged(pool) == EXPECTED


def test_a_missing_key_or_sdk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("E2B_API_KEY", "MORPH_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("e2b", "morph"):
        with pytest.raises((ValueError, ImportError), match=r"API_KEY|pip install"):
            open_sandbox(name)


@pytest.fixture
def e2b(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    pytest.importorskip("e2b", reason="the e2b SDK is not installed")
    with serve(E2BHandler) as (provider, url):
        monkeypatch.setenv("E2B_API_KEY", "e2b_" + "0" * 40)
        monkeypatch.setenv("E2B_API_URL", url)
        monkeypatch.setenv("E2B_SANDBOX_URL", url)
        monkeypatch.setenv("E2B_HTTP_VERSION", "1.1")
        yield provider


@pytest.fixture
def morph(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    pytest.importorskip("morphcloud", reason="the morphcloud SDK is not installed")
    with serve(MorphHandler) as (provider, url):
        monkeypatch.setenv("MORPH_API_KEY", "a-key")
        monkeypatch.setenv("MORPH_SNAPSHOT_ID", "snapshot_1")
        monkeypatch.setenv("MORPH_BASE_URL", url)
        yield provider


@pytest.mark.parametrize("name", ["e2b", "morph"])
def test_the_sdk_against_a_stand_in(name: str, request: pytest.FixtureRequest) -> None:
    provider: Provider = request.getfixturevalue(name)
    provider.failures = ["start"]
    with open_sandbox(name) as pool:
        assert judged(pool) == EXPECTED
        provider.failures = ["execute"]
        assert judged(pool, PROGRAMS[:1]) == EXPECTED[:1]
    assert provider.started == provider.ended == 2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "key"), [("e2b", "E2B_API_KEY"), ("morph", "MORPH_API_KEY")])
def test_live(name: str, key: str) -> None:
    if not os.environ.get(key):
        pytest.skip(f"{key} is not set")
    with open_sandbox(name) as pool:
        assert judged(pool) == EXPECTED


def test_the_answer_of_a_rented_machine_is_plain_text(provider: Provider, tmp_path: Path) -> None:
    """`python -m sandbox.remote_job` alone reports the layers, whatever the machine offers."""
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    python = provider.folder / "bin" / "python3"
    command = [str(python), "-m", "sandbox.remote_job"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=True)
    assert "seccomp" in json.loads(done.stdout)["applied"]


def test_rented_machines_have_no_packages_of_ours() -> None:
    with pytest.raises(SandboxUnavailable, match=r"packages \(numpy\) need provider local"):
        open_sandbox("e2b", packages=["numpy"])
