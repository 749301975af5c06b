"""The segment store, with timers and with the tables of groupings, keeps what a plain dictionary keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel import Field
from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.columnar.arrow_arrays import of_numbers
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.processing.interval_context import BundleIntervalContext
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.state.segment import key_positions
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.lowlevel.topology.nodes import Keyed
from headrace.lowlevel.vectorized import segment_store
from headrace.lowlevel.vectorized.fields import Layout
from headrace.lowlevel.vectorized.segment_store import Format, SegmentStore
from headrace.lowlevel.vectorized.timer_rows import NO_HOLD, TimerCombination, TimerFormat, TimerRows, oldest_hold
from headrace.sdk.combinefns.numeric import SumFn
from headrace.sdk.operators.combining.aggregates import reducers_of
from headrace.sdk.operators.vectorized.state import element_table
from headrace.sdk.operators.vectorized.state.element_table import ElementTable, ValueLists
from headrace.sdk.operators.vectorized.state.segment_formats import (
    ElementFormat,
    PartFormat,
    SessionFormat,
    WakeFormat,
    WindowFormat,
)
from headrace.sdk.operators.vectorized.state.window_accumulators import Accumulated
from headrace.sdk.operators.vectorized.state.window_table import AGE, INDEX, WAKE, WindowTable
from tests.properties.computation_strategies import BySumsOfColumns, inherited

Line = tuple[str, int, int]
"""Key, time by which it is looked up, value."""
Entry = tuple[str, int]
Of = Callable[[Sequence[int]], Any]
REDUCERS = reducers_of(SumFn())
assert REDUCERS is not None
SUMS = REDUCERS


class Way(NamedTuple):
    """How the lines of a format are made and seen."""

    format: Callable[[IntervalContext], Format[Any]]
    table: Callable[[pa.Array, pa.Array, np.ndarray, np.ndarray, int], Any]
    """From key hashes, keys, times and values; of an epoch."""
    values: Callable[[Any], Sequence[int]]
    """The value of each line."""
    of: Of = sum
    """The value of a key and time whose lines have these values, in the order in which they were written."""


def timers(hashes: pa.Array, keys: pa.Array, times: np.ndarray, values: np.ndarray, epoch: int) -> TimerRows:
    return TimerRows(hashes, keys, times, np.where(values % 3 > 0, times - values, NO_HOLD), [values])


def parts(hashes: pa.Array, keys: pa.Array, times: np.ndarray, values: np.ndarray, epoch: int) -> WindowTable:
    return WindowTable(hashes, keys, [times - 10, times, np.ones(len(times), np.int64)], [of_numbers(values)])


def windows(hashes: pa.Array, keys: pa.Array, times: np.ndarray, values: np.ndarray, epoch: int) -> WindowTable:
    made = parts(hashes, keys, times, values, epoch).with_panes()
    made[AGE], made[INDEX] = epoch, values
    return made


def wakes(hashes: pa.Array, keys: pa.Array, times: np.ndarray, values: np.ndarray, epoch: int) -> WindowTable:
    """The value is where the window begins; it ends a while after the wake is due."""
    made = windows(hashes, keys, times + 3, values, epoch).without_contents()
    made[0], made[WAKE] = values, times
    return made


def sessions(hashes: pa.Array, keys: pa.Array, times: np.ndarray, values: np.ndarray, epoch: int) -> WindowTable:
    """Those of different times do not overlap."""
    ones = np.ones(len(times), np.int64)
    return WindowTable(hashes, keys, [times - 1, times, ones, times], [of_numbers(values)])


def elements(hashes: pa.Array, keys: pa.Array, times: np.ndarray, values: np.ndarray, epoch: int) -> ElementTable:
    numbers = [times - 10, times, np.full(len(times), epoch), np.arange(len(times)), np.ones(len(times), np.int64)]
    return ElementTable(hashes, keys, numbers, ValueLists([[value] for value in values.tolist()]))


LAYOUT = Layout.of({"sum": Field(int)}, "timer_fields")
WAYS: Mapping[str, Way] = {
    "combined timers": Way(
        lambda _: TimerFormat(LAYOUT, [TimerCombination.SUM]), timers, lambda table: table.columns[0].tolist()
    ),
    "timers": Way(lambda _: TimerFormat(LAYOUT, None), timers, lambda table: table.columns[0].tolist(), sorted),
    "parts": Way(
        lambda context: PartFormat(Accumulated(SUMS, SumFn()), context), parts, lambda table: table.kept[0].tolist()
    ),
    "windows": Way(
        lambda _: WindowFormat(Accumulated(SUMS, SumFn())),
        windows,
        lambda table: table[INDEX].tolist(),
        lambda values: list(values)[-1],
    ),
    "wakes": Way(lambda _: WakeFormat(Accumulated(SUMS, SumFn())), wakes, lambda table: table[0].tolist(), sorted),
    "sessions": Way(
        lambda context: SessionFormat(Accumulated(SUMS, SumFn()), context),
        sessions,
        lambda table: table.kept[0].tolist(),
    ),
    "elements": Way(
        lambda _: ElementFormat(),
        elements,
        lambda table: [value for [value] in element_table.unpickled_lists(table)],
        sorted,
    ),
}


@dataclass
class Kept:
    """What one format keeps in a few intervals, beside the lines themselves."""

    way: Way
    intervals: IntervalMap = field(default_factory=lambda: IntervalMap.evenly(2))
    lines: list[Line] = field(default_factory=list)
    watermark: int = MIN_TIMESTAMP
    epoch: int = 0

    def __post_init__(self) -> None:
        self.copies = {interval.number: MemoryStateStore() for interval in self.intervals}

    def cut(self, intervals: IntervalMap) -> None:
        self.copies = inherited(self.copies, self.intervals, intervals)
        self.intervals = intervals

    def step(self, new: Sequence[Line], now: int, pops: bool) -> None:
        """One bundle of each interval: what is due, then what is looked up by key, then what is new."""
        self.epoch += 1
        found: list[Line] = []
        looked_up: list[Line] = []
        holds: list[int] = []
        wanted: list[Entry] = []
        """Those that are looked up by key."""
        for interval in self.intervals:
            bundle = Bundle(watermark_before=self.watermark, watermark=now, epoch=self.epoch, interval=interval.number)
            node = Keyed("step", BySumsOfColumns(), {}, frozenset())
            context = BundleIntervalContext(node, self.copies[interval.number], lambda *_: None, bundle)
            store = SegmentStore(context, self.way.format(context))
            found += self._lines(store.between(self.watermark, now))
            own = self._table(new)
            own = own.where(_inside(own.key_hashes, interval.start, interval.stop))
            if store.format.by_key:
                wanted += [line[:2] for line in self._lines([own])]
                looked_up += self._lines(store.of_keys(own.key_hashes, store.format.times(own)))
                looked_up += self._lines(store.of_keys_after(own.key_hashes, MAX_TIMESTAMP - 1))
            self._keep(store, own, now, pops)
            assert all(store.format.end(name) > now for name in store.names.values()), "what is done is deleted"
            if isinstance(store.format, TimerFormat) and (hold := oldest_hold(store, now)) is not None:
                holds.append(hold[0].timestamp)
            self.copies[interval.number].apply(context.delta)
        assert self._told(found) == self._told(line for line in self.lines if self.watermark < line[1] <= now)
        asked = self._told(line for line in self.lines if line[:2] in wanted)
        got = self._told(looked_up)
        assert {entry: got.get(entry) for entry in asked} == asked
        self.lines += new
        self.watermark = now
        self._check_holds(holds)

    def _keep(self, store: SegmentStore[Any], own: Any, now: int, pops: bool) -> None:
        popped = store.format.joined([])
        if pops:
            popped = store.pop(now + 5)
            popped = popped.where(store.format.times(popped) > now)
        store.keep(popped, own, done_until=now)

    def _check_holds(self, holds: Sequence[int]) -> None:
        if self.way.table is not timers:
            return
        pending = [(time, value) for _, time, value in self.lines if time > self.watermark]
        assert min(holds, default=None) == min((time - value for time, value in pending if value % 3), default=None)

    def _table(self, lines: Sequence[Line]) -> Any:
        keys = [encode_key(key) for key, *_ in lines]
        hashes = pa.array(list(map(key_hash_of, keys)), pa.binary(16))
        times, values = (np.array([line[index] for line in lines], np.int64) for index in (1, 2))
        return self.way.table(hashes, pa.array(keys, pa.large_binary()), times, values, self.epoch)

    def _lines(self, tables: Iterable[Any]) -> Iterator[Line]:
        for table in tables:
            times = self.way.format(mock.Mock()).times(table).tolist()
            keys = [KEYS[key] for key in table.keys.to_pylist()]
            yield from zip(keys, times, self.way.values(table), strict=True)

    def _told(self, lines: Iterable[Line]) -> dict[Entry, Any]:
        found: dict[Entry, list[int]] = {}
        for key, time, value in lines:
            found.setdefault((key, time), []).append(value)
        return {entry: self.way.of(values) for entry, values in found.items()}


def _inside(key_hashes: pa.Array, start: int, stop: int) -> np.ndarray:
    positions = key_positions(key_hashes)
    return (positions >= np.uint64(start)) & (positions <= np.uint64(stop - 1))


KEYS = {encode_key(key): key for key in "abcdefgh"}
LINES = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(1, 40), st.integers(-5, 20)), max_size=12)
STEPS = st.lists(
    st.tuples(LINES, st.integers(0, 15), st.booleans(), st.sampled_from([0, 0, 0, 1, 2, 3])), min_size=1, max_size=14
)
"""New lines and how long after the watermark each is due, how far the watermark goes on, whether lines are taken out
and put in again, and how many intervals there are from then on (0: as many as before)."""


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@given(steps=STEPS)
def test_it_keeps_what_a_dictionary_keeps(way: Way, steps: list[tuple[list[Line], int, bool, int]]) -> None:
    kept, now = Kept(way), 0
    small = {"SMALL": 4, "MANY": 3, "GROWTH": 2}
    with mock.patch.multiple(segment_store, **small):
        for lines, onward, pops, intervals in steps:
            now += onward
            kept.step([(key, now + delay, value) for key, delay, value in lines], now, pops)
            if intervals:
                kept.cut(IntervalMap.evenly(intervals))
        kept.step([], MAX_TIMESTAMP, False)
    assert not any(copy.count()["segments"] for copy in kept.copies.values()), "all is done"
