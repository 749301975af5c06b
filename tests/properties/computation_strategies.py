"""A raw computation by both ways, over parcels, workers and copies as a run has them: by record, and by columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import ClassVar, NamedTuple, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel import (
    ColumnComputation,
    ColumnContext,
    Computation,
    Context,
    Field,
    Record,
    RecordColumns,
    Timer,
    TimerColumns,
)
from headrace.lowlevel.checkpoint.files.file_chain import within
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.processing.worker import Worker
from headrace.lowlevel.records.column_batch import ColumnBatch, Single, Tuple
from headrace.lowlevel.records.column_block import decode_block
from headrace.lowlevel.records.record import Batch, KeyExtractor
from headrace.lowlevel.shuffle.partition_buffer import KeyHashCache, PartitionBuffer
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology.computation import IntervalComputation
from headrace.lowlevel.topology.nodes import Keyed

WIDTH = 10
"""Of what is summed up between two timers, microseconds."""
MANY = 25
"""Total from which on a key's state goes."""

Element = tuple[object, int, int]
"""Key, value, event time."""


class BySums(Computation):
    """Sums by stretches of time, told when they are over; and late records. Record by record."""

    def initial_state(self) -> object:
        return [0, 100, {}]

    def process_record(self, record: Record, context: Context) -> None:
        value = record.value[1]
        if context.is_late(record):
            context.produce("out", ("late", context.key, value))
            if value < 0:
                context.drop_late()
                return
        state = context.state
        state[1] = min(state[1], value)
        end = record.timestamp - record.timestamp % WIDTH + WIDTH
        count, total = state[2].get(end, (0, 0))
        state[2][end] = (count + 1, total + value)
        context.set_timer(str(end), end, hold=end - WIDTH)

    def process_timer(self, timer: Timer, context: Context) -> None:
        state = context.state
        count, total = state[2].pop(timer.timestamp)
        state[0] += total
        context.produce("out", ("sum", context.key, timer.timestamp, count, state[0], state[1]), timer.timestamp)
        if state[0] > MANY:
            state[:2] = [0, 100]


class BySumsOfColumns(ColumnComputation):
    """The same for all keys at once."""

    state_fields: ClassVar = {"total": int, "least": Field(int, 100)}
    timer_fields: ClassVar = {"count": int, "sum": int}
    combine_timers: ClassVar = {"count": "sum", "sum": "sum"}

    def process_columns(self, batch: RecordColumns, context: ColumnContext) -> None:
        values = batch[1].astype(np.int64)
        late = batch.late
        told = [np.repeat("late", int(late.sum())), batch.key_values(late), values[late]]
        context.produce_columns("out", told, batch.timestamps[late])
        kept = ~(late & (values < 0))
        context.drop_late(int((~kept).sum()))
        context.state["least"] = np.minimum(context.state["least"], batch.min(np.where(kept, values, 100)))
        ends = (batch.timestamps - batch.timestamps % WIDTH + WIDTH)[kept]
        context.set_timers(ends, keys=batch.keys[kept], hold=ends - WIDTH, count=1, sum=values[kept])

    def process_timers(self, due: TimerColumns, context: ColumnContext) -> None:
        # A total begins anew behind one that is too large, so the keys' rows are gone through one after the other.
        totals, least = np.empty(len(due), np.int64), np.empty(len(due), np.int64)
        for place in range(int(due.counts.max())):
            keys = np.flatnonzero(due.counts > place)
            rows = due.first[keys] + place
            context.state["total"][keys] += due["sum"][rows]
            totals[rows], least[rows] = context.state["total"][keys], context.state["least"][keys]
            context.state.clear(keys[totals[rows] > MANY])
        told = [np.repeat("sum", len(due)), due.key_values(), due.timestamps, due["count"], totals, least]
        context.produce_columns("out", told)


class OneByOne(Computation):
    """A timer for each record, which tells its value when it is due. Record by record."""

    def initial_state(self) -> object:
        return {}

    def process_record(self, record: Record, context: Context) -> None:
        waiting = context.state.setdefault(record.timestamp + WIDTH, [])
        waiting.append(record.value[1])
        context.set_timer(str(record.timestamp), record.timestamp + WIDTH)

    def process_timer(self, timer: Timer, context: Context) -> None:
        for value in context.state.pop(timer.timestamp):
            context.produce("out", (context.key, value))
        if not context.state:
            context.state = None


class OneByOneOfColumns(ColumnComputation):
    """The same for all keys at once."""

    timer_fields: ClassVar = {"value": int}

    def process_columns(self, batch: RecordColumns, context: ColumnContext) -> None:
        context.set_timers(batch.timestamps + WIDTH, value=batch[1])

    def process_timers(self, due: TimerColumns, context: ColumnContext) -> None:
        context.produce_columns("out", (due.key_values(), due["value"]))


class Step(NamedTuple):
    """What a bundle brings, and the watermark that comes after it in microseconds."""

    elements: list[Element]
    watermark: int
    as_columns: bool = False


def inherited(
    copies: Mapping[int, MemoryStateStore], before: IntervalMap, after: IntervalMap
) -> dict[int, MemoryStateStore]:
    """The state of other intervals, which inherit from these as copies in a checkpoint do."""
    made = {interval.number: MemoryStateStore() for interval in after}
    for new in after:
        for old in before:
            if old.start < new.stop and new.start < old.stop:
                for delta in copies[old.number].dump():
                    bounds = (old.start, old.stop), (new.start, new.stop)
                    made[new.number].apply(delta if len(set(bounds)) == 1 else within(delta, *bounds))
    return made


@dataclass
class Running:
    """A topology of one computation."""

    way: type[Computation]
    intervals: IntervalMap = field(default_factory=lambda: IntervalMap.evenly(2))
    out: list[tuple[object, int]] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)
    holds: list[int | None] = field(default_factory=list)
    """The oldest after each epoch."""
    watermark: int = MIN_TIMESTAMP
    epoch: int = 0

    def __post_init__(self) -> None:
        self.copies = {interval.number: MemoryStateStore() for interval in self.intervals}

    def cut(self, intervals: IntervalMap) -> None:
        """Have other intervals, which inherit from these as copies in a checkpoint do."""
        self.copies = inherited(self.copies, self.intervals, intervals)
        self.intervals = intervals

    def step(self, step: Step, batches: int = 1) -> None:
        """One epoch, with another instance, as after a restart; its elements come in so many batches."""
        self.epoch += 1
        place = Keyed("step", self.way(), {"in": _key}, frozenset(["out"]))
        bundles = {interval.number: Bundle() for interval in self.intervals}
        gather = PartitionBuffer(place, "in", lambda full: self._ship(place, full, bundles), never)
        size = -(-len(step.elements) // batches) or 1
        for at in range(0, len(step.elements), size):
            gather.add(_batch(step.elements[at : at + size], step.as_columns))
            self._ship(place, gather, bundles)
        holds = [self._run(place, number, bundle, step.watermark) for number, bundle in bundles.items()]
        self.holds.append(min((hold for hold in holds if hold is not None), default=None))
        self.watermark = step.watermark

    def _ship(self, place: Keyed, gather: PartitionBuffer, bundles: dict[int, Bundle]) -> None:
        for interval, parcel in gather.take_blocks(self.intervals, KeyHashCache()).items():
            came = decode_block(parcel.encode())
            if isinstance(place.computation, IntervalComputation):
                bundles[interval.number].blocks.append(came)
            else:
                came.unpack(bundles[interval.number].keys)

    def _run(self, place: Keyed, number: int, bundle: Bundle, watermark: int) -> int | None:
        bundle.watermark_before, bundle.watermark = self.watermark, watermark
        bundle.epoch, bundle.interval = self.epoch, number
        commit = Worker(place, self.copies[number], lambda _, batch: self.out.extend(batch.rows())).run(bundle)
        self.copies[number].apply(commit.delta)
        self.counters.update(commit.counters)
        return None if commit.hold is None else commit.hold.timestamp

    def stored(self) -> dict[str, int]:
        """Number of stored entries by table."""
        total: Counter[str] = Counter()
        for copy in self.copies.values():
            total.update(copy.count())
        return {table: count for table, count in total.items() if count}

    def told(self) -> list[str]:
        """What came out, in an order that does not depend on that of keys."""
        return sorted(map(repr, self.out))

    def end(self) -> None:
        """The end of time."""
        self.step(Step([], MAX_TIMESTAMP))


def _batch(elements: Sequence[Element], as_columns: bool) -> Batch:
    times = [time for *_, time in elements]
    if not as_columns or len({type(key) for key, *_ in elements}) > 1 or not isinstance(elements[0][0], (str, int)):
        return Batch([(key, value) for key, value, _ in elements], times)
    table = pa.record_batch(
        [pa.array([key for key, *_ in elements]), pa.array([n for _, n, _ in elements])], ["k", "v"]
    )
    return ColumnBatch(table, np.array(times, np.int64), Tuple((Single(0), Single(1))))


_key = cast(KeyExtractor, itemgetter(0))


def never(place: Keyed, batch: Batch) -> None:
    """What is poison."""
    raise AssertionError("nothing here is poison")
