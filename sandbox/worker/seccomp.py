"""The system-call filter of candidates and checkers: an allow-list, compiled to classic BPF.

Refused calls return EPERM rather than kill, so that an honest program that tries one gets a Python exception. The
kernel compiles the filter anew for every candidate.
"""

import ctypes
import struct

from . import kernel, syscalls

_LOAD, _AND, _JUMP, _JUMP_EQ, _JUMP_SET, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x45, 0x06
_RET_ALLOW, _RET_KILL, _RET_ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_SET_MODE_FILTER = 1
_EPERM, _ENOTTY, _ENOSYS, _ENOTSUP = 1, 25, 38, 95
_NUMBER, _ARCH = 0, 4  # offsets in struct seccomp_data

_CLONE_THREAD = 0x00010000
# CLONE_NEW* of every kind, CLONE_PTRACE, CLONE_UNTRACED: no thread library asks for them.
_CLONE_FORBIDDEN = 0x7E020000 | 0x00002000 | 0x00800000
# F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, and F_GETLK for SQLite. F_SETOWN and F_SETSIG would
# let a program have the kernel send any signal to any process of the same user.
_FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030, 5)
# SQLite takes and gives back locks. They would keep other processes from writing to files that a program may only read,
# and conflict with nothing in one process alone.
_F_SETLK, _F_SETLKW = 6, 7
# FIONBIO, FIOCLEX, FIONCLEX, FIONREAD: asyncio's self-pipe needs them. All others look like "not a terminal".
_IOCTL_COMMANDS = (0x5421, 0x5451, 0x5450, 0x541B)
_AF_UNIX, _SOCK_STREAM = 1, 1
_SIGKILL = 9
_RLIMIT_STACK = 3  # harmless, since the address space has a limit; programs that recurse deeply raise it
# Of open(): a file without a name would advance the inode numbers of /tmp, which else looks new to the next candidate.
_O_TMPFILE = 0x400000

ANY_PID = 0x7ACD5E91
"""Stands for a pid in a filter that is built before the process it is for; no other operand has this value."""

Line = str | tuple[int, str, str, int]
"""A label, or an instruction: its code, the labels to jump to if true and if false ("": the next), its operand."""

_LEAVES: dict[str, int] = {
    "permit": _RET_ALLOW,
    "deny": _RET_ERRNO | _EPERM,
    "not a terminal": _RET_ERRNO | _ENOTTY,
    "not implemented": _RET_ERRNO | _ENOSYS,
    "not supported": _RET_ERRNO | _ENOTSUP,
    "pretend": _RET_ERRNO,
}


def _load(offset: int) -> Line:
    return (_LOAD, "", "", offset)


def _argument(index: int, high: bool = False) -> int:
    return 16 + 8 * index + (4 if high else 0)


def _one_of(argument: int, values: tuple[int, ...], otherwise: str) -> list[Line]:
    *first, last = values
    body: list[Line] = [_load(_argument(argument)), *((_JUMP_EQ, "permit", "", value) for value in first)]
    return [*body, (_JUMP_EQ, "permit", otherwise, last)]


def _without(argument: int, flags: int) -> list[Line]:
    return [_load(_argument(argument)), (_JUMP_SET, "deny", "permit", flags)]


def _is_null(argument: int) -> list[Line]:
    """Go on if a 64-bit argument is 0, else deny."""
    return [line for high in (False, True) for line in (_load(_argument(argument, high)), (_JUMP_EQ, "", "deny", 0))]


def _conditional(pid: int | None) -> dict[tuple[str, ...], list[Line]]:
    """The rules for calls whose arguments matter."""
    itself = {}
    if pid is not None:  # but never SIGKILL: that then comes from outside, and the program is judged again
        itself = {
            ("kill", "tkill"): [_load(_argument(1)), (_JUMP_EQ, "deny", "", _SIGKILL), *_one_of(0, (pid,), "deny")],
            ("tgkill",): [_load(_argument(2)), (_JUMP_EQ, "deny", "", _SIGKILL), *_one_of(0, (pid,), "deny")],
        }
    return itself | {
        # Threads, not processes: everything a program starts dies with it.
        ("clone",): [
            _load(_argument(0)),
            (_JUMP_SET, "deny", "", _CLONE_FORBIDDEN),
            (_JUMP_SET, "permit", "deny", _CLONE_THREAD),
        ],
        ("open",): _without(1, _O_TMPFILE),
        ("openat",): _without(2, _O_TMPFILE),
        # The flags of clone3 are in memory, which a filter cannot see; statx tells when a /tmp was made. On ENOSYS the
        # C library falls back to clone and stat.
        ("clone3", "statx"): [(_JUMP, "not implemented", "", 0)],
        ("flock",): [(_JUMP, "pretend", "", 0)],
        # Copying a file also copies its extended attributes, unless it has none.
        ("listxattr", "llistxattr", "flistxattr"): [(_JUMP, "not supported", "", 0)],
        ("ioctl",): _one_of(1, _IOCTL_COMMANDS, "not a terminal"),
        ("fcntl",): [
            _load(_argument(1)),
            (_JUMP_EQ, "pretend", "", _F_SETLK),
            (_JUMP_EQ, "pretend", "", _F_SETLKW),
            *_one_of(1, _FCNTL_COMMANDS, "deny"),
        ],
        # Of oneself only (pid 0): reading a limit (the new one is null), and setting that of the stack.
        ("prlimit64",): [
            *_is_null(0),
            _load(_argument(1)),
            (_JUMP_EQ, "permit", "", _RLIMIT_STACK),
            *_is_null(2),
            (_JUMP, "permit", "", 0),
        ],
        # A stream pair cannot be re-addressed; a datagram one could reach any unix socket by sendto.
        ("socketpair",): [
            _load(_argument(0)),
            (_JUMP_EQ, "", "deny", _AF_UNIX),
            _load(_argument(1)),
            (_AND, "", "", 0xF),
            (_JUMP_EQ, "permit", "deny", _SOCK_STREAM),
        ],
        ("sendto",): [*_is_null(4), (_JUMP, "permit", "", 0)],
    }


def build_filter(
    pid: int | None,
    may_receive_fds: bool = False,
    has_files: bool = False,
    machine: tuple[int, int] | None = None,
) -> bytes:
    """The BPF program for a process that may signal only itself: pid in its PID namespace, None for no signals.

    has_files: all that it can write to is its own. Else it may not change modes, times or lengths: a program that runs
    as the trainer's user could change those of any of that user's files.
    machine: (column of the system-call table, AUDIT_ARCH), by default this machine's. Raises OSError.
    """
    column, audit_arch = machine or syscalls.machine()
    # Only the checker receives file descriptors (of a new candidate, from the zygote).
    plain = [*syscalls.ALLOWED, *(syscalls.OF_OWN_FILES if has_files else ()), *["recvmsg"] * may_receive_fds]
    numbers = [number for name in plain if (number := syscalls.number(name, column)) is not None]
    lines: list[Line] = [
        _load(_ARCH),
        (_JUMP_EQ, "ours", "", audit_arch),
        (_RETURN, "", "", _RET_KILL),  # a 32-bit call would be numbered by another table
        "ours",
        # An argument, too: a filter that only looks at numbers the kernel tries with each of them when it is installed.
        _load(_argument(0)),
        _load(_NUMBER),
        *((_JUMP_EQ, "plain", "", number) for number in numbers),
    ]
    bodies = _conditional(pid)
    for names in bodies:
        for name in names:
            if (number := syscalls.number(name, column)) is not None:
                lines.append((_JUMP_EQ, f"on {names[0]}", "", number))
    lines += [(_JUMP, "deny", "", 0), "plain", (_RETURN, "", "", _RET_ALLOW)]
    for names, body in bodies.items():
        lines += [f"on {names[0]}", *body]
    for leaf, answer in _LEAVES.items():
        lines += [leaf, (_RETURN, "", "", answer)]
    return _assembled(lines)


def _assembled(lines: list[Line]) -> bytes:
    labels: dict[str, int] = {}
    instructions: list[tuple[int, str, str, int]] = []
    for line in lines:
        if isinstance(line, str):
            labels[line] = len(instructions)
        else:
            instructions.append(line)
    program = b""
    for at, (code, true, false, operand) in enumerate(instructions, start=1):
        to = [labels[label] - at if label else 0 for label in (true, false)]
        if code == _JUMP:  # its distance is the operand
            to, operand = [0, 0], to[0]
        program += struct.pack("HBBI", code, *to, operand)
    return program


def for_pid(program: bytes, pid: int) -> bytes:
    """A program with a process in the place of ANY_PID: much cheaper than building it."""
    return program.replace(struct.pack("I", ANY_PID), struct.pack("I", pid))


def install(program: bytes) -> None:
    """Confine the calling thread, and all it starts. Needs no_new_privs; cannot be undone."""
    # Not in a buffer of its own: every fork would have to write a page for it.
    address = ctypes.cast(ctypes.c_char_p(program), ctypes.c_void_p).value
    descriptor = struct.pack("HP", len(program) // 8, address)  # struct sock_fprog
    kernel.call("seccomp", _SET_MODE_FILTER, 0, descriptor)
