"""What: names of the files of `WriteToFiles`, of window, shard and destination (`apache_beam.io.fileio`)."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias
from uuid import uuid4

from headrace.lowlevel.time import Timestamp
from headrace.sdk.model.panes import PaneInfo
from headrace.sdk.windows import BoundedWindow, FixedWindows, GlobalWindow, GlobalWindows, SlidingWindows

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
        """The name of a file. Raises `ValueError` for a second file of a pane with the same name."""
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
        return f"{prefix}{_times(window)}{_later(pane)}{shard}{self.suffix or ''}{end}"


@dataclass(frozen=True, slots=True)
class ShardTemplate:
    """Names by a template with letters for what changes, as `WriteToText` takes it.

    Runs of S stand for the number of the shard, N for the number of shards, U for a random number, W and V for the
    window (`[0.0, 60.0)`, or its bounds as UTC times); a number has at least as many digits as its run has letters.

    Raises:
        ValueError: The template has no S, and so one name for all shards.

    >>> ShardTemplate("out", "-SSS-of-NN", ".txt")(GlobalWindow(), None, 7, 12, "", None)
    'out-007-of-12.txt'
    """

    prefix: str
    template: str
    """Empty for a single file."""
    suffix: str

    def __post_init__(self) -> None:
        if self.template and "S" not in self.template:
            raise ValueError(
                f"shard_name_template {self.template!r:.200} has no S for the number of the shard, so all shards would "
                "have one name; give such as '-SSSSS-of-NNNNN', or '' for a single file"
            )

    def tells_windows(self) -> bool:
        """Whether files of different windows have different names."""
        return bool({"W", "V", "U"} & {*self.template})

    def __call__(
        self, window: BoundedWindow, pane: PaneInfo | None, shard: int | None, shards: int | None, *_: object
    ) -> str:
        """The name of a file."""
        name = self.template
        values = {"S": shard or 0, "N": shards or 0, "U": uuid4().int, "W": window, "V": _bounds(window)}
        # The letters of what is filled in are no part of the template.
        found = {run[0] for run in re.finditer(r"([SNUWV])\1*", name) if run.start() == name.index(run[1])}
        parts = re.split(f"({'|'.join(sorted(found, key=len, reverse=True))})", name) if found else [name]
        filled = (_filled(part, values) if part in found else part for part in parts)
        return f"{self.prefix}{''.join(filled)}{_later(pane)}{self.suffix}"


def _filled(run: str, values: Mapping[str, object]) -> str:
    value = values[run[0]]
    return f"{value:0{len(run)}d}" if isinstance(value, int) else f"{value!s:>{len(run)}}"


def _bounds(window: BoundedWindow) -> str:
    if isinstance(window, GlobalWindow):
        return "None"
    start = getattr(window, "start_us", window.end_us)
    times = [Timestamp(micros=micros).to_utc_datetime() for micros in (start, window.end_us)]
    return "[{:%Y-%m-%dT%H-%M-%S}, {:%Y-%m-%dT%H-%M-%S})".format(*times)


def _later(pane: PaneInfo | None) -> str:
    """What tells the files of a further pane of a window from those of the first."""
    if pane is None or (pane.index == 0 and not pane.is_retraction):
        return ""
    return f"-pane-{pane.index}{'-retracted' if pane.is_retraction else ''}"


def tells_files_apart(naming: FileNaming, window_fn: object) -> bool:
    """Whether files of one destination certainly have different names: by window, pane and shard.

    >>> from headrace.transforms.window import FixedWindows, Sessions
    >>> naming = default_file_naming("out")
    >>> tells_files_apart(naming, FixedWindows(60)), tells_files_apart(naming, Sessions(60))
    (True, False)
    """
    # Windows of other functions may have equal bounds, and those that merge begin to count panes anew.
    if not isinstance(window_fn, (GlobalWindows, FixedWindows, SlidingWindows)):
        return False
    if isinstance(naming, ShardTemplate):
        # V has no fractions of a second.
        return bool({"W", "U"} & {*naming.template}) or isinstance(window_fn, GlobalWindows)
    return isinstance(naming, _Naming)


def is_one_for_all(naming: FileNaming) -> bool:
    """Whether names do not depend on the destination or on chance, so that each step with them gives the same ones.

    >>> is_one_for_all(default_file_naming("out")), is_one_for_all(destination_prefix_naming())
    (True, False)
    """
    if isinstance(naming, ShardTemplate):
        return "U" not in naming.template
    return isinstance(naming, _Naming) and naming.prefix is not None


def _times(window: BoundedWindow) -> str:
    if isinstance(window, GlobalWindow):
        return ""
    start = getattr(window, "start_us", None)
    bounds = [start, window.end_us] if isinstance(start, int) else [window.end_us]
    text = "".join(f"-{Timestamp(micros=micros).to_utc_datetime().isoformat()}" for micros in bounds)
    # On Windows what stands behind a colon is no part of a file's name.
    return text.replace(":", "-") if sys.platform == "win32" else text


def _shard(index: int | None, total: int | None) -> str:
    # As in Beam, a number that stands alone counts for nothing.
    number = "" if index is None else f"-{0 if total is None else index:05d}"
    return number + ("" if total is None else f"-of-{0 if index is None else total:05d}")


def default_file_naming(prefix: str, suffix: str | None = None) -> FileNaming:
    """Names `<prefix>-<start>-<end>-<shard>-of-<shards><suffix>`; without times in the global window.

    In files of a further pane of a window, `-pane-<index>` stands before the shard, also in the other names.

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

    A second file of a window's pane, which would replace the first one, is a `ValueError`.

    >>> single_file_naming("out", ".txt")(GlobalWindow(), None, 0, 1, "", None)
    'out.txt'
    """
    return _Naming(prefix, suffix, is_single=True)


def prefix_naming(prefix: str) -> FileNaming:
    """`default_file_naming` without a suffix.

    >>> from headrace.transforms.window import GlobalWindow
    >>> prefix_naming("scores")(GlobalWindow(), None, 0, 2, None, None)
    'scores-00000-of-00002'
    """
    return default_file_naming(prefix)
