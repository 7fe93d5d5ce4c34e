"""A run directory at an fsspec URL, of which every machine that works on the run has a local copy.

Covered: the path of the copy, uploads, downloads and their errors. Not covered: when they happen (ares/store/store.py),
and what stays in the copy: Prefect's kept results, MLflow's default database.

While a process holds the run, other machines are kept out: by a lease where the store has conditional writes
(ares/store/lease.py), by a lock on a file system; anywhere else a warning says that nothing keeps them out.

    s3://bucket/runs/first       ~/.cache/ares/runs/s3/bucket/runs/first
    file:///mnt/shared/first     ~/.cache/ares/runs/file/_/mnt/shared/first
"""

import fcntl
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import tokenize

from ares.store.conditional import CONDITIONAL
from ares.store.errors import ObjectChanged, StoreError, told
from ares.store.lease import FENCE, Lease, new_writer
from ares.store.lock import held

logger = logging.getLogger(__name__)
BROUGHT = ("run.json", "COMMIT.json")
"""Files that are downloaded when a run is opened; the others when they are read."""
COMMIT = "COMMIT.json"
REPLACEMENTS = 10
"""How often an object may change while the holder writes it: by late writes of earlier holders."""
ROOT = "_"
"""Stands in a path for the empty host of a URL like file:///mnt."""


def path_of(address: str) -> Path:
    """The path of an address: for a URL that of its copy on this machine. Raises StoreError."""
    protocol, separator, rest = address.partition("://")
    if not separator:
        return Path(address)
    first, *others = rest.rstrip("/").split("/")
    parts = [protocol, first or ROOT, *others]
    if any(part in ("", ".", "..") for part in parts) or (not first and not others):
        raise StoreError(f"{address}: not the URL of a directory (examples: s3://bucket/runs, file:///mnt/runs)")
    return _copies().joinpath(*parts)


def mirror_of(directory: Path) -> "Mirror | None":
    """The mirror that a directory is the copy of; None for an ordinary directory. Raises StoreError."""
    place, copies = directory.absolute(), _copies()
    # A fork under construction is uploaded when it is complete.
    if not place.is_relative_to(copies) or place.name.endswith(".partial"):
        return None
    protocol, first, *others = place.relative_to(copies).parts
    return Mirror(f"{protocol}://{'/'.join(['' if first == ROOT else first, *others])}", place)


def _copies() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")).absolute() / "ares" / "runs"


class Mirror:
    """A directory at a URL and its copy here. Paths are relative to it; every method raises StoreError."""

    def __init__(self, url: str, copy: Path) -> None:
        self.url = url
        self.copy = copy
        self._notes = copy.with_name(f".{copy.name}.copied")
        with self._told("", "used"):
            # Unlike other file systems with folders, this one must be told to make missing ones.
            self.system, root = url_to_fs(url, **({"auto_mkdir": True} if url.startswith("file:") else {}))
        self.root = root.rstrip("/")
        self.writer = new_writer()
        conditional = CONDITIONAL.get(url.partition("://")[0])
        self._objects = None if conditional is None else conditional(self.system, url)
        self._lease: Lease | None = None

    def act_for(self, writer: str) -> None:
        """Write on behalf of another process, which holds the run."""
        self.writer = writer
        if self._objects is not None:
            self._lease = Lease(self._objects, self.url, writer)

    @contextmanager
    def held(self, copy_id: str) -> Iterator[None]:
        """Hold the run at the URL. Raises StoreError if another machine holds it."""
        if self._objects is not None:
            self._lease = Lease(self._objects, self.url, self.writer, copy_id)
            try:
                with self._lease.held():
                    yield
            finally:
                self._lease = None
        elif isinstance(self.system, LocalFileSystem):
            with ExitStack() as lock:
                with self._told("lock", "written"):
                    lock.enter_context(held(Path(self.root)))
                yield
        else:
            logger.warning("%s: nothing keeps two machines from training this run at once: no lease is known for "
                           "such a store", self.url)  # fmt: skip
            yield

    def put(self, files: dict[str, Path]) -> None:
        """Upload files to the paths that are their keys."""
        if not files:
            return
        if self._lease is not None:
            for path, file in files.items():
                self._put_held(path, file, self._lease)
            return
        targets = [self._at(path) for path in files]
        sources = [str(file) for file in files.values()]
        with self._told(os.path.commonpath(files), "written"):
            if not isinstance(self.system, LocalFileSystem):
                self.system.put(sources, targets)  # an object is whole or absent
                return
            mark = f"{self.root}/.{os.getpid()}-{threading.get_ident()}"
            partial = [f"{mark}-{number}.partial" for number in range(len(targets))]
            try:
                self.system.put(sources, partial)
                for written, target in zip(partial, targets, strict=True):
                    self.system.mv(written, target)
            finally:
                for left in partial:
                    with suppress(OSError):
                        self.system.rm(left)

    def _put_held(self, path: str, file: Path, lease: Lease) -> None:
        assert self._objects is not None
        if PurePosixPath(path).name == COMMIT:
            lease.announce(path)
        seen: str | None = None
        for _ in range(REPLACEMENTS):
            try:
                self._objects.upload(path, file, seen)
                return
            except ObjectChanged:
                # In this order: a machine that takes the run over after `confirm` changes the objects it writes.
                seen = self._objects.stamp(path)
                lease.confirm()
                if self._objects.holds(path, file):
                    return  # the answer to this write was lost
        raise StoreError(f"{self.url}/{path}: changes again and again while it is written")

    def replace(self, path: str, files: dict[str, Path]) -> None:
        """Upload a folder's files and delete whatever else is in it."""
        if self._lease is None:
            self.remove(path)
        self.put(files)
        if self._lease is not None:
            for other in self._listed(path).keys() - files.keys():
                self.remove(other)

    def remove(self, path: str) -> None:
        """Delete a file or folder there, if there is one."""
        if self._lease is not None:
            self._lease.confirm()
        with self._told(path, "deleted"), suppress(FileNotFoundError):
            self.system.rm(self._at(path), recursive=True)

    def names(self, path: str) -> set[str]:
        """Names of the files and folders in a folder there."""
        self.system.invalidate_cache()
        with self._told(path, "listed"), suppress(FileNotFoundError):
            return {PurePosixPath(entry).name for entry in self.system.ls(self._at(path), detail=False)}
        return set()

    def sizes(self, path: str) -> dict[str, int]:
        """Bytes of the files below a path there, by their paths."""
        return {name: info["size"] for name, info in self._listed(path).items()}

    def bring(self, path: str) -> None:
        """Download files that are missing here or differ in size. Hold `transfer` meanwhile."""
        files = self._listed(path)
        self._download(path, [name for name, info in files.items() if self._size_here(name) != info["size"]])

    def refresh(self, held: Callable[[], bool]) -> None:
        """Download run.json and the commits, and delete those here that are gone there.

        Does nothing while a process of this machine has the run `held`: whatever that wrote here is there already.
        """
        if held():
            return
        with self.transfer() as notes:
            files = self._listed("")
            there = {name: tokenize(info) for name, info in files.items() if PurePosixPath(name).name in BROUGHT}
            known = _read(notes)
            missing = [name for name in there if self._size_here(name) is None]
            changed = [name for name, stamp in there.items() if known.get(name) != stamp]
            if held():
                return
            self._download("", sorted({*missing, *changed}))
            for file in [file for name in BROUGHT for file in self.copy.rglob(name)]:
                name = file.relative_to(self.copy).as_posix()
                # Ask again: it may have been uploaded since the listing, and uploads come before local writes.
                if name not in there and not self._listed(name):
                    file.unlink(missing_ok=True)
            notes.seek(0)
            notes.truncate()
            notes.write(json.dumps(there))

    @contextmanager
    def transfer(self) -> Iterator[Any]:
        """Keep other processes of this machine from downloading at the same time; yields the record of downloads."""
        try:
            self.copy.parent.mkdir(parents=True, exist_ok=True)
            notes = self._notes.open("a+")
        except OSError as error:
            raise StoreError(f"{self._notes}: the copy of {self.url} cannot be written: {error.strerror}") from error
        with notes:
            fcntl.flock(notes, fcntl.LOCK_EX)
            yield notes

    def _listed(self, path: str) -> dict[str, dict[str, Any]]:
        """Every file below a path there, by its path."""
        self.system.invalidate_cache()
        with self._told(path, "listed"), suppress(FileNotFoundError):
            files = self.system.find(self._at(path), detail=True)
            objects = {str(name).removeprefix(f"{self.root}/"): info for name, info in files.items()}
            return {name: info for name, info in objects.items() if not _is_fence(name, info)}
        return {}

    def _download(self, path: str, names: list[str]) -> None:
        if not names:
            return
        targets = [self.copy / name for name in names]
        partial = [target.with_name(f".{target.name}.{os.getpid()}.partial") for target in targets]
        try:
            with self._told(path, "read"):
                for target in targets:
                    target.parent.mkdir(parents=True, exist_ok=True)
                self.system.get([self._at(name) for name in names], [str(file) for file in partial])
                for file, target in zip(partial, targets, strict=True):
                    os.replace(file, target)
        finally:
            for file in partial:
                file.unlink(missing_ok=True)

    def _size_here(self, name: str) -> int | None:
        file = self.copy / name
        return file.stat().st_size if file.is_file() else None

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def _told(self, path: str, done: str) -> AbstractContextManager[None]:
        return told(f"{self.url}/{path}" if path else self.url, done)


def _is_fence(name: str, info: dict[str, Any]) -> bool:
    return PurePosixPath(name).name == COMMIT and bool(info["size"] < FENCE)


def _read(notes: Any) -> dict[str, str]:
    notes.seek(0)
    try:
        return dict(json.loads(notes.read()))
    except ValueError:
        return {}
