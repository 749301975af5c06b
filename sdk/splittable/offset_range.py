"""What: ranges of offsets as restrictions (`apache_beam.io.restriction_trackers`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from headrace.lowlevel.stored_names import stored_as
from headrace.sdk.splittable.restrictions import RestrictionProgress, RestrictionTracker


@stored_as("OffsetRange")
@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets from `start`, included, to `stop`, excluded.

    Raises:
        ValueError: `start` is greater than `stop`.

    >>> list(OffsetRange(0, 10).split(4))
    [OffsetRange(start=0, stop=4), OffsetRange(start=4, stop=8), OffsetRange(start=8, stop=10)]
    """

    start: int
    stop: int

    def __post_init__(self) -> None:
        if self.start > self.stop:
            raise ValueError(f"OffsetRange: start {self.start} is greater than stop {self.stop}; swap them")

    def size(self) -> int:
        """The number of offsets."""
        return self.stop - self.start

    def split(self, desired_num_offsets_per_split: int, min_num_offsets_per_split: int = 1) -> Iterator[OffsetRange]:
        """The range as ranges of about the desired size; a small rest is part of the last one."""
        size = max(desired_num_offsets_per_split, min_num_offsets_per_split)
        start = self.start
        while start < self.stop:
            stop = min(start + size, self.stop)
            rest = self.stop - stop
            if rest < desired_num_offsets_per_split // 4 or rest < min_num_offsets_per_split:
                stop = self.stop
            yield OffsetRange(start, stop)
            start = stop

    def split_at(self, split_pos: int) -> tuple[OffsetRange, OffsetRange]:
        """The offsets before a position, and the others."""
        return OffsetRange(self.start, split_pos), OffsetRange(split_pos, self.stop)


class OffsetRestrictionTracker(RestrictionTracker):
    """Tracks a range of offsets, which are claimed in increasing order; offsets may be left out.

    >>> tracker = OffsetRestrictionTracker(OffsetRange(0, 10))
    >>> tracker.try_claim(3), tracker.try_split(0), tracker.try_claim(4)
    (True, (OffsetRange(start=0, stop=4), OffsetRange(start=4, stop=10)), False)
    """

    def __init__(self, offset_range: OffsetRange) -> None:
        if not isinstance(offset_range, OffsetRange):
            raise TypeError(f"OffsetRestrictionTracker takes an OffsetRange, got {offset_range!r:.200}")
        self._range = offset_range
        self._claimed: int | None = None
        self._asked_for: int | None = None
        """The last offset that was to be claimed, in the range or behind it."""
        self._checkpointed = False

    def current_restriction(self) -> OffsetRange:
        """See `RestrictionTracker`."""
        return self._range

    def current_progress(self) -> RestrictionProgress:
        """See `RestrictionTracker`."""
        if self._claimed is None:
            return RestrictionProgress(fraction=0.0)
        size = self._range.size()
        return RestrictionProgress(fraction=(self._claimed - self._range.start) / size if size else 1.0)

    def start_position(self) -> int:
        """The first offset of the range."""
        return self._range.start

    def stop_position(self) -> int:
        """The offset behind the range."""
        return self._range.stop

    def try_claim(self, position: object) -> bool:
        """See `RestrictionTracker`. Raises ValueError for an offset that is not greater than the last one."""
        offset = cast(int, position)
        if self._asked_for is not None and offset <= self._asked_for:
            raise ValueError(
                f"offset {offset} was claimed after offset {self._asked_for}; claim offsets in increasing order"
            )
        if offset < self._range.start:
            raise ValueError(
                f"offset {offset} was claimed in {self._range}; begin with current_restriction().start or later"
            )
        self._asked_for = offset
        if offset >= self._range.stop:
            return False
        self._claimed = offset
        return True

    def try_split(self, fraction_of_remainder: float) -> tuple[OffsetRange, OffsetRange] | None:
        """See `RestrictionTracker`."""
        if self._checkpointed:
            return None
        last = self._range.start - 1 if self._asked_for is None else self._asked_for
        split_pos = last + int(max(1, (self._range.stop - last) * fraction_of_remainder))
        if split_pos >= self._range.stop:
            return None
        self._checkpointed = fraction_of_remainder == 0
        self._range, rest = self._range.split_at(split_pos)
        return self._range, rest

    def check_done(self) -> None:
        """See `RestrictionTracker`."""
        begin = self._range.start if self._asked_for is None else self._asked_for + 1
        if begin < self._range.stop:
            raise ValueError(f"{OffsetRange(begin, self._range.stop)} was not claimed")

    def is_bounded(self) -> bool:
        """See `RestrictionTracker`."""
        return True


class UnsplittableRestrictionTracker(RestrictionTracker):
    """Another tracker that is never split: its restriction is processed in one go.

    >>> tracker = UnsplittableRestrictionTracker(OffsetRestrictionTracker(OffsetRange(0, 10)))
    >>> tracker.try_claim(3), tracker.try_split(0)
    (True, None)
    """

    def __init__(self, underlying_tracker: RestrictionTracker) -> None:
        self._tracker = underlying_tracker

    def current_restriction(self) -> object:
        """That of the other tracker."""
        return self._tracker.current_restriction()

    def current_progress(self) -> RestrictionProgress:
        """That of the other tracker."""
        return self._tracker.current_progress()

    def try_claim(self, position: object) -> bool:
        """As of the other tracker."""
        return self._tracker.try_claim(position)

    def try_split(self, fraction_of_remainder: float) -> None:
        """Return None."""

    def check_done(self) -> bool | None:
        """As of the other tracker."""
        return self._tracker.check_done()

    def is_bounded(self) -> bool:
        """As of the other tracker."""
        return self._tracker.is_bounded()
