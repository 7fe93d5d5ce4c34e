"""The run directory: artifacts that are whole or absent, and the chain of commits.

Covered: atomic writes (temporary name, fsync, rename), content hashes, rows as parquet, tensors as safetensors,
`run.json`, `COMMIT.json`, the lock that keeps a second process out; where the directory is a copy of one at a URL, that
what is written is there first. Not covered: how it gets there (ares/store/mirror.py), what artifacts mean (tasks/), and
whether a phase has to run (Prefect's keyed results decide; `kept` tells whether their files can be trusted).

    runs/<run>/run.json                    resolved configuration, fingerprint, code version, MLflow run
    runs/<run>/bootstrap/…                 the pass over the train set
    runs/<run>/steps/000012/…              artifacts of step 12
    runs/<run>/steps/000012/COMMIT.json    hashes of them, metrics, and the whole run state after the step
    runs/<run>/checkpoints/000020/…        weights and optimiser after step 20
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from pydantic import BaseModel
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ares.store.errors import DamagedArtifact, StoreError
from ares.store.mirror import mirror_of


class Ref(BaseModel, frozen=True):
    """Where an artifact lies (relative to the run directory) and the hash of its content."""

    path: str
    sha256: str
    bytes: int


class Commit(BaseModel):
    """What a finished step leaves behind: enough to resume from, and to check everything before it."""

    step: int
    """Steps finished; the bootstrap commits as step 0, the first training step as step 1."""
    parent: str | None
    """Hash of the commit before: a run resumes only from a commit whose parent is what it was."""
    artifacts: dict[str, Ref]
    state: dict[str, Any]
    """The whole run state after the step (ares.step.RunState)."""
    metrics: dict[str, float]
    """Deterministic metrics: the same in a resumed run."""
    timings: dict[str, float]
    """Seconds and rates: of this execution only."""
    timestamp: int
    """Milliseconds since the epoch; metrics are logged under it, so that logging twice adds nothing."""

    def digest(self) -> str:
        """Hash over everything that a resumed run must reproduce."""
        body = self.model_dump(mode="json", exclude={"timings", "timestamp"})
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


class Fork(BaseModel):
    """Where a run that was forked comes from (ares/runs/lineage.py)."""

    run: str
    at: int
    phase: str | None
    """Last phase of step `at` whose results are shared; None: all of that step is."""
    version: int
    """Steps that are finished in both runs."""
    commit: str
    """Digest of the last commit that is shared."""
    identities: dict[str, str]
    """Of each shared phase of step `at`: the identity under which its results are kept."""
    checkpoint: Ref | None
    """The weights after step `version`; None: those the run was started with."""


class RunStore:
    """The files of one run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.name = directory.name
        self.mirror = mirror_of(directory)
        self._is_fresh = self.mirror is None

    @property
    def address(self) -> str:
        """What an actor finds the run by, wherever it is: its URL, else its path."""
        return str(self.directory.absolute()) if self.mirror is None else self.mirror.url

    # ---- artifacts -------------------------------------------------------------------------------------------------

    def write_json(self, path: str, value: Any) -> Ref:
        """Write a JSON file."""
        text = json.dumps(value, indent=1, sort_keys=True, allow_nan=False)
        return self._write(path, lambda target: _write_bytes(target, text.encode()))

    def write_rows(self, path: str, rows: pd.DataFrame) -> Ref:
        """Write a table as parquet."""
        return self._write(path, lambda target: rows.to_parquet(target, index=False, compression="zstd"))

    def write_tensors(self, path: str, tensors: dict[str, torch.Tensor]) -> Ref:
        """Write named tensors as safetensors."""
        whole = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
        return self._write(path, lambda target: save_file(whole, target))

    def write_folder(self, path: str, fill: Callable[[Path], None]) -> Ref:
        """Write a folder: `fill` puts the files into the (temporary) folder it is given."""

        def make(target: Path) -> None:
            target.mkdir()
            fill(target)

        return self._write(path, make)

    def read_json(self, ref: Ref) -> Any:
        """Read a JSON artifact. Raises DamagedArtifact."""
        return json.loads(self._checked(ref).read_bytes())

    def read_rows(self, ref: Ref) -> pd.DataFrame:
        """Read a table artifact. Raises DamagedArtifact."""
        return pd.read_parquet(self._checked(ref))

    def read_tensors(self, ref: Ref) -> dict[str, torch.Tensor]:
        """Read a tensor artifact. Raises DamagedArtifact."""
        try:
            return load_file(self._checked(ref))
        except SafetensorError as error:
            raise DamagedArtifact(f"{self.directory / ref.path}: {error}") from error

    def read_tensors_of(self, folder: Ref, name: str) -> dict[str, torch.Tensor]:
        """Read one tensor file of a folder artifact. Raises DamagedArtifact."""
        return load_file(self._checked(folder) / name)

    def folder(self, ref: Ref) -> Path:
        """The path of a folder artifact, its content checked. Raises DamagedArtifact."""
        return self._checked(ref)

    def intact(self, refs: list[Ref]) -> bool:
        """Whether every artifact is there with the content that was written."""
        return all(self._hash(ref) == ref.sha256 for ref in refs)

    def kept(self, refs: list[Ref]) -> bool:
        """Whether a kept result's artifacts are intact; if so, they are what lies at the URL.

        Another machine may have begun the same step since, and on a GPU have written something else there.
        """
        if not self.intact(refs):
            return False
        for ref in refs:
            self._upload(ref.path, self.directory / ref.path)
        return True

    def here(self, path: str) -> Path:
        """Where a file or folder of the run lies, brought from the URL; for what no Ref is known of."""
        if self.mirror is not None:
            with self.mirror.transfer():
                self.mirror.bring(path)
        return self.directory / path

    def children(self, path: str) -> set[Path]:
        """Files and folders in a folder of the run, those that are at the URL only too."""
        folder = self.directory / path
        found = set(folder.iterdir()) if folder.is_dir() else set()
        return found if self.mirror is None else found | {folder / name for name in self.mirror.names(path)}

    def discard(self, ref: Ref) -> None:
        """Delete an artifact that nothing refers to."""
        self.remove(self.directory / ref.path)

    def remove(self, path: Path) -> None:
        """Delete a file or folder of the run."""
        if self.mirror is not None:
            self.mirror.remove(path.relative_to(self.directory).as_posix())
        _remove(path)

    def publish(self) -> None:
        """Upload a run that was put together here, run.json last; kept results stay."""
        whole = [file for file in _files(self.directory) if not file.is_relative_to(self.results)]
        for file in sorted(whole, key=lambda file: file.name == "run.json"):
            self._upload(file.relative_to(self.directory).as_posix(), file)

    def _hash(self, ref: Ref) -> str | None:
        """Hash of what an artifact is, brought from the URL where what is here is not it."""
        path = self.directory / ref.path
        found = _tree_hash(path)
        if self.mirror is not None and found != ref.sha256:
            with self.mirror.transfer():
                if _tree_hash(path) != ref.sha256:  # another process may have brought it meanwhile
                    _remove(path)
                    self.mirror.bring(ref.path)
            found = _tree_hash(path)
        return found

    def _upload(self, path: str, content: Path) -> None:
        if self.mirror is not None:
            if content.is_dir():
                self.mirror.remove(path)
            self.mirror.put({(Path(path) / file.relative_to(content)).as_posix(): file for file in _files(content)})

    def _checked(self, ref: Ref) -> Path:
        path = self.directory / ref.path
        found = self._hash(ref)
        if found != ref.sha256:
            what = "is missing" if found is None else "has changed since it was written"
            raise DamagedArtifact(f"{path} {what} (expected sha256 {ref.sha256[:12]}…)")
        return path

    def _write(self, path: str, make: Callable[[Path], None]) -> Ref:
        target = self.directory / path
        temporary = target.with_name(f".{target.name}.{os.getpid()}.partial")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _remove(temporary)
            make(temporary)
            digest = _tree_hash(temporary)
            assert digest is not None
            size = sum(file.stat().st_size for file in _files(temporary))
            for file in _files(temporary):
                _fsync(file)
            self._upload(path, temporary)
            if temporary.is_dir():
                _fsync(temporary)
                _remove(target)
            os.replace(temporary, target)
            _fsync(target.parent)
        except (OSError, SafetensorError) as error:
            raise StoreError(f"{target}: cannot be written: {error}. {_remedy(error)}") from error
        finally:
            _remove(temporary)  # there only when something failed
        return Ref(path=path, sha256=digest, bytes=size)

    # ---- the run and its commits -----------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether the run was started before."""
        return (self._opened / "run.json").exists()

    def write_run(self, description: dict[str, Any]) -> None:
        """Write run.json."""
        self.write_json("run.json", description)

    def read_run(self) -> dict[str, Any]:
        """Read run.json. Raises StoreError when there is no such run or the file is damaged."""
        path = self._opened / "run.json"
        try:
            return dict(json.loads(path.read_bytes()))
        except FileNotFoundError as error:
            where = self.directory.parent if self.mirror is None else self.mirror.url
            raise StoreError(f"There is no run {self.name!r} in {where}") from error
        except ValueError as error:
            raise StoreError(f"{path}: not readable as JSON ({error}); restore it from a copy") from error

    def fork(self) -> Fork | None:
        """What the run was forked from; None for a run of its own."""
        found = self.read_run().get("fork") if self.exists() else None
        return None if found is None else Fork.model_validate(found)

    def results_of(self, step: int) -> list[Path]:
        """The files of the kept results of a step's phases."""
        return sorted(self.results.glob(f"{step:06d}-*"))

    def discard_unreadable_results(self, step: int) -> None:
        """Delete the kept results of a step that a kill left half written: Prefect writes them in place."""
        for result in self.results_of(step):
            try:
                json.loads(json.loads(result.read_bytes())["result"])
            except (ValueError, KeyError, TypeError):
                result.unlink()

    def step_path(self, step: int) -> str:
        """Folder of a step's artifacts; the bootstrap is step 0."""
        return "bootstrap" if step == 0 else f"steps/{step:06d}"

    def write_commit(self, commit: Commit) -> None:
        """Finish a step. Nothing of it counts before this file is there."""
        self.write_json(f"{self.step_path(commit.step)}/COMMIT.json", commit.model_dump(mode="json"))

    def read_commit(self, step: int) -> Commit:
        """The commit of a step. Raises DamagedArtifact."""
        path = self._opened / self.step_path(step) / "COMMIT.json"
        try:
            return Commit.model_validate_json(path.read_bytes())
        except (ValueError, FileNotFoundError) as error:
            raise DamagedArtifact(f"{path}: {error}") from error

    def committed_steps(self) -> list[int]:
        """Numbers of the finished steps, ascending, without gaps."""
        steps: list[int] = []
        while (self._opened / self.step_path(len(steps)) / "COMMIT.json").exists():
            steps.append(len(steps))
        return steps

    def last_commit(self) -> Commit | None:
        """The newest commit that can be trusted: readable, and the child of the one before it.

        A damaged newest commit is left out, so that its step is done again from what is intact.
        """
        for step in reversed(self.committed_steps()):
            try:
                commit = self.read_commit(step)
                parent = self.read_commit(step - 1).digest() if step else None
            except DamagedArtifact:
                continue
            if commit.parent == parent:
                return commit
        return None

    def prune_checkpoints(self, keep: int) -> None:
        """Delete all but the newest `keep` committed checkpoints."""
        folders = sorted(path for path in self.children("checkpoints") if path.name[0].isdigit())
        for folder in folders[:-keep]:
            self.remove(folder)

    @property
    def _opened(self) -> Path:
        """The directory, in which run.json and the commits are those of the URL."""
        if not self._is_fresh and self.mirror is not None:
            self.mirror.refresh(self.is_held)
            self._is_fresh = True
        return self.directory

    @property
    def results(self) -> Path:
        """Where Prefect keeps the results of this run's phases."""
        return self.directory / "results"

    def is_held(self) -> bool:
        """Whether a process of this machine holds the run directory."""
        try:
            with (self.directory / "lock").open() as handle:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run directory. Raises StoreError when another process has it; a killed one's lock is gone."""
        directory = self._opened  # once it is held, what is here is taken for what is at the URL
        try:
            directory.mkdir(parents=True, exist_ok=True)
            handle = (directory / "lock").open("a+")
        except OSError as error:
            raise StoreError(f"{self.directory}: cannot be written: {error.strerror}. {_remedy(error)}") from error
        with handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                handle.seek(0)
                raise StoreError(f"Run {self.name!r} is being trained by another process ({handle.read()})") from error
            handle.truncate(0)
            handle.write(f"pid {os.getpid()} since {time.strftime('%Y-%m-%d %H:%M:%S')}")
            handle.flush()
            yield


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def _tree_hash(path: Path) -> str | None:
    """sha256 of a file, or of a folder's names and file hashes; None when there is nothing."""
    if path.is_file():
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    if not path.is_dir():
        return None
    lines = [f"{file.relative_to(path)} {_tree_hash(file)}" for file in _files(path)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _write_bytes(target: Path, content: bytes) -> None:
    target.write_bytes(content)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remedy(error: Exception) -> str:
    """What to do about an error of the file system; safetensors tells its number in words only."""
    told = re.search(r"os error (\d+)", str(error))
    number = error.errno if isinstance(error, OSError) else int(told[1]) if told else None
    remedies = {28: "The disk is full: free some space and start the run again; the last commit is intact."}
    remedies |= {30: "The file system is read-only.", 13: "Check who owns the directory."}
    return remedies.get(number or 0, "")
