"""Thin wrappers over the Linux calls that Python does not offer. Every failure is an OSError that names the call."""

import ctypes
import os
import struct

from . import syscalls

libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_NOATIME, MS_NODIRATIME = 1024, 2048
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38

_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_LINUX_CAPABILITY_VERSION_3 = 0x20080522


def call(name: str, *args: int | bytes) -> int:
    """What a raw system call returns that both machines have. Bytes are passed by their address. Raises OSError."""
    number = syscalls.number(name)
    assert number is not None
    pointers = [arg if isinstance(arg, bytes) else ctypes.c_void_p(arg) for arg in args]
    return _checked(name, libc.syscall(ctypes.c_long(number), *pointers))


def _checked(name: str, result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return result


def prctl(option: int, value: int) -> None:
    """prctl(option, value, 0, 0, 0)."""
    _checked(f"prctl({option})", libc.prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0))))


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """mount(2)."""
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    _checked(f"mount {target}", libc.mount(*encoded[:3], ctypes.c_ulong(flags), encoded[3]))


def unmount(target: str) -> None:
    """Detach a mount: at once for new users, completely when the last user is gone."""
    _checked(f"umount {target}", libc.umount2(os.fsencode(target), MNT_DETACH))


def make_read_only(path: str, is_device: bool = False) -> None:
    """Make a mount, with all mounts below it, read-only, nosuid and, unless it is a device itself, nodev.

    mount_setattr only adds flags, so it also works in a user namespace, where a plain remount must repeat the flags
    that the parent locked; older kernels (before 5.12) get that remount, of the top mount alone.
    """
    attributes = struct.pack("QQQQ", 0x1 | 0x2 | (0 if is_device else 0x4), 0, 0, 0)
    try:
        call("mount_setattr", _AT_FDCWD, os.fsencode(path), _AT_RECURSIVE, attributes, len(attributes))
    except OSError:
        locked = os.statvfs(path).f_flag & (MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME)
        nodev = 0 if is_device else MS_NODEV
        mount(None, path, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | nodev | locked)


def pivot_root_here() -> None:
    """Make the current directory, a mount point, the root, and drop the old root."""
    call("pivot_root", b".", b".")
    unmount(".")
    os.chdir("/")


def drop_capabilities() -> None:
    """Clear the effective, permitted and inheritable capability sets."""
    call("capset", struct.pack("II", _LINUX_CAPABILITY_VERSION_3, 0), bytes(6 * 4))
