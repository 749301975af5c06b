"""Combining by both ways, over parcels, workers and copies as a run has them: all keys at once, and key by key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple, cast

from headrace.lowlevel.coders.coder import encode_key
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.processing.worker import Worker
from headrace.lowlevel.records.column_block import decode_block
from headrace.lowlevel.records.record import Batch, Emit, KeyExtractor
from headrace.lowlevel.shuffle.partition_buffer import KeyHashCache, PartitionBuffer
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.state.segment import decode
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology.computation import Computation, InlineComputation, IntervalComputation
from headrace.lowlevel.topology.nodes import Keyed
from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.model.panes import PaneInfoTiming
from headrace.sdk.operators.combining.aggregates import reducers_of
from headrace.sdk.operators.combining.combiner_lifting import LiftedCombine, liftable
from headrace.sdk.operators.combining.session_lifting import SessionLifting
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.operators.vectorized.column_grouping import ColumnGrouping
from headrace.sdk.operators.vectorized.eligibility import gap_of, obstacle
from headrace.sdk.operators.vectorized.sessions import ColumnSessions
from headrace.sdk.operators.vectorized.state_migration import records_of_segments
from headrace.sdk.windows.windowing import Windowing
from tests.harness import Element, Pane
from tests.properties.computation_strategies import inherited, never

Way = Callable[[Windowing, AnyCombineFn], Computation]


def by_key(windowing: Windowing, combine: AnyCombineFn) -> Computation:
    """The general way."""
    forms = {"lifted": GroupingInputForm.LIFTED if liftable(windowing) else GroupingInputForm.PLAIN}
    return Grouping(windowing, combine, forms, "out", migration=records_of_segments)


def by_columns(windowing: Windowing, combine: AnyCombineFn) -> Computation:
    """The quick way, which must be chosen for these."""
    reducers = reducers_of(combine)
    assert reducers is not None and obstacle(windowing, combine, takes_back=False, spread=False) is None
    kind = ColumnGrouping if liftable(windowing) else ColumnSessions
    return kind(windowing, combine, reducers, "out")


class Unlifted(InlineComputation):
    """Elements go to the shuffle as they are."""

    def __init__(self, output_stream: str) -> None:
        self._output_stream = output_stream

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        emit(self._output_stream, batch)


def lifting(windowing: Windowing, combine: AnyCombineFn, way: Way) -> InlineComputation:
    """What a way does before the shuffle."""
    if liftable(windowing):
        return LiftedCombine(windowing, combine)
    gap, reducers = gap_of(windowing), reducers_of(combine)
    assert gap is not None and reducers is not None
    if way is by_key:
        return Unlifted("lifted")
    return SessionLifting(combine, reducers, gap, GroupingInputForm.PLAIN, "lifted")


class Step(NamedTuple):
    """What a bundle brings, and the clocks that come after it in microseconds."""

    elements: list[Element]
    watermark: int
    batch: Callable[[list[Element]], Batch] | None = None
    wall_time: int = 0
    """Not before that of the step before."""


def plain(elements: Sequence[Element]) -> Batch:
    """Elements as Python values."""
    return Batch([(key, value) for key, value, _ in elements], [time for *_, time in elements])


@dataclass
class Combining:
    """One pipeline of a `CombinePerKey`, by one way."""

    windowing: Windowing
    combine: AnyCombineFn
    way: Way = by_columns
    intervals: IntervalMap = field(default_factory=lambda: IntervalMap.evenly(2))
    panes: list[Pane] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)
    watermark: int = MIN_TIMESTAMP
    epoch: int = 0
    written: int = 0
    """Lines of segments."""
    wall_time: int = 0
    stream: str = "lifted"
    """Input of the grouping; the elements of `lifted` are combined before the shuffle."""
    wakes: list[int | None] = field(default_factory=list)
    """When each step wanted the next one, even if nothing came; wall time, microseconds."""

    def __post_init__(self) -> None:
        self.copies = {interval.number: MemoryStateStore() for interval in self.intervals}
        self.rewindow(self.windowing)

    def rewindow(self, windowing: Windowing) -> None:
        """With other windows from here on."""
        self.windowing = windowing
        self.lift: InlineComputation = lifting(windowing, self.combine, self.way)
        self.go_on(self.way)

    def go_on(self, way: Way) -> None:
        """With another computation on what is stored."""
        self.place = Keyed("sum", way(self.windowing, self.combine), {self.stream: _key}, frozenset(["out"]))
        self.place.computation.setup()

    def cut(self, intervals: IntervalMap) -> None:
        """Have other intervals, which inherit from these as copies in a checkpoint do."""
        self.copies = inherited(self.copies, self.intervals, intervals)
        self.intervals = intervals

    def run(self, steps: Iterable[Step]) -> Combining:
        """All of them, then the end of time."""
        for step in steps:
            self.step(step)
        self.step(Step([], MAX_TIMESTAMP))
        return self

    def step(self, step: Step, parts: int = 1) -> None:
        """One epoch; its elements come in so many batches."""
        self.epoch += 1
        bundles = {interval.number: Bundle() for interval in self.intervals}
        gather = PartitionBuffer(self.place, self.stream, lambda full: self._ship(full, bundles), never)
        self.lift.begin_bundle(self.watermark)
        make = step.batch or plain
        size = -(-len(step.elements) // parts) or 1
        for at in range(0, len(step.elements), size):
            self.lift.process_batch("in", make(step.elements[at : at + size]), lambda _, batch: gather.add(batch))
        self.lift.finish_bundle(lambda _, batch: gather.add(batch))
        self._ship(gather, bundles)
        self.wall_time = max(self.wall_time, step.wall_time)
        wanted = [self._run(number, bundle, step.watermark) for number, bundle in bundles.items()]
        self.wakes.append(min((wall_time for wall_time in wanted if wall_time is not None), default=None))
        self.watermark = step.watermark

    def _ship(self, gather: PartitionBuffer, bundles: dict[int, Bundle]) -> None:
        for interval, parcel in gather.take_blocks(self.intervals, KeyHashCache()).items():
            came = decode_block(parcel.encode())
            if isinstance(self.place.computation, IntervalComputation):
                bundles[interval.number].blocks.append(came)
            else:
                came.unpack(bundles[interval.number].keys)

    def _run(self, number: int, bundle: Bundle, watermark: int) -> int | None:
        bundle.watermark_before, bundle.watermark = self.watermark, watermark
        bundle.epoch, bundle.interval, bundle.wall_time = self.epoch, number, self.wall_time
        partial = frozenset(["lifted"])
        commit = Worker(self.place, self.copies[number], self._emit, partial=partial).run(bundle)
        self.copies[number].apply(commit.delta)
        segments = [contents for contents in commit.delta.segments.values() if contents is not None]
        self.written += sum(decode(contents).num_rows for contents in segments)
        assert commit.hold is None or commit.hold.timestamp >= watermark
        self.counters.update(commit.counters)
        assert commit.next_wall_timer is None or commit.next_wall_timer > self.wall_time, "it would be run in a circle"
        return commit.next_wall_timer

    def _emit(self, stream: str, batch: Batch) -> None:
        assert stream == "out"
        for ((key, value), window, info), timestamp in batch.rows():
            # A late pane retracts the one before it, which was on time.
            late = info.timing is PaneInfoTiming.LATE or info.is_retraction
            assert late or timestamp >= self.watermark, "it is late for what comes after"
            self.panes.append(Pane(key, value, window, timestamp, info))

    def stored(self) -> dict[str, int]:
        """Number of stored entries by table."""
        total: Counter[str] = Counter()
        for copy in self.copies.values():
            total.update(copy.count())
        return {table: count for table, count in total.items() if count}

    def counted(self) -> dict[str, int]:
        """What is told of elements; timers are the general way's own."""
        return {name: count for name, count in self.counters.items() if count and name != "timers"}


def in_order(panes: Iterable[Pane]) -> list[tuple[object, ...]]:
    """What can be compared of panes, whatever the order of keys: types and all."""
    return sorted(map(_told, panes), key=repr)


def of_each_key(panes: Iterable[Pane]) -> dict[bytes, list[tuple[object, ...]]]:
    """The panes of each key, in the order in which they came."""
    found: dict[bytes, list[tuple[object, ...]]] = {}
    for pane in panes:
        found.setdefault(encode_key(pane.key), []).append(_told(pane))
    return found


def _told(pane: Pane) -> tuple[object, ...]:
    return encode_key(pane.key), repr(pane.key), repr(pane.value), repr(pane.window), pane.timestamp, pane.info


_key = cast(KeyExtractor, itemgetter(0))
"""As pipelines have it: the engine finds it in columns."""
