"""A lease on a run directory in an object store: one machine at a time writes to it.

It needs no clock that machines share, and no process has to notice in time that it was paused:

- Who creates `LEASE-000007` holds the run, and rewrites that object every few seconds. Another machine watches it: if
  it changes, the holder is alive and the machine is refused; if it stays the same for SILENCE, the machine takes the
  run over by creating `LEASE-000008`. Of two machines that try, one succeeds.
- Every file is created only if it is absent, and replaced only if it is unchanged since before its writer confirmed
  that its lease is the newest. So what a former holder was about to write when it was paused is refused once the new
  holder has written it; what arrives before that, the new holder replaces.
- A commit counts for its writer only if its lease was still the newest after the upload.

    first machine     … step 7: rollout, batch, [paused]                          COMMIT.json: is there → LeaseLost
    second machine              watches LEASE-000001 for 60 s, creates LEASE-000002, does step 7, COMMIT.json

Covered: S3 and compatible stores, through s3fs (If-None-Match, If-Match). Not covered: stores whose conditional writes
are untested (gs://, abfs://); deletions, which have no condition: they follow a confirmation at once, which leaves a
short window; locks of file systems (ares/store/lock.py).
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from uuid import uuid4

from fsspec import AbstractFileSystem
from pydantic import BaseModel, ValidationError

from ares.store.errors import RunHeld, StoreError, told
from ares.store.lock import signature

logger = logging.getLogger(__name__)
PROTOCOLS = ("s3", "s3a")
"""Of stores with conditional writes."""
LEASE = "LEASE-"
COMMIT = "COMMIT.json"
REFUSED = {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "412", "409", "404"}
"""S3's codes for an object that is not what the write expects."""
LARGE = 64 * 2**20
"""Bytes from which a file is uploaded in parts, and the object that it replaces is deleted first. So is the commit of a
step that is done again: a machine that takes the run over meanwhile must not build on it."""
REPLACEMENTS = 10
"""How often an object may change while the holder writes it: by late writes of earlier holders."""
RENEWAL = 15.0
"""Seconds between renewals."""
SILENCE = 60.0
"""Seconds without a renewal after which another machine may take over."""


class LeaseLost(StoreError):
    """Another machine has taken the run over."""


class Holder(BaseModel):
    """Content of a lease: who holds the run."""

    number: int
    writer: str
    copy_id: str
    who: str
    beat: int = 0
    released: bool = False

    @property
    def path(self) -> str:
        """The object that holds this."""
        return f"{LEASE}{self.number:06d}"


class Lease:
    """The lease of one writer. `copy_id` names this machine's copy of the run, which one process at a time holds."""

    def __init__(self, system: AbstractFileSystem, url: str, writer: str, copy_id: str = "") -> None:
        self._system = system
        self._url = url
        self._name = url.rpartition("/")[2]
        self._mine = Holder(number=1, writer=writer, copy_id=copy_id, who=signature())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the run. Raises StoreError if another machine holds it."""
        self._take()
        ended = threading.Event()
        renewing = threading.Thread(target=self._keep_renewing, args=(ended,), name="lease", daemon=True)
        renewing.start()
        try:
            yield
        finally:
            ended.set()
            renewing.join()
            with suppress(StoreError):  # the store is away: another machine takes the run over after SILENCE
                self._renew(released=True)

    def put(self, path: str, file: Path) -> None:
        """Upload a file. Raises LeaseLost if another machine has the run."""
        seen: str | None = None
        is_commit = PurePosixPath(path).name == COMMIT
        with told(f"{self._url}/{path}", "written"):
            for _ in range(REPLACEMENTS):
                if self._write(path, file, seen):
                    break
                # In this order: a machine that takes the run over after `confirm` changes the objects it writes.
                seen = self._stamp(path)
                self.confirm()
                if is_commit and seen and self._system.cat_file(path) == file.read_bytes():
                    break  # the answer to this write was lost
                if seen and (is_commit or file.stat().st_size >= LARGE):
                    self._system.rm_file(path)
                    seen = None
            else:
                raise StoreError(f"{self._url}/{path}: changes again and again while it is written")
        if is_commit:
            self.confirm()

    def confirm(self) -> None:
        """Check that this writer's lease is the newest. Raises LeaseLost."""
        newest = self._newest()
        if newest is None or newest.writer != self._mine.writer:
            who = "nobody: the lease was deleted" if newest is None else newest.who
            raise LeaseLost(
                f"Run {self._name!r} was taken over from this process, which was silent for too long, by {who}; what "
                "it committed before is there"
            )

    def _take(self) -> None:
        former = self._newest()
        if former is not None and not former.released and former.copy_id != self._mine.copy_id:
            self._wait_for_silence(former)
        self._mine.number = 1 if former is None else former.number + 1
        with told(f"{self._url}/{self._mine.path}", "written"):
            content = self._mine.model_dump_json().encode()
            if self._write(self._mine.path, content, None) and self._write(self._mine.path, content, '"0"'):
                logger.warning(
                    "%s: this object store ignores the conditions of writes (If-None-Match, If-Match), so nothing "
                    "keeps two machines from training this run at once", self._url,
                )  # fmt: skip
        newest = self._newest()
        if newest is None or newest.writer != self._mine.writer:
            raise self._refusal(newest)
        for path in self._paths():
            if path < self._mine.path:
                with suppress(FileNotFoundError):
                    self._system.rm_file(path)

    def _wait_for_silence(self, former: Holder) -> None:
        logger.warning("%s: held by %s; waiting for a sign of life", self._url, former.who)
        deadline = time.monotonic() + SILENCE
        while time.monotonic() < deadline:
            time.sleep(min(RENEWAL / 10, 1.0))
            newest = self._newest()
            if newest != former:
                raise self._refusal(newest)
        logger.warning("%s: %s was silent for %.0f s, its lease is taken over", self._url, former.who, SILENCE)

    def _refusal(self, newest: Holder | None) -> StoreError:
        if newest is None or newest.released:
            return StoreError(f"{self._url}: its holder has just ended; give the same command again")
        return RunHeld(f"Run {self._name!r} is being trained by another process ({newest.who})")

    def _keep_renewing(self, ended: threading.Event) -> None:
        while not ended.wait(RENEWAL):
            try:
                self.confirm()
                self._renew()
            except LeaseLost as error:
                logger.error("%s", error)
                return
            except StoreError as error:
                logger.warning("%s: the lease could not be renewed, and is tried again: %s", self._url, error)

    def _renew(self, released: bool = False) -> None:
        self._mine = self._mine.model_copy(update={"beat": self._mine.beat + 1, "released": released})
        with told(f"{self._url}/{self._mine.path}", "written"):
            self._system.pipe_file(self._mine.path, self._mine.model_dump_json().encode())

    def _newest(self) -> Holder | None:
        with told(f"{self._url}/{LEASE}", "read"):
            for path in reversed(self._paths()):
                with suppress(FileNotFoundError):  # deleted since, by a newer holder
                    try:
                        return Holder.model_validate_json(self._system.cat_file(path))
                    except ValidationError as error:
                        remedy = "not a lease; delete it when no machine has the run"
                        raise StoreError(f"{self._url}/{path}: {remedy}") from error
        return None

    def _paths(self) -> list[str]:
        """The leases that are there, the newest last."""
        self._system.invalidate_cache()
        with suppress(FileNotFoundError):
            return sorted(path for path in self._system.ls("", detail=False) if path.startswith(LEASE))
        return []

    def _stamp(self, path: str) -> str | None:
        """What changes with an object's content (its ETag); None if there is no object."""
        with suppress(FileNotFoundError):
            return str(self._system.info(path, refresh=True)["ETag"])
        return None

    def _write(self, path: str, content: Path | bytes, seen: str | None) -> bool:
        """Write an object, whose stamp must still be `seen`; whether it was."""
        condition = {"mode": "create"} if seen is None else {"IfMatch": seen}
        try:
            if isinstance(content, bytes):
                self._system.pipe_file(path, content, **condition)
            else:
                self._system.put_file(str(content), path, **condition)
        except OSError as error:
            code = getattr(error.__cause__, "response", {}).get("Error", {}).get("Code")
            if code in REFUSED or isinstance(error, FileExistsError):
                return False
            raise
        return True


def new_writer() -> str:
    """A name for a process that writes to a run, and for its actors."""
    return uuid4().hex
