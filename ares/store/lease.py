"""A lease on a run directory in an object store: one machine at a time writes to it.

It needs no clock that machines share, and no process has to notice in time that it was paused:

- Whose name `LEASE` holds has the run, and rewrites that object every few seconds. Another machine watches it: if it
  changes, the holder is alive and the machine is refused; if it stays the same for SILENCE, the machine takes the run
  over by replacing it. It is replaced only if it is unchanged since it was read, so of two machines one succeeds.
- Every file is created only if it is absent, and replaced only if it is unchanged since before its writer confirmed
  that the lease is still its own. So what a former holder was about to write when it was paused is refused once the new
  holder has written it; what arrives before that, the new holder replaces.
- A commit counts for its writer only if the lease was still its own after the upload.

    first machine     … step 7: rollout, batch, [paused]                          COMMIT.json: is there → LeaseLost
    second machine              watches LEASE for 60 s, replaces it, does step 7, COMMIT.json

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

from fsspec import AbstractFileSystem
from pydantic import BaseModel

from ares.store.errors import StoreError, told
from ares.store.lock import signature

logger = logging.getLogger(__name__)
PROTOCOLS = ("s3", "s3a")
"""Of stores with conditional writes."""
LEASE = "LEASE"
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

    writer: str
    copy_id: str
    who: str
    beat: int = 0
    released: bool = False


class Lease:
    """The lease of one writer. `copy_id` names this machine's copy of the run, which one process at a time holds."""

    def __init__(self, system: AbstractFileSystem, url: str, writer: str, copy_id: str = "") -> None:
        self._system = system
        self._url = url
        self._name = url.rpartition("/")[2]
        self._mine = Holder(writer=writer, copy_id=copy_id, who=signature())

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

    def confirm(self) -> str | None:
        """Check that the lease is this writer's; returns its stamp. Raises LeaseLost."""
        newest, stamp = self._read()
        if newest is None or newest.writer != self._mine.writer:
            who = "nobody: the lease was deleted" if newest is None else newest.who
            raise LeaseLost(
                f"Run {self._name!r} was taken over from this process, which was silent for too long, by {who}; what "
                "it committed before is there"
            )
        return stamp

    def _take(self) -> None:
        former, stamp = self._read()
        if former is not None and not former.released and former.copy_id != self._mine.copy_id:
            self._wait_for_silence(former)
        with told(f"{self._url}/{LEASE}", "written"):
            content = self._mine.model_dump_json().encode()
            if self._write(LEASE, content, stamp) and self._write(LEASE, content, '"0"'):
                logger.warning(
                    "%s: this object store ignores the conditions of writes (If-None-Match, If-Match), so nothing "
                    "keeps two machines from training this run at once", self._url,
                )  # fmt: skip
        newest, _ = self._read()
        if newest is None or newest.writer != self._mine.writer:
            raise self._refusal(newest)

    def _wait_for_silence(self, former: Holder) -> None:
        logger.warning("%s: held by %s; waiting for a sign of life", self._url, former.who)
        deadline = time.monotonic() + SILENCE
        while time.monotonic() < deadline:
            time.sleep(min(RENEWAL / 10, 1.0))
            newest, _ = self._read()
            if newest != former:
                raise self._refusal(newest)
        logger.warning("%s: %s was silent for %.0f s, its lease is taken over", self._url, former.who, SILENCE)

    def _refusal(self, newest: Holder | None) -> StoreError:
        if newest is None or newest.released:
            return StoreError(f"{self._url}: its holder has just ended; give the same command again")
        return StoreError(f"{self._name!r} is in use by another process ({newest.who})")

    def _keep_renewing(self, ended: threading.Event) -> None:
        while not ended.wait(RENEWAL):
            try:
                self._renew()
            except LeaseLost as error:
                logger.error("%s", error)
                return
            except StoreError as error:
                logger.warning("%s: the lease could not be renewed, and is tried again: %s", self._url, error)

    def _renew(self, released: bool = False) -> None:
        stamp = self.confirm()
        self._mine = self._mine.model_copy(update={"beat": self._mine.beat + 1, "released": released})
        with told(f"{self._url}/{LEASE}", "written"):
            self._write(LEASE, self._mine.model_dump_json().encode(), stamp)

    def _read(self) -> tuple[Holder | None, str | None]:
        """Who holds the run, and the stamp of what says so; None: nobody has ever held it."""
        with told(f"{self._url}/{LEASE}", "read"), suppress(FileNotFoundError):
            stamp = self._stamp(LEASE)  # read first: if it changes meanwhile, a write on its condition is refused
            if stamp is not None:
                return Holder.model_validate_json(self._system.cat_file(LEASE)), stamp
        return None, None

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
