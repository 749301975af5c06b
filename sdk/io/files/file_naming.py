"""What: names of the files of `WriteToFiles`, of window, shard and destination (`apache_beam.io.fileio`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from headrace.lowlevel.time import Timestamp
from headrace.sdk.model.panes import PaneInfo
from headrace.sdk.windows import BoundedWindow, GlobalWindow

FileNaming: TypeAlias = Callable[[BoundedWindow, PaneInfo | None, int | None, int | None, str | None, object], str]
"""From window, pane, number of the shard, number of shards, compression and destination to the name of a file."""


@dataclass(frozen=True, slots=True)
class _Naming:
    prefix: str | None
    """None for the destination."""
    suffix: str | None
    is_single: bool = False

    def __call__(
        self,
        window: BoundedWindow,
        pane: PaneInfo | None,
        shard_index: int | None,
        total_shards: int | None,
        compression: str | None,
        destination: object,
    ) -> str:
        """The name of a file. Raises `ValueError` for a second file with the same name."""
        if not self.is_single:
            shard = _shard(shard_index, total_shards)
        elif shard_index in (0, None) and total_shards in (1, None):
            shard = ""
        else:
            raise ValueError(
                f"single_file_naming({self.prefix!r}) has one name, but {total_shards} files of {destination!r:.80} in "
                f"{window!r:.80} were written; give shards=1 and max_writers_per_bundle=0, or another file_naming"
            )
        prefix = str(destination) if self.prefix is None else self.prefix
        end = f".{compression}" if compression else ""
        return f"{prefix}{_times(window)}{shard}{self.suffix or ''}{end}"


def _times(window: BoundedWindow) -> str:
    if isinstance(window, GlobalWindow):
        return ""
    start = getattr(window, "start_us", None)
    bounds = [start, window.end_us] if isinstance(start, int) else [window.end_us]
    return "".join(f"-{Timestamp(micros=micros).to_utc_datetime().isoformat()}" for micros in bounds)


def _shard(index: int | None, total: int | None) -> str:
    # As in Beam, a number that stands alone counts for nothing.
    number = "" if index is None else f"-{0 if total is None else index:05d}"
    return number + ("" if total is None else f"-of-{0 if index is None else total:05d}")


def default_file_naming(prefix: str, suffix: str | None = None) -> FileNaming:
    """Names `<prefix>-<start>-<end>-<shard>-of-<shards><suffix>`; without times in the global window.

    >>> default_file_naming("out", ".txt")(GlobalWindow(), None, 0, 3, "", None)
    'out-00000-of-00003.txt'
    """
    return _Naming(prefix, suffix)


def destination_prefix_naming(suffix: str | None = None) -> FileNaming:
    """Names as of `default_file_naming`, with the destination as prefix.

    >>> destination_prefix_naming(".txt")(GlobalWindow(), None, 0, 3, "", "red")
    'red-00000-of-00003.txt'
    """
    return _Naming(None, suffix)


def single_file_naming(prefix: str, suffix: str | None = None) -> FileNaming:
    """Names without shards, for one file in each window: with `shards=1, max_writers_per_bundle=0`.

    A second file of a window, which would replace the first one, is a `ValueError`.

    >>> single_file_naming("out", ".txt")(GlobalWindow(), None, 0, 1, "", None)
    'out.txt'
    """
    return _Naming(prefix, suffix, is_single=True)


def prefix_naming(prefix: str) -> FileNaming:
    """`default_file_naming` without a suffix."""
    return default_file_naming(prefix)
