"""Conditional writes to an object store: they succeed only if the object is unchanged since it was last seen.

Covered: S3 and compatible stores, through s3fs (If-None-Match, If-Match). Not covered: what the conditions are for
(ares/store/lease.py); stores without conditional writes, or where they are untested (gs://, abfs://).
"""

from pathlib import Path
from typing import Any

from fsspec.asyn import sync

from ares.store.errors import ObjectChanged, told

LARGE = 64 * 2**20
"""Bytes from which a file is uploaded in parts, which cannot be conditional on the object that they replace."""
REFUSED = {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "412", "409", "404"}


class S3Objects:
    """Objects below a URL and their stamps (ETags), None for an absent one. Every method raises StoreError."""

    def __init__(self, system: Any, url: str) -> None:
        self._system = system
        self._url = url

    def stamp(self, path: str) -> str | None:
        """An object's stamp, which changes with its content."""
        try:
            return str(self._call("head_object", path, "read")["ETag"])
        except ObjectChanged:
            return None

    def read(self, path: str) -> tuple[bytes, str] | None:
        """Content and stamp of an object."""
        try:
            answer = self._call("get_object", path, "read")
        except ObjectChanged:
            return None
        with told(f"{self._url}/{path}", "read"):
            return bytes(sync(self._system.loop, answer["Body"].read)), str(answer["ETag"])

    def write(self, path: str, content: bytes, seen: str | None) -> str:
        """Write an object whose stamp is still `seen`; its new stamp. Raises ObjectChanged."""
        condition = {"IfNoneMatch": "*"} if seen is None else {"IfMatch": seen}
        return str(self._call("put_object", path, "written", Body=content, **condition)["ETag"])

    def upload(self, path: str, file: Path, seen: str | None) -> None:
        """Upload a file of any size likewise. A large object is deleted first: it is gone for a moment."""
        if file.stat().st_size < LARGE:
            self.write(path, file.read_bytes(), seen)
            return
        if seen is not None:
            self._call("delete_object", path, "written", IfMatch=seen)
        with told(f"{self._url}/{path}", "written"):
            try:
                self._system.put_file(str(file), f"{self._url}/{path}", mode="create")
            except OSError as error:
                raise _changed(error) or error from error

    def holds(self, path: str, file: Path) -> bool:
        """Whether an object has a file's content; a large one is not compared."""
        if file.stat().st_size >= LARGE:
            return False
        content = self.read(path)
        return content is not None and content[0] == file.read_bytes()

    def _call(self, method: str, path: str, done: str, **arguments: Any) -> Any:
        where = f"{self._url}/{path}"
        bucket, key, _ = self._system.split_path(where)
        with told(where, done):
            try:
                return self._system.call_s3(method, Bucket=bucket, Key=key, **arguments)
            except OSError as error:
                raise _changed(error) or error from error


def _changed(error: OSError) -> ObjectChanged | None:
    """s3fs wraps S3's errors in OSErrors."""
    said = getattr(error.__cause__, "response", {}).get("Error", {}).get("Code")
    return ObjectChanged(str(error)) if said in REFUSED or isinstance(error, FileExistsError) else None


CONDITIONAL = {"s3": S3Objects, "s3a": S3Objects}
"""By the protocol of a URL."""
