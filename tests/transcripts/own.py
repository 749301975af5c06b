"""Window functions, triggers and predicates of a user's own, for transcripts to name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.lowlevel.time import SECOND, Timestamp
from headrace.sdk.triggers import FINISHED, Moment, Progress, Trigger
from headrace.sdk.windows import (
    AssignContext,
    BoundedWindow,
    IntervalWindow,
    MergeContext,
    NonMergingWindowFn,
    WindowFn,
)


def is_zero(value: object) -> bool:
    """A punctuation."""
    return value == 0


def is_big(value: object) -> bool:
    return isinstance(value, int) and value >= 100


@dataclass(frozen=True)
class AfterTotal(Trigger):
    """Fires once, when the values of a pane add up to enough."""

    enough: int
    needs_values = True

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        return progress if progress is FINISHED else _total(progress) + sum(values)

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        return FINISHED if FINISHED in parts else sum(map(_total, parts))

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        return progress is not FINISHED and _total(progress) >= self.enough

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        return FINISHED


def _total(progress: Progress) -> int:
    return progress if isinstance(progress, int) else 0


@dataclass(frozen=True)
class AfterQuiet(Trigger):
    """Fires once, when nothing has come for so many seconds of wall time."""

    seconds: int
    uses_wall_time = True

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        return progress if progress is FINISHED else moment.wall_time + self.seconds * SECOND

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        return max((part for part in parts if isinstance(part, int)), default=None)

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        return isinstance(progress, int) and moment.wall_time >= progress

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        return FINISHED

    def wake_at(self, progress: Progress, wall_time: int) -> int | None:
        return progress if isinstance(progress, int) and progress > wall_time else None


@dataclass(frozen=True)
class Later(NonMergingWindowFn):
    """Windows of ten seconds whose elements count as three seconds later than they are, within the window."""

    def assign(self, context: AssignContext) -> Iterable[BoundedWindow]:
        start = context.timestamp.micros // (10 * SECOND) * 10 * SECOND
        return [IntervalWindow.of_micros(start, start + 10 * SECOND)]

    def get_transformed_output_time(self, window: BoundedWindow, input_timestamp: Timestamp) -> Timestamp:
        return min(input_timestamp + 3, window.max_timestamp())


class Parity(BoundedWindow):
    """The even or the odd seconds of the first hundred."""

    def __init__(self, odd: bool) -> None:
        super().__init__(100)
        self.odd = odd

    def __repr__(self) -> str:
        return "odd" if self.odd else "even"


class ParityCoder:
    def encode(self, value: object) -> bytes:
        assert isinstance(value, Parity)
        return b"1" if value.odd else b"0"

    def decode(self, data: bytes) -> Parity:
        return Parity(data == b"1")

    def is_deterministic(self) -> bool:
        return True


@dataclass(frozen=True)
class Parities(NonMergingWindowFn):
    """Windows of a kind of their own; elements after the first hundred seconds are in none."""

    def assign(self, context: AssignContext) -> Iterable[BoundedWindow]:
        second = context.timestamp.micros // SECOND
        return [Parity(second % 2 == 1)] if second < 100 else []

    def get_window_coder(self) -> ParityCoder:
        return ParityCoder()


class Span(BoundedWindow):
    """Neighbouring seconds, and how many elements' windows became one."""

    def __init__(self, first: int, last: int, weight: int = 1) -> None:
        super().__init__(last + 1)
        self.first, self.final, self.weight = first, last, weight

    def __repr__(self) -> str:
        return f"{self.first} to {self.final}: {self.weight}"


class SpanCoder:
    def encode(self, value: object) -> bytes:
        assert isinstance(value, Span)
        return f"{value.first} {value.final} {value.weight}".encode()

    def decode(self, data: bytes) -> Span:
        return Span(*map(int, data.split()))

    def is_deterministic(self) -> bool:
        return True


@dataclass(frozen=True)
class Neighbours(WindowFn):
    """Seconds next to each other share a window, which also says how many they are."""

    def assign(self, context: AssignContext) -> Iterable[BoundedWindow]:
        second = context.timestamp.micros // SECOND
        return [Span(second, second)]

    def merge(self, merge_context: MergeContext) -> None:
        run: list[Span] = []
        for span in sorted(merge_context.windows, key=lambda each: each.first):
            assert isinstance(span, Span)
            if run and span.first > run[-1].final + 1:
                _join(merge_context, run)
                run = []
            run.append(span)
        _join(merge_context, run)

    def get_window_coder(self) -> SpanCoder:
        return SpanCoder()


def _join(merge_context: MergeContext, run: list[Span]) -> None:
    if len(run) > 1:
        weight = sum(span.weight for span in run)
        merge_context.merge(run, Span(run[0].first, run[-1].final, weight))
