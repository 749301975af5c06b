"""Where: the records of one key and bundle, sorted by the windows they belong to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from enum import Enum
from operator import itemgetter
from typing import NamedTuple, TypeAlias, cast

from headrace.lowlevel.paired import Paired
from headrace.sdk.buckets import FixedBuckets, stretches_of
from headrace.sdk.frames import Frame, Frames
from headrace.sdk.windowing import Windowing
from headrace.sdk.windows import BoundedWindow, FixedWindows, GlobalWindow, GlobalWindows, Sessions, SlidingWindows
from headrace.sdk.windows import TimestampCombiner as Stamp
from headrace.sdk.windows.coder import decode_interval

Times: TypeAlias = Sequence[int]
_REMEMBERED = 10_000
"""Windows that are looked up rather than made again."""
_MANY = 256
"""Records of a key and bundle from which on a column of their times pays."""


class InputForm(Enum):
    """What the payload of a record is on a stream into a grouping; the value is a pair of key and payload."""

    PLAIN = "plain"
    """The value itself. Its windows follow from the timestamp."""
    WINDOWED = "windowed"
    """A triple: the value, its windows, its pane or None."""
    LIFTED = "lifted"
    """A quadruple made by `LiftedCombine`: code of the window (or of an interval whose elements all are in the same
    windows), accumulator, number of elements in it, and how many are lost if the (last) window is closed."""
    SHARDED = "sharded"
    """A sextuple made by `Shards`: code of the window, accumulator, number of elements in it, how many are lost if the
    window is closed, their event times or None, and how many records this stands for. Code and accumulator are None
    for elements in no window; what is lost of these is late."""


class Arrival(NamedTuple):
    """What a bundle brings for one window."""

    frame: Frame
    items: list[object]
    """Values, or accumulators where the input is lifted."""
    elements: int
    """Number of elements."""
    lost: int
    """Number of those that are lost if this window is closed: the others are in a later window too."""
    timestamps: list[int] | None
    """Event times of the elements, microseconds UTC; None where panes do not need them."""


class Arrivals(NamedTuple):
    """A bundle's records by window."""

    by_window: list[Arrival]
    late: int = 0
    """Elements left out as the one window they had was closed."""
    outside: int = 0
    """Elements that the window function put into no window."""
    folded: int = 0
    """Elements that came inside others' records: how many more elements there were than records."""
    apart: bool = False
    """Whether windows that would merge have merged."""


def together(parts: Sequence[Arrivals]) -> Arrivals:
    """The records of several parts of a bundle by window, those that are in no window or were counted left out."""
    if len(parts) == 1:
        return parts[0]
    return Arrivals([arrival for part in parts for arrival in part.by_window], sum(part.late for part in parts))


Sorter: TypeAlias = Callable[[Sequence[object], Times, int], Arrivals]
"""Sorts records, given as values (pairs of key and payload), timestamps and the input watermark."""


def sorter(windowing: Windowing, form: InputForm, frames: Frames) -> Sorter:
    """The quickest way to sort such records by window."""
    timed = windowing.timestamp_combiner is not Stamp.OUTPUT_AT_EOW
    if form is InputForm.LIFTED:
        return _Lifted(windowing, frames)
    if form is InputForm.SHARDED:
        return _Sharded(frames)
    if form is InputForm.WINDOWED:
        return _Windowed(frames, timed)
    kinds: dict[type, Callable[[], Sorter]] = {
        FixedWindows: lambda: _Fixed(cast(FixedWindows, windowing.window_fn), frames, timed),
        SlidingWindows: lambda: _Sliding(cast(SlidingWindows, windowing.window_fn), frames, timed),
        GlobalWindows: lambda: _Global(frames, timed),
        Sessions: lambda: _Sessions(cast(Sessions, windowing.window_fn), windowing, frames, timed),
    }
    return kinds.get(type(windowing.window_fn), lambda: _Assigned(windowing, frames, timed))()


_payload = cast(Callable[[object], object], itemgetter(1))
"""Of a pair of key and payload."""


def _payloads(pairs: Sequence[object]) -> list[object]:
    return pairs.seconds if isinstance(pairs, Paired) else list(map(_payload, pairs))


class _Global:
    def __init__(self, frames: Frames, timed: bool) -> None:
        self._frame = frames.of_window(GlobalWindow())
        self._timed = timed

    def __call__(self, values: Sequence[object], timestamps: Times, watermark: int) -> Arrivals:
        count = len(values)
        stamps = list(timestamps) if self._timed else None
        return Arrivals([Arrival(self._frame, _payloads(values), count, count, stamps)])


class _Fixed:
    def __init__(self, window_fn: FixedWindows, frames: Frames, timed: bool) -> None:
        self._size, self._offset = window_fn.size.micros, window_fn.offset.micros
        self._buckets = FixedBuckets(window_fn, frames)
        self._frames = frames
        self._timed = timed
        self._known: dict[int, Frame] = {}

    def __call__(self, values: Sequence[object], timestamps: Times, watermark: int) -> Arrivals:
        size, offset = self._size, self._offset
        oldest = min(timestamps, default=0)
        start = oldest - (oldest - offset) % size
        if values and max(timestamps) < start + size:
            # All in one window, as is usual for the few records that most keys have.
            count, its = len(values), _payloads(values)
            return Arrivals([Arrival(self._frame(start), its, count, count, list(timestamps) if self._timed else None)])
        items = self._by_window(values, timestamps)
        stamps = _by_start(timestamps, size, offset) if self._timed else None
        return Arrivals(
            [
                Arrival(self._frame(start), its, len(its), len(its), None if stamps is None else stamps[start])
                for start, its in items.items()
            ]
        )

    def _by_window(self, values: Sequence[object], timestamps: Times) -> dict[int, list[object]]:
        size, offset = self._size, self._offset
        items: dict[int, list[object]] = defaultdict(list)
        stretches = stretches_of(self._buckets, timestamps) if len(values) >= _MANY else None
        if stretches is None:
            pairs = cast("Sequence[tuple[object, object]]", values)
            for (_, payload), timestamp in zip(pairs, timestamps, strict=True):
                items[timestamp - (timestamp - offset) % size].append(payload)
            return items
        payloads = _payloads(values)
        for start, first, stop in stretches:
            items[start] += payloads[first:stop]
        return items

    def _frame(self, start: int) -> Frame:
        found = self._known.get(start)
        if found is None:
            if len(self._known) > _REMEMBERED:
                self._known.clear()
            found = self._known[start] = self._frames.of_interval(start, start + self._size)
        return found


def _by_start(timestamps: Times, size: int, offset: int) -> dict[int, list[int]]:
    stamps: dict[int, list[int]] = defaultdict(list)
    for timestamp in timestamps:
        stamps[timestamp - (timestamp - offset) % size].append(timestamp)
    return stamps


class _Sliding:
    """Elements of one period are in the same windows, but for the last one if the size is no multiple of the period."""

    def __init__(self, window_fn: SlidingWindows, frames: Frames, timed: bool) -> None:
        self._fn = window_fn
        self._frames = frames
        self._timed = timed

    def __call__(self, values: Sequence[object], timestamps: Times, watermark: int) -> Arrivals:
        size = self._fn.size.micros
        found: dict[int, Arrival] = {}
        outside = 0
        for group, stamps in self._alike(values, timestamps):
            starts = self._fn.starts(stamps[0])
            lost = len(group)
            if not starts:
                outside += lost
            for start in starts:
                held = found.get(start)
                if held is None:
                    frame = self._frames.of_interval(start, start + size)
                    found[start] = Arrival(frame, list(group), len(group), lost, list(stamps) if self._timed else None)
                else:
                    held.items.extend(group)
                    if held.timestamps is not None:
                        held.timestamps.extend(stamps)
                    found[start] = held._replace(elements=held.elements + len(group), lost=held.lost + lost)
                lost = 0
        return Arrivals(list(found.values()), outside=outside)

    def _alike(self, values: Sequence[object], timestamps: Times) -> list[tuple[list[object], list[int]]]:
        """The payloads and timestamps of elements that are in the same windows."""
        period, offset = self._fn.period.micros, self._fn.offset.micros
        into = (self._fn.size.micros - 1) % period
        alike: dict[tuple[int, bool], tuple[list[object], list[int]]] = {}
        for value, timestamp in zip(values, timestamps, strict=True):
            behind = (timestamp - offset) % period
            group = alike.setdefault((timestamp - behind, behind > into), ([], []))
            group[0].append(_payload(value))
            group[1].append(timestamp)
        return list(alike.values())


class _Sessions:
    """Elements closer together than the gap go into one window at once: that is what merging would come to."""

    def __init__(self, window_fn: Sessions, windowing: Windowing, frames: Frames, timed: bool) -> None:
        self._gap = window_fn.gap_size.micros
        self._wait = self._gap + windowing.allowed_lateness_us
        self._frames = frames
        self._timed = timed

    def __call__(self, values: Sequence[object], timestamps: Times, watermark: int) -> Arrivals:
        order = sorted(range(len(values)), key=timestamps.__getitem__)
        oldest = watermark - self._wait
        late = 0
        while late < len(order) and timestamps[order[late]] <= oldest:
            late += 1
        runs: list[Arrival] = []
        begin = late
        for at in range(late + 1, len(order) + 1):
            if at == len(order) or timestamps[order[at]] >= timestamps[order[at - 1]] + self._gap:
                runs.append(self._run(values, timestamps, order[begin:at]))
                begin = at
        return Arrivals(runs, late, apart=True)

    def _run(self, values: Sequence[object], timestamps: Times, order: list[int]) -> Arrival:
        frame = self._frames.of_interval(timestamps[order[0]], timestamps[order[-1]] + self._gap)
        items = [_payload(values[index]) for index in order]
        stamps = [timestamps[index] for index in order] if self._timed else None
        return Arrival(frame, items, len(items), len(items), stamps)


class _Exploded:
    """Collects elements that each come with their windows."""

    def __init__(self, frames: Frames, timed: bool) -> None:
        self._frames = frames
        self._timed = timed

    def collect(
        self, payloads: Sequence[object], timestamps: Times, windows: Sequence[Sequence[BoundedWindow]]
    ) -> Arrivals:
        found: dict[bytes, tuple[Frame, list[object], list[int], list[int]]] = {}
        outside = 0
        for payload, timestamp, its in zip(payloads, timestamps, windows, strict=True):
            frames = [self._frames.of_window(window) for window in its]
            if not frames:
                outside += 1
                continue
            final = max(frames, key=lambda frame: frame.closes) if len(frames) > 1 else frames[0]
            for frame in frames:
                _, items, lost, stamps = found.setdefault(frame.code, (frame, [], [], []))
                items.append(payload)
                lost.append(frame is final)
                stamps.append(timestamp)
        return Arrivals(
            [
                Arrival(frame, items, len(items), sum(lost), stamps if self._timed else None)
                for frame, items, lost, stamps in found.values()
            ],
            outside=outside,
        )


class _Windowed(_Exploded):
    def __call__(self, values: Sequence[object], timestamps: Times, watermark: int) -> Arrivals:
        triples = cast("list[tuple[object, Sequence[BoundedWindow], object]]", _payloads(values))
        return self.collect([triple[0] for triple in triples], timestamps, [triple[1] for triple in triples])


class _Assigned(_Exploded):
    def __init__(self, windowing: Windowing, frames: Frames, timed: bool) -> None:
        super().__init__(frames, timed)
        self._assign_all = windowing.window_fn.assign_all

    def __call__(self, values: Sequence[object], timestamps: Times, watermark: int) -> Arrivals:
        payloads = _payloads(values)
        return self.collect(payloads, timestamps, self._assign_all(timestamps, payloads))


class LiftedFrames:
    """The windows of accumulators; those of a stretch that is in several sliding windows go into each of them."""

    def __init__(self, windowing: Windowing, frames: Frames) -> None:
        self._frames = frames
        window_fn = windowing.window_fn
        self._sliding = window_fn if type(window_fn) is SlidingWindows else None
        self._known: dict[bytes, list[Frame]] = {}

    def of(self, code: bytes) -> list[Frame]:
        """The windows of a window's or stretch's code, the latest first."""
        found = self._known.get(code)
        if found is None:
            if len(self._known) > _REMEMBERED:
                self._known.clear()
            found = self._known[code] = self._expand(code)
        return found

    def _expand(self, code: bytes) -> list[Frame]:
        if self._sliding is not None:
            start, end = decode_interval(code)
            size = self._sliding.size.micros
            if end - start != size:
                return [self._frames.of_interval(at, at + size) for at in self._sliding.starts(start)]
        return [self._frames.of_code(code)]


class _Lifted:
    """Accumulators by window."""

    def __init__(self, windowing: Windowing, frames: Frames) -> None:
        self._frames = LiftedFrames(windowing, frames)

    def __call__(self, values: Sequence[object], timestamps: Times, watermark: int) -> Arrivals:
        found: dict[bytes, tuple[Frame, list[object], list[int], list[int]]] = {}
        lifted = cast("Sequence[tuple[object, tuple[bytes, object, int, int]]]", values)
        folded = -len(values)
        for _, (code, accumulator, elements, lost) in lifted:
            folded += elements
            for frame in self._frames.of(code):
                held = found.get(frame.code)
                if held is None:
                    found[frame.code] = (frame, [accumulator], [elements], [lost])
                else:
                    held[1].append(accumulator)
                    held[2].append(elements)
                    held[3].append(lost)
                lost = 0
        return Arrivals(
            [
                Arrival(frame, accumulators, sum(counts), sum(lost), None)
                for frame, accumulators, counts, lost in found.values()
            ],
            folded=folded,
        )


class _Sharded:
    """Accumulators, each of one window and with all that there is to know of its elements."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames

    def __call__(self, values: Sequence[object], timestamps: Times, watermark: int) -> Arrivals:
        found: dict[bytes, Arrival] = {}
        late, outside, folded = 0, 0, -len(values)
        for _, payload in cast("Sequence[tuple[object, _Share]]", values):
            code, accumulator, elements, lost, stamps, records = payload
            folded += records
            if code is None:
                late += lost
                outside += elements
            elif (held := found.get(code)) is None:
                found[code] = Arrival(self._frames.of_code(code), [accumulator], elements, lost, stamps)
            else:
                held.items.append(accumulator)
                if held.timestamps is not None and stamps is not None:
                    held.timestamps.extend(stamps)
                found[code] = held._replace(elements=held.elements + elements, lost=held.lost + lost)
        return Arrivals(list(found.values()), late, outside, folded)


_Share: TypeAlias = tuple[bytes | None, object, int, int, list[int] | None, int]
