"""Spark's own progress of a streaming query, brought to the disk: Spark renames its files into place and syncs none.

Without it, a loss of power takes back what a micro-batch was made of while the checkpoint knows that it was taken.
Spark would make it of other rows then, and those would be lost.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.lowlevel import folders


class Progress:
    """The files below a location, where that is a local directory; stores elsewhere keep what they are given."""

    def __init__(self, location: str) -> None:
        url = urlsplit(location)
        self._root = Path(unquote(url.path)) if url.scheme in ("", "file") else None
        self._kept: dict[str, int] = {}

    def keep(self) -> None:
        """Return when all that has changed since the last time is on the disk. Raises OSError."""
        if self._root is None or not self._root.is_dir():
            return
        changed = [place for place in [str(self._root.parent), *_below(self._root)] if self._is_new(place)]
        # Files before the folders that name them.
        for place in sorted(changed, key=os.path.isdir):
            with suppress(FileNotFoundError):
                folders.fsync(Path(place))

    def _is_new(self, place: str) -> bool:
        try:
            changed = os.stat(place).st_ctime_ns
        except FileNotFoundError:
            return False
        before, self._kept[place] = self._kept.get(place), changed
        return before != changed


def _below(root: Path) -> list[str]:
    return [path for folder, _, files in os.walk(root) for path in (folder, *(f"{folder}/{name}" for name in files))]
