"""Hostile programs, in each configuration: the right verdict, and nothing read, written, reached or left behind."""

import ctypes
import dataclasses
import itertools
import json
import os
import secrets
import select
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox import Program, packages
from tests.sandbox.own_attacks import OWN
from tests.sandbox.package_environment import copy_installed
from tests.sandbox.sandbox_configurations import CONFIGURATIONS, OTHER_UID, Configuration, descendants, judge

HOSTILE = Path(__file__).with_name("hostile")
ENTRIES: list[dict[str, Any]] = json.loads((HOSTILE / "manifest.json").read_text()) + OWN
USUAL_TESTS = ["assert f(1) == 2", "assert f(41) == 42", "assert f(-7) == -6"]
CPU_SECONDS = 0.2


class Listeners:
    """Loopback TCP and UDP and an abstract unix socket."""

    def __init__(self) -> None:
        self._sockets: dict[str, socket.socket] = {}
        self.port = 0  # then one that is free
        self.name = f"sbx_probe_{os.getpid()}"
        for name, family, kind in (
            ("tcp", socket.AF_INET, socket.SOCK_STREAM),
            ("udp", socket.AF_INET, socket.SOCK_DGRAM),
            ("unix stream", socket.AF_UNIX, socket.SOCK_STREAM),
            ("unix datagram", socket.AF_UNIX, socket.SOCK_DGRAM),
        ):
            self._sockets[name] = server = socket.socket(family, kind)
            suffix = "_datagram" if kind == socket.SOCK_DGRAM else ""
            server.bind(("127.0.0.1", self.port) if family == socket.AF_INET else f"\0{self.name}{suffix}")
            if name == "tcp":
                _, self.port = server.getsockname()
            if kind == socket.SOCK_STREAM:
                server.listen()

    def seek(self, source: str) -> str:
        """A program that seeks well-known addresses, seeking these: others may test at the same time."""
        return source.replace("47011", str(self.port)).replace("sbx_probe", self.name)

    def reached(self) -> list[str]:
        """Those with a connection or a message."""
        ready, _, _ = select.select(self._sockets.values(), [], [], 0)
        return [name for name, server in self._sockets.items() if server in ready]

    def close(self) -> None:
        for server in self._sockets.values():
            server.close()


@dataclasses.dataclass
class Bait:
    """What a hostile program must not reach."""

    secret: str
    secret_file: Path
    host_dir: Path
    listeners: Listeners


@pytest.fixture(scope="module")
def bait(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bait]:
    folder = tmp_path_factory.mktemp("bait")
    for parent in (folder, *folder.parents):  # readable by the unprivileged configurations too
        if parent.stat().st_uid == os.getuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o755)
    secret = f"SECRET-{secrets.token_hex(16)}"
    secret_file = folder / "secret.txt"
    secret_file.write_text(secret)
    host_dir = folder / "host"
    host_dir.mkdir()
    host_dir.chmod(0o777)
    listeners = Listeners()
    yield Bait(secret, secret_file, host_dir, listeners)
    listeners.close()


def as_program(entry: dict[str, Any], bait: Bait) -> Program:
    source = entry.get("source") or (HOSTILE / entry["file"]).read_text(errors="surrogateescape")
    source = bait.listeners.seek(source)
    source = source.replace("@SECRET_FILE@", str(bait.secret_file)).replace("@HOST_DIR@", str(bait.host_dir))
    # Only programs that sleep need a short wall limit; on a busy machine it would end the others too early.
    wall_seconds = 1.2 if "timeout" in entry["expect"] else 30.0
    options = {"cpu_seconds": CPU_SECONDS, "wall_seconds": wall_seconds, **entry.get("program", {})}
    # A candidate for every test stops answers keyed by the order of calls.
    options["fresh_per_test"] = "expect_pass_fresh" in entry
    stdin_tests = [tuple(pair) for pair in entry.get("stdin_tests", ())]
    tests = entry.get("tests", [] if stdin_tests else USUAL_TESTS)
    return Program(source=source, tests=tests, stdin_tests=stdin_tests or None, **options)


@pytest.fixture(autouse=True, scope="module")
def _subreaper() -> Iterator[None]:
    pr_set_child_subreaper = 36
    ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)
    yield
    ctypes.CDLL(None).prctl(pr_set_child_subreaper, 0, 0, 0, 0)


def check(entry: dict[str, Any], verdict: dict[str, Any], bait: Bait) -> list[str]:
    """What is wrong with a verdict; empty when nothing is."""
    wrong = []
    if verdict["error_type"] not in entry["expect"]:
        details = [test["detail"] for test in verdict["tests"]]
        wrong.append(f"{verdict['error_type']}, expected {entry['expect']} {details}")
    if "pass_ratio" in entry and verdict["pass_ratio"] != pytest.approx(entry["pass_ratio"]):
        wrong.append(f"pass_ratio {verdict['pass_ratio']}, expected {entry['pass_ratio']}")
    # At most: one that keeps its state in /tmp does not even load where there is none.
    if "expect_pass_fresh" in entry and verdict["pass_ratio"] > entry["expect_pass_fresh"] + 1e-9:
        wrong.append(f"pass_ratio {verdict['pass_ratio']} with a candidate per test")
    not_run = sum(test["detail"].startswith("not run") for test in verdict["tests"])
    if not_run != entry.get("not_run", not_run):
        wrong.append(f"{not_run} tests were not run, expected {entry['not_run']}")
    if bait.secret in json.dumps(verdict):
        wrong.append("the secret is in the verdict")
    if "LEAK:" in json.dumps([verdict["stdout"], verdict["stderr"]]):
        wrong.append(f"it got through: {verdict['stdout'][:200]}")
    return [f"{entry['file']}: {each}" for each in wrong]


@pytest.fixture(scope="module")
def environment() -> Iterator[Path]:
    """The sandbox's environment, with numpy. Not below pytest's folder, which each session closes to other users."""
    with tempfile.TemporaryDirectory(prefix="ares-packages-") as folder, pytest.MonkeyPatch.context() as patch:
        root = Path(folder)
        patch.setenv(packages.VARIABLE, "")  # restored afterwards
        copy_installed(root, ("numpy",))
        yield root


def judge_all(entries: list[dict[str, Any]], configuration: Configuration, bait: Bait, **given: Any) -> dict[str, Any]:
    """Judge the programs of these entries, whose verdicts must be right."""
    reply = judge(configuration, [as_program(entry, bait) for entry in entries], **given)
    pairs = zip(entries, reply["verdicts"], strict=True)
    wrong = [line for entry, verdict in pairs for line in check(entry, verdict, bait)]
    assert not wrong, "\n".join(wrong)
    return reply


def _cases() -> Iterator[Any]:
    """A configuration, whether programs for numpy are judged or the others, and whether the pool has numpy."""
    for configuration, (of_numpy, has_numpy) in itertools.product(CONFIGURATIONS, [(0, 0), (1, 1), (0, 1)]):
        is_usual = configuration.name == "root" and of_numpy == has_numpy
        name = f"{configuration.name}{'-numpy' * of_numpy}{'-with-numpy' * (has_numpy - of_numpy)}"
        yield pytest.param(
            configuration, bool(of_numpy), bool(has_numpy), id=name, marks=[] if is_usual else pytest.mark.slow
        )


@pytest.mark.parametrize(("configuration", "of_numpy", "has_numpy"), _cases())
def test_hostile_programs_get_nothing(
    configuration: Configuration, of_numpy: bool, has_numpy: bool, bait: Bait, request: pytest.FixtureRequest
) -> None:
    assert len(ENTRIES) >= 280
    here = {configuration.name, "numpy" if has_numpy else ""}
    entries = [
        each for each in ENTRIES if each.get("numpy", False) == of_numpy and here.isdisjoint(each.get("except", ()))
    ]
    before = descendants(os.getpid())
    env, pool = {"ARES_SECRET_TOKEN": bait.secret}, {}
    if has_numpy:
        env[packages.VARIABLE] = str(request.getfixturevalue("environment"))
        pool["packages"] = ["numpy"]
    reply = judge_all(entries, configuration, bait, env=env, **pool)
    assert reply["isolation"].startswith(configuration.min_isolation + ":")
    assert list(bait.host_dir.iterdir()) == []
    assert bait.listeners.reached() == []
    assert descendants(os.getpid()) - before == set()  # orphans too: this process is their subreaper


@pytest.mark.slow
def test_without_any_layer_the_split_still_defeats_cheats(bait: Bait) -> None:
    """Isolation opted out on a machine that offers none: no containment, but verdicts are still right."""
    bare = Configuration("bare", uid=OTHER_UID, min_isolation="none", layers=("rlimits",))
    kinds = ("cheat", "control", "crash", "source", "cpu", "memory")
    chosen = [
        each for each in ENTRIES
        if each["category"] in kinds and "bare" not in each.get("except", ()) and "numpy" not in each
    ]  # fmt: skip
    verdicts = judge_all(chosen, bare, bait)["verdicts"]
    assert {verdict["isolation"] for verdict in verdicts} == {"none:rlimits"}
