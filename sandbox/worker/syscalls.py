"""System-call numbers of the two supported machines, and the calls a judged program may make.

The numbers are those of the kernel's `unistd.h` (x86-64 and the generic table that aarch64 uses); None where a machine
lacks the call. Anything not in ALLOWED, OF_OWN_FILES or CONDITIONAL fails with EPERM.
"""

import functools
import os

Numbers = dict[str, tuple[int | None, int | None]]
"""name: (x86-64, aarch64)"""
ALLOWED: Numbers = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "stat": (4, None), "fstat": (5, 80),
    "lstat": (6, None), "newfstatat": (262, 79), "poll": (7, None), "ppoll": (271, 73),
    "lseek": (8, 62), "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214),
    "mremap": (25, 216), "madvise": (28, 233), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136), "rt_sigtimedwait": (128, 137), "sigaltstack": (131, 132),
    "pread64": (17, 67), "pwrite64": (18, 68), "readv": (19, 65), "writev": (20, 66), "access": (21, None),
    "faccessat": (269, 48), "faccessat2": (439, 439), "pipe": (22, None), "pipe2": (293, 59), "select": (23, None),
    "pselect6": (270, 72), "sched_yield": (24, 124), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24),
    "pause": (34, None), "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "getitimer": (36, 102),
    "setitimer": (38, 103), "alarm": (37, None), "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173),
    "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "exit": (60, 93),
    "exit_group": (231, 94), "wait4": (61, 260), "uname": (63, 160), "fsync": (74, 82), "fdatasync": (75, 83),
    "ftruncate": (77, 46), "getdents": (78, None), "getdents64": (217, 61), "getcwd": (79, 17), "chdir": (80, 49),
    "rename": (82, None), "renameat": (264, 38), "mkdir": (83, None), "mkdirat": (258, 34), "rmdir": (84, None),
    "unlink": (87, None), "unlinkat": (263, 35), "readlink": (89, None), "readlinkat": (267, 78), "symlink": (88, None),
    "symlinkat": (266, 36), "msync": (26, 227), "statfs": (137, 43), "fstatfs": (138, 44), "umask": (95, 166),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153), "clock_gettime": (228, 113),
    "clock_getres": (229, 114), "getrlimit": (97, 163), "getrusage": (98, 165), "sysinfo": (99, 179),
    "arch_prctl": (158, None), "futex": (202, 98), "set_robust_list": (273, 99), "set_tid_address": (218, 96),
    "restart_syscall": (219, 128), "rseq": (334, 293), "membarrier": (324, 283), "getcpu": (309, 168),
    "sched_getaffinity": (204, 123), "getrandom": (318, 278), "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21), "epoll_wait": (232, None), "epoll_pwait": (281, 22), "eventfd2": (290, 19),
    "recvfrom": (45, 207), "getsockname": (51, 204), "shutdown": (48, 210),
}  # fmt: skip
OF_OWN_FILES: Numbers = {  # allowed where a program has files of its own
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "utimensat": (280, 88),
    "truncate": (76, 45), "link": (86, None), "linkat": (265, 37),
}  # fmt: skip
CONDITIONAL: Numbers = {  # on their arguments, or only for the checker: seccomp.py
    "open": (2, None), "openat": (257, 56), "statx": (332, 291),
    "recvmsg": (47, 212), "socketpair": (53, 199), "sendto": (44, 206), "clone": (56, 220), "clone3": (435, 435),
    "ioctl": (16, 29), "fcntl": (72, 25), "prlimit64": (302, 261), "kill": (62, 129), "tkill": (200, 130),
    "tgkill": (234, 131), "flock": (73, 32), "listxattr": (194, 11), "llistxattr": (195, 12), "flistxattr": (196, 13),
}  # fmt: skip
WORKER_ONLY: Numbers = {  # before it confines a process, never afterwards
    "landlock_create_ruleset": (444, 444), "landlock_add_rule": (445, 445), "landlock_restrict_self": (446, 446),
    "seccomp": (317, 277), "mount_setattr": (442, 442), "pivot_root": (155, 41), "setns": (308, 268),
    "unshare": (272, 97), "setgroups": (116, 159), "setresuid": (117, 147), "setresgid": (119, 149),
    "capset": (126, 91), "io_uring_setup": (425, 425), "io_uring_register": (427, 427),
}  # fmt: skip
NUMBERS = ALLOWED | OF_OWN_FILES | CONDITIONAL | WORKER_ONLY

# Machine name as `uname -m` says it: (column of NUMBERS, AUDIT_ARCH constant that a filter sees).
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7), "arm64": (1, 0xC00000B7)}


def machine() -> tuple[int, int]:
    """Column of NUMBERS and AUDIT_ARCH of this machine. Raises OSError unless x86-64 or aarch64."""
    name = os.uname().machine
    if name not in _MACHINES:
        raise OSError(f"no system-call table for machine {name!r} (known: x86_64, aarch64)")
    return _MACHINES[name]


@functools.cache
def number(name: str, column: int | None = None) -> int | None:
    """The number of a system call on this machine (or in the given column), None where the machine lacks it."""
    return NUMBERS[name][machine()[0] if column is None else column]
