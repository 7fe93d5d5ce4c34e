"""A lease on a run directory in an object store: one machine at a time writes to it.

It needs no clock that machines share, and no process has to notice in time that it was paused:

- `LEASE.json` names the holder. It is only ever written if it is unchanged since its writer last saw it. The holder
  rewrites it every few seconds. Another machine watches it: if it changes, the holder is alive and the machine is
  refused; if it stays the same for SILENCE, the machine takes it over, and later writes by the former holder fail.
- A commit is announced in the lease before it is created. Whoever takes a lease over changes the announced object
  first, so that a commit still in flight fails.
- Any other object is created only if absent, and replaced only if it is unchanged since before the lease was last
  confirmed (`Mirror.put`).

Deletions are not fenced: the lease is confirmed before each, which leaves a short window. Not covered: the conditional
writes (ares/store/conditional.py), locks of file systems (ares/store/lock.py).
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from ares.store.conditional import S3Objects
from ares.store.errors import ObjectChanged, RunHeld, StoreError

logger = logging.getLogger(__name__)
LEASE = "LEASE.json"
FENCE = 64
"""An object of fewer bytes is a fence: line feeds in place of a commit that was announced and has not arrived."""
RENEWAL = 15.0
"""Seconds between renewals."""
SILENCE = 60.0
"""Seconds without a renewal after which another machine may take over."""


class LeaseLost(StoreError):
    """Another machine has taken the run over."""


class Holder(BaseModel):
    """Content of the lease: who holds the run, and what it is about to commit."""

    writer: str
    copy_id: str
    host: str
    pid: int
    since: str
    beat: int = 0
    announced: str | None = None
    released: bool = False

    def __str__(self) -> str:
        return f"pid {self.pid} since {self.since} on {self.host}"


class Lease:
    """The lease of one writer. `copy_id` names this machine's copy of the run, which one process at a time holds."""

    def __init__(self, objects: S3Objects, address: str, writer: str, copy_id: str = "") -> None:
        self._objects = objects
        self._address = address
        self._name = address.rpartition("/")[2]
        self._mine = Holder(
            writer=writer, copy_id=copy_id, host=socket.gethostname(), pid=os.getpid(),
            since=time.strftime("%Y-%m-%d %H:%M:%S"),
        )  # fmt: skip
        self._stamp: str | None = None
        self._writing = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the run. Raises StoreError if another machine holds it."""
        self._take()
        self._check_conditions()
        ended = threading.Event()
        renewing = threading.Thread(target=self._renew, args=(ended,), name="lease", daemon=True)
        renewing.start()
        try:
            yield
        finally:
            ended.set()
            renewing.join()
            with suppress(StoreError):  # lost, or the store is away: another machine takes it over after SILENCE
                self._write(announced=None, released=True)

    def announce(self, path: str) -> None:
        """Announce the next commit. Raises LeaseLost."""
        self._write(announced=path)

    def confirm(self) -> None:
        """Check that this writer still holds the run. Raises LeaseLost."""
        lease = self._read()
        if lease is None or lease[0].writer != self._mine.writer:
            raise self._lost(lease)

    def _take(self) -> None:
        lease = self._read()
        if lease is not None and not lease[0].released and lease[0].copy_id != self._mine.copy_id:
            self._wait_for_silence(*lease)
        try:
            self._stamp = self._objects.write(LEASE, self._content(), lease[1] if lease else None)
        except ObjectChanged:
            taken = self._read()
            if taken is None or taken[0].writer != self._mine.writer:  # else the answer to the write was lost
                raise self._refused(taken) from None
            self._stamp = taken[1]
        if lease is not None and lease[0].announced is not None:
            self._fence(lease[0].announced)

    def _wait_for_silence(self, holder: Holder, stamp: str) -> None:
        logger.warning("%s: held by %s; waiting for a sign of life", self._address, holder)
        deadline = time.monotonic() + SILENCE
        while time.monotonic() < deadline:
            time.sleep(min(RENEWAL / 10, 1.0))
            lease = self._read()
            if lease is None or lease[1] != stamp:
                if lease is None or lease[0].released:
                    raise StoreError(f"{self._address}: {holder} has just ended; give the same command again")
                raise self._refused(lease)
        logger.warning("%s: %s was silent for %.0f s, its lease is taken over", self._address, holder, SILENCE)

    def _fence(self, path: str) -> None:
        """Change an object, by a line feed that JSON ignores, so that a write of the former holder in flight fails."""
        while True:
            content, stamp = self._objects.read(path) or (b"", None)
            try:
                self._objects.write(path, content + b"\n", stamp)
            except ObjectChanged:
                continue  # that write has just arrived
            return

    def _check_conditions(self) -> None:
        """Warn about stores that accept conditions and ignore them."""
        for seen in (None, '"0"'):
            try:
                stamp = self._objects.write(LEASE, self._content(), seen)
            except ObjectChanged:
                continue
            self._stamp = stamp
            logger.warning(
                "%s: this object store ignores the conditions of writes (If-None-Match, If-Match), so nothing keeps "
                "two machines from training this run at once", self._address,
            )  # fmt: skip
            return

    def _renew(self, ended: threading.Event) -> None:
        while not ended.wait(RENEWAL):
            try:
                self._write()
            except LeaseLost as error:
                logger.error("%s", error)
                return
            except StoreError as error:
                logger.warning("%s: the lease could not be renewed, and is tried again: %s", self._address, error)

    def _write(self, **changed: str | bool | None) -> None:
        with self._writing:
            while True:
                self._mine = self._mine.model_copy(update={"beat": self._mine.beat + 1, **changed})
                try:
                    self._stamp = self._objects.write(LEASE, self._content(), self._stamp)
                except ObjectChanged:
                    lease = self._read()
                    if lease is None or lease[0].writer != self._mine.writer:
                        raise self._lost(lease) from None
                    self._stamp = lease[1]  # the answer to this write or an earlier one was lost
                    if lease[0] != self._mine:
                        continue
                return

    def _read(self) -> tuple[Holder, str] | None:
        content = self._objects.read(LEASE)
        try:
            return None if content is None else (Holder.model_validate_json(content[0]), content[1])
        except ValidationError as error:
            raise StoreError(f"{self._address}/{LEASE}: not a lease; delete it when no machine has the run") from error

    def _content(self) -> bytes:
        return self._mine.model_dump_json().encode()

    def _refused(self, lease: tuple[Holder, str] | None) -> RunHeld:
        who = lease[0] if lease else "its lease was deleted meanwhile"
        return RunHeld(f"Run {self._name!r} is being trained by another process ({who})")

    def _lost(self, lease: tuple[Holder, str] | None) -> LeaseLost:
        who = f"{lease[0]}" if lease else "nobody: the lease was deleted"
        return LeaseLost(
            f"Run {self._name!r} was taken over from this process, which was silent for too long, by {who}; what it "
            "committed before is there"
        )


def new_writer() -> str:
    """A name for a process that writes to a run, and for its actors."""
    return uuid4().hex
