"""The run directory: artifacts that are whole or absent, and the chain of commits.

Covered: atomic writes (temporary name, rename; a commit syncs what it names), content hashes, rows as parquet, folders
that a caller fills, `run.json`, `COMMIT.json`, the lock that keeps a second process out; for the copy of a run at a
URL, the upload before every local write. Not covered: how to upload (ares/store/mirror.py), what artifacts mean
(tasks/), results of phases (ares/store/sealed_lines.py).

    runs/<run>/run.json                    resolved configuration, fingerprint, code version, MLflow run
    runs/<run>/bootstrap/…                 the pass over the train set
    runs/<run>/steps/000012/…              artifacts of step 12
    runs/<run>/steps/000012/phases.jsonl   what its phases have found
    runs/<run>/steps/000012/COMMIT.json    hashes of them, metrics, and the whole run state after the step
    runs/<run>/checkpoints/000020/…        weights and optimiser after step 20
"""

import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from ares.store.commits import Commit, Fork, Ref, sealed, unsealed
from ares.store.errors import DamagedArtifact, StoreError, told
from ares.store.files import files_in, fsync, remove_tree, tree_hash
from ares.store.lease import LEASE
from ares.store.lock import LOCK, held, is_held
from ares.store.mirror import mirror_of
from ares.store.sealed_lines import MEMO_FILE, Memo

logger = logging.getLogger(__name__)
_WRITING_RUN = threading.Lock()
HALF_PUBLISHED = ".published.partial"
"""Is at the URL as long as a run that was put together elsewhere is incomplete there."""
SYNCING = 16
"""Files that are synced at a time: a disk flushes many in the time of one."""


class RunStore:
    """The files of one run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.name = directory.name
        self.mirror = mirror_of(directory)
        self._is_fresh = self.mirror is None
        self._holds = False
        """Whether this store has the lock."""
        self._links: dict[int, tuple[tuple[int, ...], str | None, str]] = {}
        """By step, of commits that were read: the file's stamp, parent, digest."""
        self._tables: dict[Ref, pa.Table] = {}
        """Tables of the steps under way."""
        self._memos: dict[int, Memo] = {}

    @property
    def address(self) -> str:
        """Where actors find the run: its URL, else its path."""
        return str(self.directory.absolute()) if self.mirror is None else self.mirror.url

    @property
    def writer(self) -> str:
        """The name of this process and its actors in the lease of a run at a URL; else empty."""
        return "" if self.mirror is None else self.mirror.writer

    def act_for(self, writer: str) -> None:
        """Write on behalf of the process that holds the run."""
        if writer and self.mirror is not None:
            self.mirror.act_for(writer)

    # ---- artifacts -------------------------------------------------------------------------------------------------

    def write_json(self, path: str, value: Any, sort_keys: bool = True) -> Ref:
        """Write a JSON file, which survives a power failure from here on: it says what there is."""
        text = json.dumps(value, indent=1, sort_keys=sort_keys, allow_nan=False)
        return self.write_file(path, lambda target: target.write_text(text), synced=True)

    def write_rows(self, path: str, rows: pd.DataFrame) -> Ref:
        """Write a table as parquet; of a step under way, it stays in memory for `read_rows`, until `forget`."""
        table = pa.Table.from_pandas(rows, preserve_index=False)
        ref = self.write_file(path, lambda target: pq.write_table(table, target, compression="zstd"))
        self._keep(ref, table)
        return ref

    def write_file(self, path: str, make: Callable[[Path], object], synced: bool = False) -> Ref:
        """Write a file or folder: `make` writes it under the temporary name it is given. synced: to disk, at once."""
        target = self.directory / path
        temporary = target.with_name(f".{target.name}.{os.getpid()}.partial")
        with told(target, "written"), ExitStack() as ending:
            target.parent.mkdir(parents=True, exist_ok=True)
            remove_tree(temporary)
            ending.callback(remove_tree, temporary)  # left only if something failed
            make(temporary)
            digest = tree_hash(temporary)
            assert digest is not None
            size = sum(file.stat().st_size for file in files_in(temporary))
            if synced:
                fsync(temporary)
            self._upload(path, temporary)
            if temporary.is_dir():
                remove_tree(target)
            os.replace(temporary, target)
            if synced:
                self._sync([target])
        return Ref(path=path, sha256=digest, bytes=size)

    def write_folder(self, path: str, fill: Callable[[Path], None]) -> Ref:
        """Write a folder: `fill` puts the files into the temporary folder it is given."""

        def make(target: Path) -> None:
            target.mkdir()
            fill(target)

        return self.write_file(path, make)

    def read_rows(self, ref: Ref) -> pd.DataFrame:
        """Read a table artifact; of a step under way, once. Raises DamagedArtifact."""
        table = self._tables.get(ref)
        if table is None:
            table = pq.read_table(self.path(ref))
            self._keep(ref, table)
        return table.to_pandas()

    def _keep(self, ref: Ref, table: pa.Table) -> None:
        """Keep a table in memory if its step is under way."""
        if any(ref.path.startswith(f"{self.step_path(step)}/") for step in self._memos):
            self._tables[ref] = table

    def forget(self, step: int) -> None:
        """Drop the tables of a step, and what its phases have found, from memory."""
        folder = f"{self.step_path(step)}/"
        self._tables = {ref: table for ref, table in self._tables.items() if not ref.path.startswith(folder)}
        self._memos.pop(step, None)

    def path(self, ref: Ref) -> Path:
        """Where an artifact is, its content checked. Raises DamagedArtifact."""
        path, digest = self.directory / ref.path, self._hash(ref)
        if digest != ref.sha256:
            what = "is missing" if digest is None else "has changed since it was written"
            raise DamagedArtifact(f"{path} {what} (expected sha256 {ref.sha256[:12]}…)")
        return path

    def intact(self, refs: list[Ref]) -> bool:
        """Whether every artifact is there with the content that was written."""
        return all(self._hash(ref) == ref.sha256 for ref in refs)

    def here(self, path: str) -> Path:
        """The path of a file or folder of the run, downloaded if needed; for what has no Ref."""
        if self.mirror is not None:
            self.mirror.bring(path)
        return self.directory / path

    def children(self, path: str) -> set[Path]:
        """Files and folders in a folder of the run, including those that are only at the URL."""
        folder = self.directory / path
        here = set(folder.iterdir()) if folder.is_dir() else set()
        return here if self.mirror is None else here | {folder / name for name in self.mirror.names(path)}

    def discard(self, ref: Ref) -> None:
        """Delete an artifact that nothing refers to."""
        self.remove(self.directory / ref.path)

    def remove(self, path: Path) -> None:
        """Delete a file or folder of the run. Raises StoreError."""
        if self.mirror is not None:
            self.mirror.remove(self.name_of(path))
        with told(path, "deleted"):
            remove_tree(path)

    def name_of(self, path: Path) -> str:
        """The name at the URL of a file or folder of the run; of the run itself the empty one."""
        return "/".join(path.relative_to(self.directory).parts)

    def delete(self) -> None:
        """Delete the run. Raises StoreError when it is being trained."""
        with self.lock():
            self.remove(self.directory)

    def publish(self) -> None:
        """Sync the name of a run that was put together here, and upload it, run.json last. Raises StoreError."""
        fsync(self.directory.parent)
        if self.mirror is None:
            return
        own = (file for file in files_in(self.directory) if file != self.directory / LOCK)
        files = sorted(own, key=lambda file: file.name == "run.json")
        with held(self.directory), self.mirror.held(self._copy_id()):
            mark = self.write_json(HALF_PUBLISHED, {})
            for file in files:
                self._upload(self.name_of(file), file)
            self.discard(mark)

    def is_half_published(self) -> bool:
        """Whether `publish` was killed: there is no such run then, only leftovers here and at the URL."""
        if self.mirror is None or self.exists():
            return False
        there = self.mirror.names("")
        return HALF_PUBLISHED in there or (self.directory.exists() and there <= {LOCK, LEASE})

    def _hash(self, ref: Ref) -> str | None:
        """Hash of an artifact as it is, downloaded first if what is here differs."""
        path = self.directory / ref.path
        digest = tree_hash(path)
        if self.mirror is not None and digest != ref.sha256:
            self.mirror.bring(ref.path, anew=True)
            digest = tree_hash(path)
        return digest

    def _upload(self, path: str, content: Path) -> None:
        if self.mirror is not None:
            files = {(Path(path) / file.relative_to(content)).as_posix(): file for file in files_in(content)}
            if content.is_dir():
                self.mirror.replace(path, files)
            else:
                self.mirror.put(files)

    def _sync(self, paths: Iterable[Path]) -> None:
        """Flush files and folders to disk, with everything in them and the folders that name them. Raises OSError."""
        inside = [each for path in paths for each in (path, *path.rglob("*")) if each.exists()]
        above = [folder for path in inside for folder in path.parents if folder.is_relative_to(self.directory.parent)]
        with ThreadPoolExecutor(SYNCING) as threads:
            list(threads.map(fsync, dict.fromkeys([*inside, *above])))

    def flush(self) -> None:
        """Flush the whole directory to disk. Raises OSError."""
        self._sync([self.directory])

    # ---- the run and its commits -----------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether the run was started before."""
        return (self._opened / "run.json").exists()

    def write_run(self, description: dict[str, Any]) -> None:
        """Write run.json, in the order of its settings: that of a mixture's sources is the order of its rows."""
        self.write_json("run.json", sealed(description), sort_keys=False)

    def update_run(self, **fields: Any) -> None:
        """Change fields of run.json. MLflow's thread and the loop both do."""
        with _WRITING_RUN:
            self.write_run(self.read_run() | fields)

    def read_run(self) -> dict[str, Any]:
        """Read run.json. Raises StoreError when there is no such run or the file is damaged."""
        path = self._opened / "run.json"
        try:
            return unsealed(path.read_bytes(), path)
        except (FileNotFoundError, NotADirectoryError) as error:  # the latter of mlflow.db, which lies beside the runs
            where = self.directory.parent if self.mirror is None else self.mirror.url
            lost = "; its run.json is gone: restore it from a copy" if self.has_commits() else ""
            raise StoreError(f"There is no run {self.name!r} in {where}{lost}") from error
        except OSError as error:
            raise StoreError(f"{path}: cannot be read: {error.strerror}") from error

    def has_commits(self) -> bool:
        """Whether any step was ever finished here, intact or not."""
        return next(self._opened.glob("*/**/COMMIT.json"), None) is not None

    def fork(self) -> Fork | None:
        """What the run was forked from; None if it was not."""
        described = self.read_run().get("fork") if self.exists() else None
        return None if described is None else Fork.model_validate(described)

    def memo(self, step: int) -> Memo:
        """What the phases of a step have found."""
        if step not in self._memos:
            file = f"{self.step_path(step)}/{MEMO_FILE}"
            # Another machine may have begun the same step since, unless this one trains the run: its file is newer
            # than what is at the URL, which whoever only looks must not put in its place.
            if self.mirror is not None and (self._holds or not self.is_held()):
                self.mirror.bring(file, anew=True)
            self._memos[step] = Memo(self.directory / file, lambda path: self._upload(file, path))
        return self._memos[step]

    def step_path(self, step: int) -> str:
        """Folder of a step's artifacts; the bootstrap is step 0."""
        return "bootstrap" if step == 0 else f"steps/{step:06d}"

    def write_commit(self, commit: Commit) -> None:
        """Finish a step, which does not count until this file is there. Its artifacts are synced first.

        Until then a power failure may leave half-written ones under their final names, which their hashes reveal.
        """
        folder = self.step_path(commit.step)
        with told(self.directory, "put on disk"):
            self._sync(self.directory / path for path in (folder, *(ref.path for ref in commit.artifacts.values())))
        self.write_json(f"{folder}/COMMIT.json", sealed(commit.model_dump(mode="json")))

    def read_commit(self, step: int) -> Commit:
        """The commit of a step. Raises DamagedArtifact."""
        path = self._opened / self.step_path(step) / "COMMIT.json"
        try:
            commit = Commit.model_validate(unsealed(path.read_bytes(), path))
        except (ValidationError, FileNotFoundError) as error:
            raise DamagedArtifact(f"{path}: {error}") from error
        if commit.step != step:
            raise DamagedArtifact(f"{path} is not the commit that was written there")
        return commit

    def committed_steps(self) -> list[int]:
        """Numbers of the finished steps, ascending, as long as every commit is whole and the child of the one before.

        Steps after a damaged commit, or after one that was redone with another result, do not count.
        """
        steps: list[int] = []
        parent = None
        while (link := self._link(len(steps))) is not None and link[0] == parent:
            parent = link[1]
            steps.append(len(steps))
        return steps

    def digest(self, step: int) -> str | None:
        """Digest of a step's commit; None when there is none that is whole."""
        link = self._link(step)
        return None if link is None else link[1]

    def _link(self, step: int) -> tuple[str | None, str] | None:
        """Parent and digest of a step's commit; None when there is none that is whole."""
        try:
            file = (self._opened / self.step_path(step) / "COMMIT.json").stat()
            stamp = (file.st_mtime_ns, file.st_size, file.st_ino)
            if self._links.get(step, (None,))[0] != stamp:
                commit = self.read_commit(step)
                self._links[step] = (stamp, commit.parent, commit.digest())
        except (FileNotFoundError, DamagedArtifact):
            return None
        return self._links[step][1:]

    def last_commit(self) -> Commit | None:
        """The newest commit of an unbroken chain; the steps after it are done again."""
        steps = self.committed_steps()
        return self.read_commit(steps[-1]) if steps else None

    def prune_checkpoints(self, last: int, keep: int, needed: int) -> None:
        """Delete all checkpoints but the newest `keep`, up to the step that was just committed.

        needed: the oldest version whose weights may be asked for; a checkpoint no newer than that stays.
        Checkpoints of later steps belong to a past that is being redone, and are left alone.
        """
        kept, oldest = 0, last
        folders = {int(path.name): path for path in self.children("checkpoints") if path.name.isdigit()}
        for step in sorted((step for step in folders if step <= last), reverse=True):
            ref = self.checkpoint_of(step)
            if (kept >= keep and oldest <= needed) or ref is None:
                self.remove(folders[step])
            else:
                kept, oldest = kept + 1, step

    def checkpoint_of(self, step: int) -> Ref | None:
        """The checkpoint of a step, if its commit or the run's fork names one."""
        fork = self.fork()
        if fork is not None and fork.version == step:
            return fork.checkpoint
        try:
            return self.read_commit(step).artifacts.get("checkpoint")
        except DamagedArtifact:
            return None

    @property
    def _opened(self) -> Path:
        """The directory, after run.json and the commits were brought up to date from the URL."""
        if not self._is_fresh and self.mirror is not None:
            self.mirror.refresh(self.is_held)
            self._is_fresh = True
        return self.directory

    def is_held(self) -> bool:
        """Whether a process holds the run directory."""
        return is_held(self.directory)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run directory. Raises StoreError if another process holds it; a kill releases it."""
        with ExitStack() as stack:
            with told(self.directory, "written"):
                stack.enter_context(held(self.directory))
            if self.mirror is not None:
                stack.enter_context(self.mirror.held(self._copy_id()))
                # From now on the copy is taken to be what is at the URL.
                self.mirror.refresh(lambda: False)
                self._is_fresh = True
            self._holds = True
            stack.callback(setattr, self, "_holds", False)
            yield

    def _copy_id(self) -> str:
        """A name for this copy of the run, which only one process at a time holds: another if the folder is copied."""
        file = self.directory / ".copy"
        if not file.exists():
            file.write_text(uuid4().hex)
        return f"{file.read_text()} at {self.directory.absolute()} on {socket.gethostname()}"
