"""A lease on a run directory in an object store: one machine at a time writes to it.

Nothing depends on a clock that two machines share, nor on a process noticing in time that it was stopped:

- Who holds the run stands in `LEASE.json`, which is only ever written while it is as its writer last saw it. The holder
  writes it anew every few seconds. Another machine watches: a lease that changes is alive and it is refused; one that
  stays the same for SILENCE is taken over. From there on every write of the former holder's to the lease fails.
- A commit is announced in the lease, then created. Who takes a lease over changes the announced object first, so that a
  commit that is still on its way fails.
- Any other object is created where there is none. One that is there is replaced only if it has not changed since before
  the lease was last found to be one's own (`Mirror.put`).

Deletions are not fenced: before each the lease is asked for, and then there is an instant. Not covered: the conditional
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
"""Bytes that an object has less than if it is a fence: line feeds, where a commit was announced and is not there."""
RENEWAL = 15.0
"""Seconds between two signs of life."""
SILENCE = 60.0
"""Seconds without one after which another machine may take over."""


class LeaseLost(StoreError):
    """Another machine has the run by now."""


class Holder(BaseModel):
    """What the lease says: who has the run, and what it is about to commit."""

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
    """The lease of one writer. `copy_id` names this machine's copy of the run, which one process at a time works on."""

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
        """Hold the run. Raises StoreError where another machine has it."""
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
            with suppress(StoreError):  # lost, or the store is away: it will be taken over
                self._write(announced=None, released=True)

    def announce(self, path: str) -> None:
        """Say what is committed next. Raises LeaseLost."""
        self._write(announced=path)

    def confirm(self) -> None:
        """Ask whether the run is still this writer's. Raises LeaseLost."""
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
            if taken is None or taken[0].writer != self._mine.writer:  # else an answer was lost
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
        """Change an object, so that a write of the former holder's that is on its way fails; JSON stays what it is."""
        while True:
            content, stamp = self._objects.read(path) or (b"", None)
            try:
                self._objects.write(path, content + b"\n", stamp)
            except ObjectChanged:
                continue  # it has arrived meanwhile
            return

    def _check_conditions(self) -> None:
        """Some stores take a condition and ignore it."""
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
    """A name for a process that writes to a run, its actors included."""
    return uuid4().hex
