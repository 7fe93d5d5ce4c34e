"""The system-call filter of candidates and checkers: an allow-list, compiled to classic BPF.

Refused calls return EPERM rather than kill, so that an honest program that tries one gets a Python exception. The
filter is a binary search over ranges of allowed numbers: the kernel runs it once for every number at each install to
fill its cache, and a linear list costs more than the rest of the confinement together.
"""

import array
import struct

from . import kernel, syscalls

_LOAD, _JUMP_EQ, _JUMP_GE, _JUMP_SET, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_RET_ALLOW, _RET_KILL, _RET_ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOTTY, _ENOSYS = 1, 25, 38
_NUMBER, _ARCH = 0, 4  # offsets in struct seccomp_data

_CLONE_THREAD = 0x00010000
# CLONE_NEW* of every kind, CLONE_PTRACE, CLONE_UNTRACED: no thread library asks for them.
_CLONE_FORBIDDEN = 0x7E020000 | 0x00002000 | 0x00800000
# F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC. F_SETOWN and F_SETSIG would let a program have the
# kernel send any signal to any process of the same user.
_FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030)
# FIONBIO, FIOCLEX, FIONCLEX, FIONREAD: asyncio's self-pipe needs them. All others look like "not a terminal".
_IOCTL_COMMANDS = (0x5421, 0x5451, 0x5450, 0x541B)
_AF_UNIX, _SOCK_STREAM = 1, 1

ANY_PID = 0x7ACD5E91
"""Stands for a pid in a filter that is built before the process it is for; no other operand has this value."""

Instruction = tuple[int, int, int, int]


def _argument(index: int, high: bool = False) -> int:
    return 16 + 8 * index + (4 if high else 0)


def _errno(code: int) -> Instruction:
    return (_RETURN, 0, 0, _RET_ERRNO | code)


_PERMIT: Instruction = (_RETURN, 0, 0, _RET_ALLOW)
_DENY = _errno(_EPERM)


def _one_of(argument: int, values: tuple[int, ...], otherwise: Instruction) -> list[Instruction]:
    body: list[Instruction] = [(_LOAD, 0, 0, _argument(argument))]
    for value in values:
        body += [(_JUMP_EQ, 0, 1, value), _PERMIT]
    return [*body, otherwise]


def _is_null(*arguments: int) -> list[Instruction]:
    """Permit when every named 64-bit argument is 0."""
    words = [_argument(index, high) for index in arguments for high in (False, True)]
    body: list[Instruction] = []
    for word in words:
        body += [(_LOAD, 0, 0, word), (_JUMP_EQ, 1, 0, 0), _DENY]
    return [*body, _PERMIT]


def _conditional(pid: int | None, may_receive_fds: bool) -> dict[str, list[Instruction]]:
    self_only = [_DENY] if pid is None else _one_of(0, (pid,), _DENY)
    return {
        # Threads, not processes: everything a program starts dies with it.
        "clone": [
            (_LOAD, 0, 0, _argument(0)),
            (_JUMP_SET, 0, 1, _CLONE_FORBIDDEN),
            _DENY,
            (_JUMP_SET, 0, 1, _CLONE_THREAD),
            _PERMIT,
            _DENY,
        ],
        # Its flags lie in memory, out of a filter's sight; on ENOSYS the C library falls back to clone.
        "clone3": [_errno(_ENOSYS)],
        "ioctl": _one_of(1, _IOCTL_COMMANDS, _errno(_ENOTTY)),
        "fcntl": _one_of(1, _FCNTL_COMMANDS, _DENY),
        # getrlimit of oneself only: pid and the new limit are both 0.
        "prlimit64": _is_null(0, 2),
        "kill": self_only,
        "tgkill": self_only,
        "tkill": self_only,
        # A stream pair cannot be re-addressed; a datagram one could reach any unix socket by sendto.
        "socketpair": [
            (_LOAD, 0, 0, _argument(0)),
            (_JUMP_EQ, 1, 0, _AF_UNIX),
            _DENY,
            (_LOAD, 0, 0, _argument(1)),
            (_AND, 0, 0, 0xF),
            (_JUMP_EQ, 1, 0, _SOCK_STREAM),
            _DENY,
            _PERMIT,
        ],
        "sendto": _is_null(4),
        # Only the checker receives file descriptors (of a new candidate, from the zygote).
        "recvmsg": [_PERMIT if may_receive_fds else _DENY],
    }


def _search(ranges: list[tuple[int, list[Instruction]]]) -> list[Instruction]:
    """Binary search: ranges are (first number, what to do up to the next range), ascending."""
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    below, above = _search(ranges[:middle]), _search(ranges[middle:])
    if len(below) <= 255:
        return [(_JUMP_GE, len(below), 0, ranges[middle][0]), *below, *above]
    # Conditional jumps reach 255 instructions; a longer one goes through an unconditional jump (0x05).
    return [(_JUMP_GE, 0, 1, ranges[middle][0]), (0x05, 0, 0, len(below)), *below, *above]


def build_filter(pid: int | None, may_receive_fds: bool = False, machine: tuple[int, int] | None = None) -> bytes:
    """The BPF program for a process that may signal only itself: its pid in its PID namespace, None for no signals.

    machine: (column of the system-call table, AUDIT_ARCH), by default this machine's. Raises UnsupportedMachine.
    """
    column, audit_arch = machine or syscalls.machine()
    actions: dict[int, list[Instruction]] = {}
    for name in syscalls.ALLOWED:
        if (number := syscalls.number(name, column)) is not None:
            actions[number] = [_PERMIT]
    for name, body in _conditional(pid, may_receive_fds).items():
        if (number := syscalls.number(name, column)) is not None:
            actions[number] = body
    ranges: list[tuple[int, list[Instruction]]] = []
    gap = 0
    for number, body in sorted(actions.items()):
        if number > gap:
            ranges.append((gap, [_DENY]))
        # Neighbours with the same plain answer share one range.
        if not ranges or ranges[-1][1] != body or len(body) > 1:
            ranges.append((number, body))
        gap = number + 1
    ranges.append((gap, [_DENY]))
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_JUMP_EQ, 1, 0, audit_arch),
        (_RETURN, 0, 0, _RET_KILL),  # a 32-bit call would be numbered by another table
        (_LOAD, 0, 0, _NUMBER),
        *_search(ranges),
    ]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)


class Filter:
    """A filter in the form that the kernel reads, made ready ahead for the forks that put it on."""

    def __init__(self, program: bytes) -> None:
        """`program`: as `build_filter` gives it."""
        self.program = program
        self._instructions = array.array("B", program)
        # struct sock_fprog, in an array: ctypes would make a class for it.
        address = self._instructions.buffer_info()[0]
        self._descriptor = array.array("B", struct.pack("HP", len(program) // 8, address))
        seccomp_set_mode_filter = 1
        self._call = kernel.SystemCall("seccomp", seccomp_set_mode_filter, 0, self._descriptor.buffer_info()[0])

    def for_pid(self, pid: int) -> "Filter":
        """The filter for a process, of one built for ANY_PID: much cheaper than to build it."""
        return Filter(self.program.replace(struct.pack("I", ANY_PID), struct.pack("I", pid)))

    def install(self) -> None:
        """Confine the calling thread, and all it starts, to the filter. Needs no_new_privs; cannot be undone."""
        self._call()
