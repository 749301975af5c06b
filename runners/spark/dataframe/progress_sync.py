"""Syncs the progress files of a Spark streaming query to disk, because Spark renames them into place without a sync.

Without the sync, a power failure could undo the offsets of a micro-batch that the checkpoint already contains. Spark
would then build a micro-batch of that number from other rows, and those rows would be lost.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.lowlevel.storage import directory_sync


class QueryProgress:
    """The progress files below a location. Only a local directory is synced; remote stores need no sync."""

    def __init__(self, location: str) -> None:
        url = urlsplit(location)
        self._root = Path(unquote(url.path)) if url.scheme in ("", "file") else None
        self._synced: dict[str, int] = {}

    def sync(self) -> None:
        """Sync all files and folders that have changed since the last call. Raises OSError."""
        if self._root is None or not self._root.is_dir():
            return
        new = [path for path in [str(self._root.parent), *_below(self._root)] if self._is_new(path)]
        # Files are synced before the folders that contain their names.
        for path in sorted(new, key=os.path.isdir):
            with suppress(FileNotFoundError):
                directory_sync.fsync(Path(path))

    def _is_new(self, path: str) -> bool:
        try:
            changed = os.stat(path).st_ctime_ns
        except FileNotFoundError:
            return False
        before, self._synced[path] = self._synced.get(path), changed
        return before != changed


def _below(root: Path) -> list[str]:
    return [path for folder, _, files in os.walk(root) for path in (folder, *(f"{folder}/{name}" for name in files))]
