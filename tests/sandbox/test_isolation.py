"""Layers: which are in force in each configuration, and the refusal if they are not enough."""

import logging
import os
import struct

import pytest

from sandbox import IsolationReport, Program, SandboxPool, SandboxUnavailable
from sandbox.worker import seccomp, syscalls
from tests.sandbox.sandbox_configurations import GOOD, OPTED_OUT, OTHER_UID, REFUSED, ROOT, USERNS, Configuration, judge


@pytest.mark.parametrize(
    ("configuration", "layers"),
    [
        (ROOT, "standard:namespaces+root+uid+landlock+seccomp+rlimits"),
        (USERNS, "standard:namespaces+root+landlock+seccomp+rlimits"),
        (REFUSED, "standard:landlock+seccomp+rlimits"),
        (OPTED_OUT, "none:landlock+seccomp+rlimits"),
        (Configuration("refused root", uid=0, refuse=("unshare",)), "standard:"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_layers_in_force(configuration: Configuration, layers: str) -> None:
    reply = judge(configuration, [GOOD] * 3)
    assert reply["isolation"].startswith(layers)
    for verdict in reply["verdicts"]:
        assert (verdict["error_type"], verdict["isolation"]) == ("accepted", reply["isolation"])


def test_below_the_floor_is_refused_with_layer_errno_and_remedy() -> None:
    shut = Configuration("nothing", uid=OTHER_UID, refuse=("unshare", "landlock_create_ruleset"))
    message = judge(shut, [GOOD])["unavailable"]
    assert "landlock: missing: EPERM" in message
    assert "namespaces: missing: EPERM" in message
    assert "sysctl" in message
    assert "Kubernetes" in message
    assert "min_isolation='none'" in message


def test_the_opt_out_warns_once_and_marks_every_verdict() -> None:
    shut = Configuration("nothing", uid=OTHER_UID, refuse=("unshare", "landlock_create_ruleset"), min_isolation="none")
    reply = judge(shut, [GOOD] * 4, num_workers=2)
    assert reply["stderr"].count("min_isolation='none'") == 1
    assert {verdict["isolation"] for verdict in reply["verdicts"]} == {"none:seccomp+rlimits"}


def test_the_floor_without_a_filter(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SandboxUnavailable, match="seccomp: missing"):
        SandboxPool(layers=("rlimits", "landlock"))
    with caplog.at_level(logging.WARNING), SandboxPool(min_isolation="none", layers=()) as pool:
        assert pool.run([GOOD])[0].isolation == "none:nothing"


def test_unknown_machines_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "n", "6.1", "v", "riscv64")))
    with pytest.raises(OSError, match="riscv64"):
        seccomp.build_filter(1)
    report = IsolationReport(("rlimits", "root"), {"seccomp": ("OSError", "no table for 'riscv64'")})
    with pytest.raises(SandboxUnavailable, match="riscv64"):
        report.require_floor()


def run_filter(program: bytes, data: bytes) -> int:
    """What the kernel would answer: classic BPF over a struct seccomp_data."""
    instructions = list(struct.iter_unpack("HBBI", program))
    at = accumulator = 0
    while True:
        code, if_true, if_false, value = instructions[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif code == 0x54:
            accumulator &= value
        elif code == 0x05:
            at += value
        elif code == 0x06:
            return value
        else:
            holds = {0x15: accumulator == value, 0x45: bool(accumulator & value)}[code]
            at += if_true if holds else if_false


ALLOW, EPERM, ENOSYS, ENOTTY, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x00050019, 0x80000000
ENOTSUP, PRETEND = 0x0005005F, 0x00050000
X86_64, AARCH64 = (0, 0xC000003E), (1, 0xC00000B7)
NEVER = {  # name: numbers
    "execve": (59, 221), "ptrace": (101, 117), "socket": (41, 198), "connect": (42, 203), "bind": (49, 200),
    "mount": (165, 40), "unshare": (272, 97), "setns": (308, 268), "bpf": (321, 280), "io_uring_setup": (425, 425),
    "process_vm_readv": (310, 270), "memfd_create": (319, 279), "prctl": (157, 167), "keyctl": (250, 219),
    "sendmsg": (46, 211), "pidfd_open": (434, 434), "userfaultfd": (323, 282), "linkat": (265, 37),
    "execveat": (322, 281), "perf_event_open": (298, 241), "open_by_handle_at": (304, 265), "setuid": (105, 146),
}  # fmt: skip


@pytest.mark.parametrize("machine", [X86_64, AARCH64], ids=["x86_64", "aarch64"])
def test_the_filter_of_both_machines(machine: tuple[int, int]) -> None:
    column, arch = machine
    program = seccomp.build_filter(77, machine=machine)
    assert program == seccomp.for_pid(seccomp.build_filter(seccomp.ANY_PID, machine=machine), 77)

    def ask(call: str | int, *arguments: int, arch: int = arch) -> int:
        number = call if isinstance(call, int) else syscalls.number(call, column)
        return run_filter(program, struct.pack("<IIQ6Q", number, arch, 0, *(*arguments, *[0] * 6)[:6]))

    for name in syscalls.ALLOWED:
        if syscalls.number(name, column) is not None:
            assert ask(name, 2**64 - 1, 2**64 - 1, 2**64 - 1, 2**64 - 1) == ALLOW, name
    allowed = {syscalls.number(name, column) for name in syscalls.ALLOWED}
    conditional = {syscalls.number(name, column) for name in syscalls.CONDITIONAL}
    for number in set(range(600)) - allowed - conditional:
        assert ask(number) == EPERM, number
    for name, numbers in NEVER.items():
        assert ask(numbers[column]) == EPERM, name
    assert ask("read", arch=0x40000003) == KILL  # the 32-bit table
    assert ask(0x40000000) == EPERM  # the x32 table
    assert ask("clone", 0x3D0F00) == ALLOW  # a thread
    assert ask("clone", 0x1200011) == EPERM  # a process
    assert ask("clone", 0x3D0F00 | 0x10000000) == EPERM  # a thread in a new user namespace
    assert ask("clone3", 0) == ask("statx", 0) == ENOSYS
    assert (ask("openat", 0, 0, 0x42), ask("openat", 0, 0, 0x410042)) == (ALLOW, EPERM)  # O_TMPFILE
    assert (ask("kill", 77), ask("kill", 78), ask("kill", 2**64 - 1), ask("kill", 0)) == (ALLOW, EPERM, EPERM, EPERM)
    assert (ask("fcntl", 1, 4), ask("fcntl", 1, 8), ask("fcntl", 1, 10)) == (ALLOW, EPERM, EPERM)  # F_SETOWN, F_SETSIG
    assert (ask("ioctl", 0, 0x5421), ask("ioctl", 0, 0x5412)) == (ALLOW, ENOTTY)  # TIOCSTI
    limits = [("prlimit64", 0, 7, 0), ("prlimit64", 0, 7, 1 << 40), ("prlimit64", 9, 7, 0)]
    pairs = [("socketpair", 1, 1 | 0x80000), ("socketpair", 1, 2), ("socketpair", 2, 1)]
    assert [ask(*call) for call in limits] == [ask(*call) for call in pairs] == [ALLOW, EPERM, EPERM]
    assert (ask("sendto", 3, 0, 0, 0, 0), ask("sendto", 3, 0, 0, 0, 1 << 40)) == (ALLOW, EPERM)
    assert ask("recvmsg") == EPERM
    assert (ask("listxattr"), ask("flock")) == (ENOTSUP, PRETEND)
    of_files = ("fchmod", "truncate", "utimensat", "linkat")
    assert [ask(name, 3, 0, 1 << 40) for name in of_files] == [EPERM] * 4
    program = seccomp.build_filter(77, has_files=True, machine=machine)
    assert [ask(name, 3, 0, 1 << 40) for name in of_files] == [ALLOW] * 4
    # A lock on a file that others have too would make them wait; one that only this process asks for is never refused.
    assert [ask("fcntl", 1, command) for command in (5, 6, 7)] == [ALLOW, PRETEND, PRETEND]


MODES = """
import contextlib, os, pathlib, shutil, stat
def f():
    for path in (os.__file__, '/dev/null', '/'):
        before = os.stat(path)
        for change in (lambda: os.chmod(path, 0o777), lambda: os.utime(path, (5, 5)), lambda: os.utime(path)):
            with contextlib.suppress(OSError):
                change()
        after = os.stat(path)
        assert (before.st_mode, before.st_mtime) == (after.st_mode, after.st_mtime), path
    if os.access('.', os.W_OK):
        pathlib.Path('a').write_text('x')
        os.chmod('a', 0o640)
        os.utime('a', ns=(5, 1_000_000_007))
        shutil.copy2('a', 'b')
        for name in 'ab':
            info = os.stat(name)
            assert (stat.filemode(info.st_mode), info.st_mtime_ns) == ('-rw-r-----', 1_000_000_007), name
        pathlib.Path('a').touch()
        assert os.path.getmtime('a') > 1e9
        os.chmod('a', 0)
        try:
            open('a')
        except PermissionError:
            return
        assert False
"""
TIMES = """
import contextlib, os
def f():
    seen = [sorted(os.listdir('/tmp')), os.stat('/tmp')[:2], os.stat('/tmp').st_mtime_ns]
    open('left', 'w').close()
    seen += [os.stat('left').st_ino]
    for change in (lambda: os.chmod('/tmp', 0o555), lambda: os.utime('/tmp', (0, 0))):
        with contextlib.suppress(OSError):
            change()
    print(repr(seen))
"""
SYSTEM = """
import asyncio, hashlib, json, os, tempfile, threading, time, uuid, zoneinfo, multiprocessing, ssl, sqlite3, queue
import concurrent.futures
def is_open(fd):
    try: return bool(os.fstat(fd))
    except OSError: return False
others = [fd for fd in range(4, 64) if is_open(fd)]
def f():
    assert others == []
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda v: v * v, range(4))) == [0, 1, 4, 9]
    async def g():
        await asyncio.sleep(0.01)
        return 1
    assert asyncio.run(g()) == 1
    assert len(hashlib.sha256(b'x').hexdigest()) == 64
    assert sqlite3.connect(':memory:').execute('select 1').fetchone() == (1,)
    assert time.time() > 1e9 and os.getpid() > 0 and os.urandom(4)
"""
FILES = """
import os, pathlib, shutil, sqlite3, tempfile
def f():
    with tempfile.NamedTemporaryFile('w') as file:
        file.write('x')
    os.makedirs('a/b')
    pathlib.Path('a/b/c').write_text('x')
    pathlib.Path('a/b/c').chmod(0o600)
    pathlib.Path('a/b/c').touch()
    pathlib.Path('g').touch()
    assert os.path.exists('g')
    assert pathlib.Path(shutil.copy2('a/b/c', 'd')).read_text() == pathlib.Path(shutil.copy('d', 'e')).read_text()
    assert os.listdir(shutil.copytree('a', 'f')) == ['b']
    table = sqlite3.connect('table.db')
    table.execute('create table t (v integer)')
    table.execute('insert into t values (5)')
    table.commit()
    assert sqlite3.connect('table.db').execute('select v from t').fetchone() == (5,)
"""
FILL = """
import os
try:
    os.makedirs('/tmp/' + '/'.join('d' * 50 for _ in range(40)))
    for n in range(5000):
        open(f'/tmp/{n}', 'wb').write(b'x' * 9000)
except OSError: pass
def f(): assert len(os.listdir('/tmp')) > 100
"""
USE = """
import os
seen = os.listdir('/tmp')
open('/tmp/a', 'w').write('a' * 10**6)
def f(): assert seen == []
"""


CALL = ["assert f() is None"]


@pytest.mark.parametrize("configuration", [ROOT, USERNS, REFUSED], ids=lambda c: c.name)
def test_honest_use_of_the_system_works(configuration: Configuration) -> None:
    """Threads, asyncio, subnormal imports and the clock; a program changes modes and times of its own files alone."""
    verdicts = judge(configuration, [Program(source=source, tests=CALL) for source in (SYSTEM, MODES)])["verdicts"]
    assert [(each["error_type"], each["stdout"]) for each in verdicts] == [("accepted", "")] * 2


@pytest.mark.parametrize("configuration", [ROOT, USERNS], ids=lambda c: c.name)
def test_a_program_has_a_tmp_of_its_own_which_is_empty_however_the_last_one_left_it(
    configuration: Configuration,
) -> None:
    """Full, or with times that are set back so that a file might be overlooked."""
    programs = [Program(source=source, tests=CALL) for source in (FILES, FILL, USE, USE, FILL, USE)]
    programs.append(Program(source=TIMES, tests=CALL * 3, fresh_per_test=True))
    verdicts = judge(configuration, programs, num_workers=1)["verdicts"]
    assert [each["error_type"] for each in verdicts] == ["accepted"] * 7
    assert len(set(verdicts[-1]["stdout"].split("\n"))) == 2  # three times the same line, and the end
