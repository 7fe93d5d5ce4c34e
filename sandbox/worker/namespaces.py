"""Namespaces of a worker: no network, its own PIDs, a root of read-only libraries and a small /tmp.

Entered once per worker. As root, plain namespaces; otherwise inside a user namespace. Every candidate then gets a PID
namespace of its own, nested in the worker's, so that killing it kills all it started.
"""

import glob
import os
from collections.abc import Sequence

from . import kernel

TMP_BYTES = 16 << 20
TMP_INODES = 1024
_INNER_ID = 1000  # of the one mapped user in a user namespace; not 0, which some programs treat specially
SYSTEM_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
EVERYTHING = kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC | kernel.CLONE_NEWPID | kernel.CLONE_NEWNET


def library_paths() -> list[str]:
    """Directories and files that a Python program needs to read: shared libraries, the standard library, time zones."""
    stdlib = os.path.dirname(os.__file__)
    paths = [*SYSTEM_LIBRARIES, "/usr/share/zoneinfo", os.path.dirname(stdlib), *_DEVICES]
    with open("/proc/self/maps") as maps:
        libraries = {
            line.split(maxsplit=5)[5].strip() for line in maps if line.rstrip().endswith(".so") or ".so." in line
        }
    paths += sorted(os.path.dirname(library) for library in libraries if library.startswith("/"))
    kept: list[str] = []
    for path in paths:
        real = os.path.realpath(path)
        if os.path.exists(real) and not any(real == other or real.startswith(other + "/") for other in kept):
            kept.append(real)
    return kept


def package_paths() -> list[str]:
    """Where interpreters below the library paths keep installed packages: no program needs or should see them."""
    paths_of = (
        glob.glob(f"{path}/{pattern}")
        for path in library_paths()
        for pattern in ("site-packages", "dist-packages", "python*/site-packages", "python*/dist-packages")
    )
    return sorted({os.path.realpath(path) for paths in paths_of for path in paths})


def without(paths: list[str], hidden: list[str]) -> list[str]:
    """Paths that together cover all that is below `paths`, except what is hidden."""
    kept = []
    for path in paths:
        if path in hidden:
            continue
        if any(other.startswith(path + "/") for other in hidden):
            kept += without([entry.path for entry in os.scandir(path) if not entry.is_symlink()], hidden)
        else:
            kept.append(path)
    return kept


def enter_user_namespace() -> None:
    """Enter all namespaces, within a new user namespace that maps only the caller. Raises OSError if refused."""
    uid, gid = os.geteuid(), os.getegid()
    kernel.call("unshare", kernel.CLONE_NEWUSER | EVERYTHING)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{_INNER_ID} {uid} 1"),
        ("gid_map", f"{_INNER_ID} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _place_for_root(sources: list[str]) -> str:
    """An existing directory to mount the new root on, that hides none of the sources."""
    for place in ("/mnt", "/media", "/srv", "/opt", "/run", "/tmp", "/var/tmp"):
        if os.path.isdir(place) and not any((source + "/").startswith(place + "/") for source in sources):
            return place
    raise FileNotFoundError(2, "no directory to mount the new root on", "/mnt")


def inside(package: str) -> str:
    """Where a package's folder is in the new root, which does not reveal where it is on the machine."""
    return f"/packages/{os.path.basename(package)}"


def enter_new_root(packages: Sequence[str] = ()) -> None:
    """Make the root a read-only tmpfs with the libraries bound into it, and drop the old root.

    packages: folders that are bound, too, where inside() says. Raises OSError if mounting is refused; the process then
    still sees the old root.
    """
    sources = library_paths()
    place = _place_for_root([*sources, *packages])
    # Mounts made here must not propagate back to the machine.
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", place, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=1m,nr_inodes=1k,mode=755")
    for source in sources:
        target = place + source
        if os.path.isdir(source):
            _bind(source, target)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
            kernel.mount(source, target, None, kernel.MS_BIND)
            kernel.make_read_only(target, is_device=True)  # it can still be written to, but keeps its mode and times
    for package in packages:
        _bind(package, place + inside(package))
    flags = kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV
    for path in package_paths():
        kernel.mount("tmpfs", place + path, "tmpfs", flags, "size=4k,mode=000")
    for link in ("/lib", "/lib64", "/usr/lib64"):
        if os.path.islink(link) and not os.path.lexists(place + link):
            os.makedirs(os.path.dirname(place + link), exist_ok=True)
            os.symlink(os.readlink(link), place + link)
    for name in ("/tmp", "/proc"):
        os.makedirs(place + name, exist_ok=True)
    os.symlink("/tmp", f"{place}/dev/shm")  # for the locks of multiprocessing, which threads may share
    os.chdir(place)
    kernel.pivot_root_here()
    kernel.mount(
        None, "/", None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV
    )
    mount_tmp()


def _bind(source: str, target: str) -> None:
    os.makedirs(target, exist_ok=True)
    kernel.mount(source, target, None, kernel.MS_BIND | kernel.MS_REC)
    kernel.make_read_only(target)


def mount_tmp() -> None:
    """Mount an empty, size-limited /tmp, whose modification time is 0 until it is written to."""
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC | kernel.MS_NOATIME | kernel.MS_NODIRATIME
    kernel.mount("tmpfs", "/tmp", "tmpfs", flags, f"size={TMP_BYTES},nr_inodes={TMP_INODES},mode=1777")
    os.utime("/tmp", (0, 0))


def renew_tmp(belongs_to_candidates: bool) -> bool:
    """Replace /tmp if anything was ever written to it, even if it is empty again; True if it was replaced.

    Candidates that own it could set its time back, so then it is always replaced. The system-call filter sees to it
    that none can make a file without a name or ask for the time of birth.
    """
    if not belongs_to_candidates and os.stat("/tmp").st_mtime_ns == 0:
        return False
    kernel.unmount("/tmp")
    mount_tmp()
    return True
