"""What: the files of a pattern, looked for again and again (`apache_beam.io.fileio.MatchContinuously`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from headrace.lowlevel.injectors.injector import BaseInjector, Delivery, MemorySplit
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import END_OF_GLOBAL_WINDOW, MIN_TIMESTAMP, SECOND, Duration, Timestamp
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PBegin, PCollection
from headrace.sdk.io.files.fileio import EmptyMatchTreatment, MatchAll, matching
from headrace.sdk.io.files.filesystems import BeamIOError, FileMetadata
from headrace.sdk.io.periodic import PeriodicImpulse
from headrace.sdk.io.timestamps import micros_of, now_micros
from headrace.sdk.transforms.core.low_level import Read
from headrace.sdk.transforms.core.par_do import Map
from headrace.sdk.transforms.core.window_into import WindowInto
from headrace.sdk.windows import FixedWindows

_log = logging.getLogger(__name__)


class MatchContinuously(PTransform[PBegin, PCollection[FileMetadata]]):
    """Files of a pattern as they appear, as `FileMetadata`.

    The timestamp of a file is the time at which it was found, and the watermark follows the clock. Which files were
    found is part of the checkpoint. It grows with their number, unless `timestamp_cursor` is set.

    Args:
        file_pattern: The pattern; see `FileSystems.match`.
        interval: Seconds between two looks.
        has_deduplication: Whether a file is put out once; otherwise each look puts out all files.
        start_timestamp: Time of the first look, in seconds since 1970 UTC or as a `Timestamp`; by default the time at
            which the pipeline first starts.
        stop_timestamp: Time after which there is no look; by default there is no end.
        match_updated_files: Whether a file that has changed since is put out again.
        apply_windowing: Whether files are in fixed windows as long as the interval, instead of the global window.
        empty_match_treatment: What it means if no file matches; see `EmptyMatchTreatment`.
        timestamp_cursor: Whether files are told apart by the time of their last change, which is then their timestamp:
            only those of the newest time are kept in the checkpoint, and a file that appears with an older time is
            left out. A time after that of the look does not count as the newest one.

    Raises:
        ValueError: The arguments do not fit together.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     files = pipeline | MatchContinuously("/none/*", interval=1, start_timestamp=0, stop_timestamp=1)
    ...     _ = files | beam.Map(print)
    """

    def __init__(
        self,
        file_pattern: str,
        interval: float = 360.0,
        has_deduplication: bool = True,
        start_timestamp: Timestamp | float | None = None,
        stop_timestamp: Timestamp | float | None = None,
        match_updated_files: bool = False,
        apply_windowing: bool = False,
        empty_match_treatment: str = EmptyMatchTreatment.ALLOW,
        timestamp_cursor: bool = False,
    ) -> None:
        super().__init__()
        EmptyMatchTreatment.allow_empty_match("", empty_match_treatment)
        if timestamp_cursor and not has_deduplication:
            raise ValueError("timestamp_cursor tells files apart that were found before; set has_deduplication=True")
        if Duration.of(interval).micros <= 0:
            raise ValueError(f"interval is {interval!r:.200}; the interval must be positive, in seconds")
        if timestamp_cursor and not match_updated_files:
            _log.warning("timestamp_cursor=True puts changed files out again, as match_updated_files=True does")
        self.match_upd = match_updated_files or timestamp_cursor
        """Whether a file that has changed is put out again."""
        start, stop = None if start_timestamp is None else micros_of(start_timestamp), _end(stop_timestamp)
        micros = Duration.of(interval).micros
        self._polls = Polls(file_pattern, micros, start, stop, empty_match_treatment, self.match_upd, timestamp_cursor)
        self._interval, self._once, self._apart = interval, has_deduplication, apply_windowing
        if start is not None and stop is not None and stop < start:
            raise ValueError(
                f"stop_timestamp {stop_timestamp!r:.80} precedes start_timestamp {start_timestamp!r:.80}; exchange them"
            )

    def expand(self, inputs: PBegin) -> PCollection[FileMetadata]:
        """The files; bounded if there is a last look."""
        polls = self._polls
        if self._once:
            read = Read(MatchInjector(polls), polls.stop is not None)
            found = inputs.pipeline | "Look" >> read.with_output_types(FileMetadata)
        else:
            start, stop = (None if each is None else Timestamp(micros=each) for each in (polls.start, polls.stop))
            looks = inputs.pipeline | "Look" >> PeriodicImpulse(start, stop, self._interval)
            patterns = looks | "Pattern" >> Map(_constant, polls.pattern).with_output_types(str)
            found = cast("PCollection[object]", patterns | MatchAll(polls.treatment))
        files = found | "Apart" >> WindowInto(FixedWindows(self._interval)) if self._apart else found
        return cast("PCollection[FileMetadata]", files)


def _end(stop: Timestamp | float | None) -> int | None:
    """Microseconds UTC of the end; None for no end."""
    micros = None if stop is None else micros_of(stop)
    return None if micros is None or micros >= END_OF_GLOBAL_WINDOW else micros


def _constant(_: object, pattern: str) -> str:
    return pattern


@dataclass(frozen=True, slots=True)
class Polls:
    """When to look for what; times in microseconds UTC."""

    pattern: str
    interval: int
    start: int | None
    """None for the time at which the pipeline first starts."""
    stop: int | None
    """None for no end."""
    treatment: str
    updated: bool
    """Whether a file that has changed is a new one."""
    by_time: bool
    """Whether the time of its last change is the timestamp of a file, and only the newest files are kept."""


@dataclass(frozen=True, slots=True)
class _MatchPosition:
    """What was found. Persisted: every field, as plain data."""

    start: int
    """Time of the first look, microseconds UTC."""
    polls: int = 0
    """Number of looks so far."""
    watermark: int = MIN_TIMESTAMP
    newest: int = MIN_TIMESTAMP
    """The latest time of a last change so far, microseconds UTC, where files are kept by it."""
    seen: frozenset[tuple[str, int]] = frozenset()
    """Files and the times of their last changes, 0 where a changed file is not a new one."""

    def plain(self) -> object:
        """The position as nested tuples, for the checkpoint."""
        return self.start, self.polls, self.watermark, self.newest, tuple(sorted(self.seen))

    @classmethod
    def of(cls, plain: object) -> _MatchPosition:
        """The position of the result of `plain`."""
        start, polls, watermark, newest, seen = cast("tuple[int, int, int, int, tuple[tuple[str, int], ...]]", plain)
        return cls(start, polls, watermark, newest, frozenset(seen))


@named("MatchInjector")
class MatchInjector(BaseInjector):
    """Looks for files at intervals and delivers those that it has not found before.

    Args:
        polls: When to look for what.
        now: The clock, microseconds UTC.
    """

    def __init__(self, polls: Polls, now: Callable[[], int] = now_micros) -> None:
        self._polls, self._now = polls, now
        self._next: int | None = None
        """Time of the next look, microseconds UTC; None before the first look of this run."""
        self._planned: tuple[object, Delivery] | None = None
        """The position of the last delivery with files, and that delivery, which an abandoned epoch gets again."""

    def start(self) -> object:
        """No file."""
        start = self._polls.start
        return _MatchPosition(self._now() if start is None else start).plain()

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The new files, if a look is due. Raises `BeamIOError` if there must be files and are none."""
        if self._planned is not None and self._planned[0] == position:
            return self._planned[1]
        before, now = _MatchPosition.of(position), self._now()
        if self._is_over(before):
            return Delivery([], position, before.watermark, done=True)
        if now < before.start or (self._next is not None and now < self._next):
            due = before.start if self._next is None else self._next
            return Delivery([], position, before.watermark, idle=True, quiet_seconds=(due - now) / SECOND)
        self._next = now + self._polls.interval
        rows, after = self._look(before, now)
        batch = Batch([file for file, _ in rows], [timestamp for _, timestamp in rows])
        delivery = Delivery(
            [MemorySplit(batch)] if rows else [], after.plain(), after.watermark, done=self._is_over(after)
        )
        self._planned = position, delivery
        return delivery

    def _is_over(self, position: _MatchPosition) -> bool:
        """Whether as many looks were made as there are intervals between start and stop."""
        stop = self._polls.stop
        return stop is not None and position.polls >= -(-(stop - position.start) // self._polls.interval)

    def _look(self, before: _MatchPosition, now: int) -> tuple[Sequence[tuple[FileMetadata, int]], _MatchPosition]:
        """The new files with their timestamps, and the position after them."""
        polls = self._polls
        files = [(file, self._changed(file)) for file in matching(polls.pattern, polls.treatment)]
        keys = {(file.path, changed if polls.updated else 0): (file, changed) for file, changed in files}
        seen = before.seen | {
            key for key, (_, changed) in keys.items() if changed >= before.newest or not polls.by_time
        }
        new = [keys[key] for key in keys if key in seen and key not in before.seen]
        watermark, newest = now, before.newest
        if polls.by_time:
            # A time that is still to come would leave out whatever appears until then; its file is remembered instead.
            newest = max([newest, *(changed for _, changed in files if changed <= now)])
            seen = frozenset(key for key in seen if key[1] >= newest)
            watermark = min(newest, now) if newest > before.newest else now
        rows = [(file, changed if polls.by_time else now) for file, changed in new]
        watermark = max(before.watermark, watermark)
        return rows, replace(before, polls=before.polls + 1, watermark=watermark, newest=newest, seen=frozenset(seen))

    def _changed(self, file: FileMetadata) -> int:
        """Time of the last change in microseconds UTC, where it matters. Raises `BeamIOError` if it is not known."""
        if not self._polls.updated:
            return 0
        if not file.last_updated_in_seconds:
            raise BeamIOError(
                f"the time of the last change of {file.path} is not known, which tells changed files apart; set "
                "match_updated_files=False"
            )
        return round(file.last_updated_in_seconds * SECOND)
