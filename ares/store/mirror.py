"""A run directory at an fsspec URL, of which every machine that works on the run has a local copy.

Covered: the path of the copy, uploads, downloads and their errors. Not covered: when they happen (ares/store/store.py),
and MLflow's default database, which stays beside the copy.

While a process holds the run, other machines are kept out: by a lease where the store has conditional writes
(ares/store/lease.py), by a lock on a file system; anywhere else a warning says that nothing keeps them out.

    at the URL                                  the copy of a machine
    s3://bucket/runs/first                      ~/.cache/ares/runs/s3/bucket/runs/first
    file:///mnt/shared/first                    ~/.cache/ares/runs/file/_/mnt/shared/first

    run.json, COMMIT.json of each step    ──▶   when a run is opened: those that changed      (`refresh`)
    artifacts, phases.jsonl               ──▶   when they are read: those that differ here    (`bring`)
    whatever is written                   ◀──   first to the URL, then under its name here    (`put`, `replace`)
"""

import fcntl
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, TextIO
from uuid import uuid4

from fsspec.core import url_to_fs
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import tokenize

from ares.printable import without_credentials
from ares.store.commits import unsealed
from ares.store.errors import DamagedArtifact, StoreError, told
from ares.store.files import files_in, fsync
from ares.store.lease import COMMIT, PROTOCOLS, Lease
from ares.store.lock import held

logger = logging.getLogger(__name__)
BROUGHT = ("run.json", COMMIT)
"""Files that are downloaded when a run is opened; the others when they are read."""
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
    if ":" in first.rpartition("@")[0]:
        shown, variable = without_credentials(address), f"FSSPEC_{protocol.upper()}_PASSWORD"
        raise StoreError(f"{shown}: a password in the address would be seen in paths and logs; set {variable} instead")
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
        self.writer = uuid4().hex
        """A name for this process and its actors in the lease."""
        self._protocol = url.partition("://")[0]
        with told(url, "used"):
            # Unlike other file systems with folders, this one must be told to make missing ones.
            system, self._root = url_to_fs(url, **({"auto_mkdir": True} if self._protocol == "file" else {}))
        self._system = DirFileSystem(self._root, system, skip_instance_cache=True)
        self._is_local = isinstance(system, LocalFileSystem)
        self._lease: Lease | None = None

    def act_for(self, writer: str) -> None:
        """Write on behalf of another process, which holds the run."""
        self.writer = writer
        if self._protocol in PROTOCOLS:
            self._lease = Lease(self._system, self.url, writer)

    @contextmanager
    def held(self, copy_id: str) -> Iterator[None]:
        """Hold the run at the URL. Raises StoreError if another machine holds it."""
        with ExitStack() as holding:
            if self._protocol in PROTOCOLS:
                self._lease = Lease(self._system, self.url, self.writer, copy_id)
                holding.callback(setattr, self, "_lease", None)
                holding.enter_context(self._lease.held())
            elif self._is_local:
                with told(f"{self.url}/lock", "written"):
                    holding.enter_context(held(Path(self._root)))
            else:
                logger.warning("%s: nothing keeps two machines from training this run at once: no lease is known for "
                               "such a store", self.url)  # fmt: skip
            yield

    def put(self, files: dict[str, Path]) -> None:
        """Upload files to the paths that are their keys."""
        if self._lease is not None:
            for path, file in files.items():
                self._lease.put(path, file)
        elif self._is_local:
            for path, file in files.items():
                partial = f".{uuid4().hex}.partial"
                with told(f"{self.url}/{path}", "written"):
                    try:
                        self._system.put_file(str(file), partial)
                        fsync(Path(self._root, partial))
                        self._system.mv(partial, path)
                        fsync(Path(self._root, path).parent)
                    except OSError:
                        with suppress(OSError):
                            self._system.rm_file(partial)
                        raise
        elif files:  # an object is whole or absent
            with told(f"{self.url}/{os.path.commonpath(files)}", "written"):
                self._system.put([str(file) for file in files.values()], list(files))

    def replace(self, path: str, files: dict[str, Path]) -> None:
        """Upload a folder's files and delete whatever else is in it."""
        self.put(files)
        for other in self._list_files(path).keys() - files.keys():
            self.remove(other)

    def remove(self, path: str) -> None:
        """Delete a file or folder there, if there is one."""
        if self._lease is not None:
            self._lease.confirm()
        with told(f"{self.url}/{path}", "deleted"), suppress(FileNotFoundError):
            self._system.rm(path, recursive=True)

    def names(self, path: str) -> set[str]:
        """Names of the files and folders in a folder there."""
        self._system.invalidate_cache()
        with told(f"{self.url}/{path}", "listed"), suppress(FileNotFoundError):
            return {PurePosixPath(entry).name for entry in self._system.ls(path, detail=False)}
        return set()

    def sizes(self, path: str) -> dict[str, int]:
        """Bytes of the files below a path there, by their paths."""
        return {name: info["size"] for name, info in self._list_files(path).items()}

    def bring(self, path: str, anew: bool = False) -> None:
        """Download files that are missing here or differ in size; anew: all of them, leaving no others here."""
        sizes = self.sizes(path)
        here = {file.relative_to(self.copy).as_posix(): file for file in files_in(self.copy / path) if file.exists()}
        for name in here.keys() - sizes.keys() if anew else ():
            here[name].unlink()
        self._download([name for name in sizes if anew or name not in here or here[name].stat().st_size != sizes[name]])

    def refresh(self, held: Callable[[], bool]) -> None:
        """Download run.json and the commits, and delete those here that are gone there.

        Does nothing while a process of this machine has the run `held`: whatever that wrote here is there already.
        """
        place = self.copy.with_name(f".{self.copy.name}.copied")
        with told(f"{self.url}, of which {self.copy} is the copy,", "read"):
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("a+") as notes:
                fcntl.flock(notes, fcntl.LOCK_EX)  # one process at a time; the file says what was downloaded
                if not held():
                    self._bring_opened(notes)

    def _bring_opened(self, notes: TextIO) -> None:
        files = self._list_files("")
        there = {name: tokenize(info) for name, info in files.items() if PurePosixPath(name).name in BROUGHT}
        notes.seek(0)
        try:
            known = dict(json.loads(notes.read()))
        except ValueError:  # none yet, or half written
            known = {}
        self._download([name for name in there if known.get(name) != there[name] or not (self.copy / name).exists()])
        for file in [file for name in BROUGHT for file in self.copy.rglob(name)]:
            name = file.relative_to(self.copy).as_posix()
            # Ask again: it may have been uploaded since the listing, and uploads come before local writes.
            if name not in there and not self._list_files(name):
                file.unlink(missing_ok=True)
        notes.truncate(0)
        notes.write(json.dumps(there))

    def _list_files(self, path: str) -> dict[str, dict[str, Any]]:
        """Every file below a path there, by its path."""
        self._system.invalidate_cache()
        with told(f"{self.url}/{path}", "listed"), suppress(FileNotFoundError):
            return dict(self._system.find(path, detail=True))
        return {}

    def _download(self, names: list[str]) -> None:
        partial = {name: self.copy / f".{uuid4().hex}.partial" for name in names}
        try:
            with told(self.url, "read"):
                if names:
                    self._system.get(list(partial), [str(file) for file in partial.values()])
                for name, file in partial.items():
                    target = self.copy / name
                    if target.name in BROUGHT and _is_damaged(file) and target.exists():
                        logger.warning("%s/%s is damaged there; this machine goes on with %s", self.url, name, target)
                        continue
                    target.parent.mkdir(parents=True, exist_ok=True)
                    fsync(file)
                    os.replace(file, target)
        finally:
            for file in partial.values():
                file.unlink(missing_ok=True)


def _is_damaged(file: Path) -> bool:
    """Whether a run.json or a commit is not what was written, as after a power failure."""
    try:
        unsealed(file.read_bytes(), file)
    except StoreError as error:  # another one: of a newer version of ares
        return isinstance(error, DamagedArtifact)
    return False
