"""A large bundle that is worked off in portions of its keys comes to what it comes to as a whole."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as beam
from headrace.lowlevel import BoundedInjector, CallSink, Computation, Context, Record, Timer, Topology
from headrace.lowlevel.intervals.interval_map import Interval, IntervalMap
from headrace.lowlevel.processing.bundle import Bundle, are_worth_splitting, sub_bundles
from headrace.lowlevel.processing.worker import Commit, Worker
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.records.column_block import ColumnBlock
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.shuffle.router import Router
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.topology.nodes import Keyed
from headrace.runners.engine.options import RunOptions
from headrace.runners.engine.task import task
from headrace.runners.local import LocalRunner
from headrace.sdk.expressions.element_schema import shape_of_rows

Events = list[tuple[str, int]]
"""Key and timestamp; the value is the number of the event."""
events = st.lists(st.tuples(st.sampled_from("abcdefghij"), st.integers(0, 99)), max_size=30)


class Totals(Computation):
    """State, timers, holds and productions of each key."""

    def initial_state(self) -> object:
        return []

    def process_record(self, record: Record, context: Context) -> None:
        """Note the record, and set a timer that holds; every third one is sent on at once."""
        context.state = [*context.state, record.value["number"]]
        context.set_timer(f"{record.timestamp}", record.timestamp + 10, hold=record.timestamp)
        if record.value["number"] % 3 == 0:
            context.produce("out", (context.key, record.value["number"], record.timestamp))

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Say what there is."""
        context.produce("out", (context.key, timer.tag, tuple(context.state)))
        context.count("fired")


def columns_of(given: Events) -> Batch:
    """The events as columns."""
    keys, times = [key for key, _ in given], [time for _, time in given]
    table = pa.RecordBatch.from_pydict(
        {"key": pa.array(keys, pa.string()), "number": pa.array(range(len(given)), pa.int64())}
    )
    shape = shape_of_rows(table, as_rows=False)
    assert shape is not None
    return ColumnBatch(table, np.array(times, np.int64), shape)


def values_of(given: Events) -> Batch:
    """The events as dicts, with ids that come again in other batches: with the same key, as keys have no order."""
    ids = [f"{key}{number}".encode() for number, (key, _) in enumerate(given)]
    return Batch([{"key": key, "number": n} for n, (key, _) in enumerate(given)], [time for _, time in given], ids)


def parcels_of(batches: list[Batch]) -> list[Block]:
    """Each batch on its way to the only interval."""
    sent: list[Block] = []

    def ship(interval: Interval, parcel: Block) -> None:
        sent.append(parcel)

    for batch in batches:
        topology = Topology()
        topology.injector("in", BoundedInjector([]))
        topology.computation("step", Totals(), {"in": beam.col.key}, ["out"])
        router = Router(topology, {"step": IntervalMap.evenly(1)}, ship)
        router.emit("in", batch)
        router.close()
    return sent


class Step:
    """The computation, bundle after bundle."""

    def __init__(self) -> None:
        self.store, self.watermark = MemoryStateStore(), 0
        self.sent: dict[object, list[object]] = {}

    def run(self, bundle: Bundle, watermark: int) -> Commit:
        """One bundle, committed."""
        bundle.watermark_before, bundle.watermark, self.watermark = self.watermark, watermark, watermark
        place = Keyed("step", Totals(), {"in": beam.col.key}, frozenset({"out"}))
        commit = Worker(place, self.store, self._emit, {"in": 50}).run(bundle)
        self.store.apply(commit.delta)
        return commit

    def _emit(self, stream: str, batch: Batch) -> None:
        for value, timestamp in batch.rows():
            assert isinstance(value, tuple)
            self.sent.setdefault(value[0], []).append((value, timestamp))


@given(st.lists(st.lists(st.tuples(st.booleans(), events), max_size=4), min_size=1, max_size=3), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_portions_come_to_the_whole(epochs: list[list[tuple[bool, Events]]], most: int) -> None:
    """The same delta, counters and oldest hold, and of each key the same productions in order."""
    whole, cut = Step(), Step()
    for number, epoch in enumerate(epochs, 1):
        sent = parcels_of([columns_of(given) if as_columns else values_of(given) for as_columns, given in epoch])
        bundle = Bundle()
        for parcel in sent:
            parcel.unpack(bundle.keys)
        expected = whole.run(bundle, 40 * number)
        found = cut.run(Bundle(more=sub_bundles(sent, most)) if any(map(len, sent)) else Bundle(), 40 * number)
        assert found == expected
        assert cut.sent == whole.sent
        assert list(cut.store.dump()) == list(whole.store.dump())


@given(st.lists(events.filter(len), min_size=1, max_size=4), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_each_key_is_in_one_portion_and_portions_are_small(given: list[Events], most: int) -> None:
    sent = parcels_of([columns_of(each) for each in given])
    assert all(isinstance(parcel, ColumnBlock) for parcel in sent)
    assert are_worth_splitting(sent, most) == (sum(map(len, sent)) > most)
    sizes = []
    seen: set[bytes] = set()
    for keys in sub_bundles(sent, most):
        assert not seen & set(keys)
        seen |= set(keys)
        of_keys = [sum(len(part.values) for part in parts) for _, parts in keys.values()]
        sizes.append(sum(of_keys))
        assert sizes[-1] < most + max(of_keys) + most
    assert sum(sizes) == sum(map(len, sent))
    assert seen == {row for parcel in sent for row in parcel.key_hashes}


class Failing(Totals):
    """Raises once, at a record in the middle of an epoch."""

    broken = True

    def process_record(self, record: Record, context: Context) -> None:
        if record.value["number"] == 150 and Failing.broken:
            raise RuntimeError("broken")
        super().process_record(record, context)


def test_an_epoch_that_breaks_off_between_portions_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run again, it comes to what it would have come to, and to what it comes to without portions."""
    given = [{"key": "abcdefghij"[number * 7 % 10], "number": number} for number in range(300)]

    def run(folder: str, computation: Computation) -> dict[object, list[object]]:
        rows: dict[object, list[object]] = {}
        topology = Topology()
        topology.injector("in", BoundedInjector([(value, 1) for value in given]))
        topology.computation("step", computation, {"in": beam.col.key}, ["out"])

        def take(epoch: int, delivered: list[tuple[object, int]]) -> None:
            for value, timestamp in delivered:
                assert isinstance(value, tuple)
                rows.setdefault(value[0], []).append((value, timestamp))

        topology.sink("out", "out", CallSink(take))
        LocalRunner(intervals=2).run_topology(topology, RunOptions(checkpoint=str(tmp_path / folder)))
        return rows

    expected = run("whole", Totals())
    monkeypatch.setattr(task, "are_worth_splitting", lambda parcels: True)
    monkeypatch.setattr(task, "sub_bundles", partial(sub_bundles, most=20))
    with pytest.raises(Exception, match="broken"):
        run("cut", Failing())
    Failing.broken = False
    assert run("cut", Failing()) == expected
