"""The rows of one piece of work as they arrive, until the artifact that holds them all is written.

Not covered: runs at a URL: a journal is not uploaded, so that other machines find artifacts only.
"""

import base64
import io
from pathlib import Path

import pandas as pd

from ares.store.sealed_lines import SealedLines


class Journal:
    """The rows of one piece of work. key: identifies it; a file left under another key is deleted."""

    def __init__(self, path: Path, key: str) -> None:
        self.key = key
        self._lines = SealedLines(path)
        if self._lines.texts[:1] != [key]:
            self.end()
            self._lines = SealedLines(path)
        self._earlier = self._lines.texts[1:]

    def rows(self) -> pd.DataFrame | None:
        """What an earlier process added, in order; None: nothing."""
        tables = [pd.read_parquet(io.BytesIO(base64.b64decode(line))) for line in self._earlier]
        return pd.concat(tables, ignore_index=True) if tables else None

    def add(self, rows: pd.DataFrame) -> None:
        """Append rows, which survive a kill from here on. Raises StoreError."""
        if not self._lines.texts:
            self._lines.append(self.key)
        self._lines.append(base64.b64encode(rows.to_parquet(index=False)).decode())

    def end(self) -> None:
        """Delete the file: the artifact is written."""
        if self._lines.path.exists():
            self._lines.path.unlink()
