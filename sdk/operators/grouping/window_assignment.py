"""Where: the records of one key and bundle, sorted by the windows they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple, TypeAlias, cast

from headrace.lowlevel.records.column_block import LazyPairs
from headrace.lowlevel.records.late_data import is_closed
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.windows import BoundedWindow, Sessions, SlidingWindows
from headrace.sdk.windows import TimestampCombiner as Stamp
from headrace.sdk.windows.bounded import decode_interval
from headrace.sdk.windows.slices import Slices, slice_starts, slices_of
from headrace.sdk.windows.window_namespace import WindowNamespace, WindowNamespaces
from headrace.sdk.windows.windowing import Windowing

Times: TypeAlias = Sequence[int]
_REMEMBERED = 10_000
"""Number of namespaces that a cache holds before it is emptied."""


@dataclass(slots=True)
class WindowInput:
    """The elements of a bundle that belong to one window."""

    namespace: WindowNamespace
    items: list[object]
    """Values; accumulators if the input is lifted."""
    elements: int
    """Number of elements."""
    lost: int
    """Number of elements that are lost if this window is closed; the others are in a later window too."""
    timestamps: list[int] | None
    """Event times of the elements, microseconds UTC; None if the timestamps of panes do not depend on them."""

    def as_members(self) -> WindowInput:
        """The same elements, each as a `Member`: with the code of the window in which it arrived."""
        code = self.namespace.code
        return replace(self, items=[(item, code) for item in self.items])


def _put(
    by_window: dict[bytes, WindowInput],
    namespace: WindowNamespace,
    items: Iterable[object],
    elements: int,
    lost: int,
    timestamps: Iterable[int] | None,
) -> None:
    """Add elements to those of their window; `by_window` has the windows by code. Lists that are given are copied."""
    found = by_window.get(namespace.code)
    if found is None:
        times = None if timestamps is None else list(timestamps)
        by_window[namespace.code] = WindowInput(namespace, list(items), elements, lost, times)
        return
    found.items += items
    found.elements += elements
    found.lost += lost
    if found.timestamps is not None and timestamps is not None:
        found.timestamps += timestamps


class Arrivals(NamedTuple):
    """The elements of a bundle by window."""

    by_window: list[WindowInput]
    late: Sequence[tuple[WindowNamespace, int]] = ()
    """Windows that were closed already, with the number of elements that are in no other window; they are left out."""
    outside: int = 0
    """Number of elements that the window function put into no window."""
    folded: int = 0
    """Elements minus records: how many elements fewer the shuffle carried, thanks to combining before it."""
    disjoint: bool = False
    """Whether the windows are already merged among themselves."""


def joined_arrivals(parts: Sequence[Arrivals]) -> Arrivals:
    """The elements of several batches of a bundle by window, without the counts `outside` and `folded`."""
    if len(parts) == 1:
        return parts[0]
    by_window = [arrival for part in parts for arrival in part.by_window]
    return Arrivals(by_window, [late for part in parts for late in part.late])


def joined_by_window(arrivals: Sequence[WindowInput]) -> list[WindowInput]:
    """The same elements with one entry for each window."""
    by_window: dict[bytes, WindowInput] = {}
    for each in arrivals:
        _put(by_window, each.namespace, each.items, each.elements, each.lost, each.timestamps)
    return list(by_window.values())


Sorter: TypeAlias = Callable[[Sequence[object], Times, int], Arrivals]
"""Sorts records by window: takes values (pairs of key and payload), equally many timestamps, and the input watermark.

Times are microseconds UTC.
"""


def sorter(windowing: Windowing, form: GroupingInputForm, namespaces: WindowNamespaces) -> Sorter:
    """The sorter of records of a form by the windows of a windowing."""
    timed = windowing.timestamp_combiner is not Stamp.OUTPUT_AT_EOW
    if form is GroupingInputForm.LIFTED:
        return _Lifted(windowing, namespaces)
    if form is GroupingInputForm.SHARDED:
        return _Sharded(namespaces)
    if form is GroupingInputForm.WINDOWED:
        return _Windowed(namespaces, timed)
    if (slices := slices_of(windowing)) is not None:
        return _Sliced(slices, LiftedNamespaces(windowing, namespaces), timed)
    if type(windowing.window_fn) is Sessions:
        return _Sessions(windowing.window_fn, windowing, namespaces, timed)
    return _Assigned(windowing, namespaces, timed)


_payload = cast(Callable[[object], object], itemgetter(1))
"""Takes the payload of a pair (key, payload)."""


def payloads_of(pairs: Sequence[object]) -> list[object]:
    """The payload of each pair (key, payload)."""
    return pairs.seconds if isinstance(pairs, LazyPairs) else list(map(_payload, pairs))


class _Sliced:
    """Sorts by windows that consist of slices: elements of one slice are in the same windows."""

    def __init__(self, slices: Slices, namespaces: LiftedNamespaces, timed: bool) -> None:
        self._slices, self._namespaces, self._timed = slices, namespaces, timed

    def __call__(self, values: Sequence[object], timestamps: Times, watermark: int) -> Arrivals:
        by_window: dict[bytes, WindowInput] = {}
        for start, (payloads, stamps) in self._by_slice(values, timestamps).items():
            lost = len(payloads)
            for namespace in self._namespaces.of(self._slices.code(start)):
                _put(by_window, namespace, payloads, len(payloads), lost, stamps if self._timed else None)
                lost = 0
        return Arrivals(list(by_window.values()))

    def _by_slice(self, values: Sequence[object], timestamps: Times) -> dict[int, tuple[list[object], list[int]]]:
        """The payloads and timestamps of the elements of each slice, by the slice's start."""
        payloads, start_of = payloads_of(values), self._slices.start
        if payloads and (only := start_of(min(timestamps))) == start_of(max(timestamps)):
            # One slice has all records; this is usual, as most keys have few records.
            return {only: (payloads, list(timestamps))}
        by_slice: dict[int, tuple[list[object], list[int]]] = {}
        for start, payload, timestamp in zip(slice_starts(self._slices, timestamps), payloads, timestamps, strict=True):
            if (in_slice := by_slice.get(start)) is None:
                in_slice = by_slice[start] = ([], [])
            in_slice[0].append(payload)
            in_slice[1].append(timestamp)
        return by_slice


class _Sessions:
    """Sorts into sessions: elements closer together than the gap get one window, as merging would give them."""

    def __init__(self, window_fn: Sessions, windowing: Windowing, namespaces: WindowNamespaces, timed: bool) -> None:
        self._gap = window_fn.gap_size.micros
        self._closes_at = windowing.closes_at
        self._namespaces = namespaces
        self._timed = timed

    def __call__(self, values: Sequence[object], timestamps: Times, watermark: int) -> Arrivals:
        gap, closes_at = self._gap, self._closes_at
        order = sorted(range(len(values)), key=timestamps.__getitem__)
        late = 0
        while late < len(order) and is_closed(closes_at(timestamps[order[late]] + gap), watermark):
            late += 1
        runs = [self._run(values, timestamps, run) for run in self._runs(timestamps, order[late:])]
        if not late:
            return Arrivals(runs, disjoint=True)
        dropped = [(self._namespace(timestamps, run), len(run)) for run in self._runs(timestamps, order[:late])]
        return Arrivals(runs, dropped, disjoint=True)

    def _runs(self, timestamps: Times, order: list[int]) -> Iterator[list[int]]:
        """Stretches of indices, which are in the order of time, with less than the gap between neighbours."""
        begin = 0
        for at in range(1, len(order) + 1):
            if at == len(order) or timestamps[order[at]] >= timestamps[order[at - 1]] + self._gap:
                yield order[begin:at]
                begin = at

    def _namespace(self, timestamps: Times, run: list[int]) -> WindowNamespace:
        return self._namespaces.of_interval(timestamps[run[0]], timestamps[run[-1]] + self._gap)

    def _run(self, values: Sequence[object], timestamps: Times, order: list[int]) -> WindowInput:
        namespace = self._namespace(timestamps, order)
        items = [_payload(values[index]) for index in order]
        stamps = [timestamps[index] for index in order] if self._timed else None
        return WindowInput(namespace, items, len(items), len(items), stamps)


class _Exploded:
    """Collects elements by window, given the windows of each element."""

    def __init__(self, namespaces: WindowNamespaces, timed: bool) -> None:
        self._namespaces = namespaces
        self._timed = timed

    def collect(
        self, payloads: Sequence[object], timestamps: Times, windows: Sequence[Sequence[BoundedWindow]]
    ) -> Arrivals:
        by_window: dict[bytes, WindowInput] = {}
        outside = 0
        for payload, timestamp, assigned in zip(payloads, timestamps, windows, strict=True):
            namespaces = [self._namespaces.of_window(window) for window in assigned]
            if not namespaces:
                outside += 1
                continue
            final = max(namespaces, key=lambda namespace: namespace.closes) if len(namespaces) > 1 else namespaces[0]
            for namespace in namespaces:
                stamps = (timestamp,) if self._timed else None
                _put(by_window, namespace, (payload,), 1, namespace is final, stamps)
        return Arrivals(list(by_window.values()), outside=outside)


class _Windowed(_Exploded):
    def __call__(self, values: Sequence[object], timestamps: Times, watermark: int) -> Arrivals:
        triples = cast("list[tuple[object, Sequence[BoundedWindow], object]]", payloads_of(values))
        return self.collect([triple[0] for triple in triples], timestamps, [triple[1] for triple in triples])


class _Assigned(_Exploded):
    def __init__(self, windowing: Windowing, namespaces: WindowNamespaces, timed: bool) -> None:
        super().__init__(namespaces, timed)
        self._assign_all = windowing.window_fn.assign_all

    def __call__(self, values: Sequence[object], timestamps: Times, watermark: int) -> Arrivals:
        payloads = payloads_of(values)
        return self.collect(payloads, timestamps, self._assign_all(timestamps, payloads))


class LiftedNamespaces:
    """Finds the windows of an accumulator; one of a slice of sliding windows belongs to all windows of the slice."""

    def __init__(self, windowing: Windowing, namespaces: WindowNamespaces) -> None:
        self._namespaces = namespaces
        window_fn = windowing.window_fn
        self._sliding = window_fn if type(window_fn) is SlidingWindows else None
        self._known: dict[bytes, list[WindowNamespace]] = {}

    def of(self, code: bytes) -> list[WindowNamespace]:
        """The windows of the code of a window or slice, the latest first."""
        namespaces = self._known.get(code)
        if namespaces is None:
            if len(self._known) > _REMEMBERED:
                self._known.clear()
            namespaces = self._known[code] = self._expand(code)
        return namespaces

    def _expand(self, code: bytes) -> list[WindowNamespace]:
        if self._sliding is not None:
            start, end = decode_interval(code)
            size = self._sliding.size.micros
            if end - start != size:
                return [self._namespaces.of_interval(at, at + size) for at in self._sliding.starts(start)]
        return [self._namespaces.of_code(code)]


class _Lifted:
    """Sorts accumulators by window."""

    def __init__(self, windowing: Windowing, namespaces: WindowNamespaces) -> None:
        self._namespaces = LiftedNamespaces(windowing, namespaces)

    def __call__(self, values: Sequence[object], timestamps: Times, watermark: int) -> Arrivals:
        by_window: dict[bytes, WindowInput] = {}
        lifted = cast("Sequence[tuple[object, tuple[bytes, object, int, int]]]", values)
        folded = -len(values)
        for _, (code, accumulator, elements, lost) in lifted:
            folded += elements
            for namespace in self._namespaces.of(code):
                _put(by_window, namespace, (accumulator,), elements, lost, None)
                lost = 0
        return Arrivals(list(by_window.values()), folded=folded)


_ShardPayload: TypeAlias = tuple[bytes | None, object, int, int, list[int] | None, int]
"""See `GroupingInputForm.SHARDED`."""


class _Sharded:
    """Sorts the payloads of `Shards` by window."""

    def __init__(self, namespaces: WindowNamespaces) -> None:
        self._namespaces = namespaces

    def __call__(self, values: Sequence[object], timestamps: Times, watermark: int) -> Arrivals:
        by_window: dict[bytes, WindowInput] = {}
        late: list[tuple[WindowNamespace, int]] = []
        outside, folded = 0, -len(values)
        for _, payload in cast("Sequence[tuple[object, _ShardPayload]]", values):
            code, accumulator, elements, lost, stamps, records = payload
            folded += records
            if code is None:
                outside += elements
            elif not elements:
                late.append((self._namespaces.of_code(code), lost))
            else:
                _put(by_window, self._namespaces.of_code(code), (accumulator,), elements, lost, stamps)
        return Arrivals(list(by_window.values()), late, outside, folded)
