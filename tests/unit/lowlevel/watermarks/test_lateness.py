"""Runs with percentile low watermarks, record by record against a model, and what `explain` says of them."""

from __future__ import annotations

import random
from math import ceil

import pytest

from headrace.lowlevel import BoundedInjector, CallSink, Computation, ManualInjector, Topology
from headrace.lowlevel.checkpoint import CheckpointView
from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.watermarks.explain import Injected, explain
from headrace.lowlevel.watermarks.lateness import Lateness
from headrace.runners.engine.driver.checkpoint_journal import state_of
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from tests.unit.lowlevel.watermarks.test_explain import Holding, Passing, Stop, StopAfter

EPOCH = 12
"""Records."""


class Seen(Computation):
    """Puts out every record with the watermark that it met, and whether it was late."""

    def process_record(self, record, context):
        value = record.value if isinstance(record.value, int) else record.value[0]
        context.produce(self.stream, (value, context.watermark, context.is_late(record)))

    def __init__(self, stream):
        self.stream = stream


def number_of(value):
    return value if isinstance(value, int) else value[0]


def rows_of(seed, count=120):
    """Times that go on but for a few stragglers."""
    dice = random.Random(seed)
    return [
        (number, number * 10 - (dice.randrange(300, 900) if dice.random() < 0.05 else dice.randrange(30)))
        for number in range(count)
    ]


CHOSEN = {"strict": None, "most": 90.0, "half": 50.0}


def topology_of(seed, rows, delay=1000):
    topology = Topology()
    topology.injector("in", BoundedInjector(rows_of(seed), max_delay=delay))
    for name, percentile in CHOSEN.items():
        topology.computation(name, Seen(name), {"in": number_of}, [name], watermark_percentile=percentile)
    topology.computation("after most", Seen("after most"), {"most": number_of}, ["after most"])
    for name in (*CHOSEN, "after most"):
        collected = rows.setdefault(name, {})
        topology.sink(name, name, CallSink(lambda epoch, more, into=collected: into.update({v: None for v, _ in more})))
    return topology


def model(seed, percentile, delay=1000, splits=1, epoch_size=EPOCH):
    """Number, watermark and lateness of every record, by sorting all latenesses before it."""
    rows, latenesses, greatest, watermark, found = rows_of(seed), [], MIN_TIMESTAMP, MIN_TIMESTAMP, []
    for at in range(0, len(rows), epoch_size):
        epoch = rows[at : at + epoch_size]
        found += [(number, watermark, time < watermark) for number, time in epoch]
        size = ceil(len(epoch) / splits)
        for part in (epoch[begin : begin + size] for begin in range(0, len(epoch), size)):
            reached = greatest
            for _, time in part:
                reached = max(reached, time)
                latenesses.append(reached - time)
        greatest = max(greatest, *(time for _, time in epoch))
        watermark = max(watermark, greatest - delay)
        if percentile is not None:
            wanted = sorted(latenesses)[ceil(len(latenesses) * percentile / 100) - 1]
            watermark = max(watermark, greatest - Lateness.of([0], wanted).quantile(100))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_every_record_meets_the_watermark_of_its_consumers_percentile(seed):
    rows = {}
    result = LocalRunner(intervals=1 + seed % 3, parallelism=1 + seed % 2).run_topology(
        topology_of(seed, rows), RunOptions(max_records_per_epoch=EPOCH)
    )
    late = {}
    for name, percentile in CHOSEN.items():
        expected = model(seed, percentile, splits=1 + seed % 2)
        assert sorted(rows[name]) == expected, f"seed {seed}, {name}"
        late[name] = sum(is_late for *_, is_late in expected)
        assert result.counters[name].get("late", 0) == late[name]
    assert late["strict"] == 0 < late["most"] <= late["half"], f"seed {seed}: nothing was late"
    met = {tuple(watermark for _, watermark, _ in sorted(rows[name])) for name in CHOSEN}
    assert len(met) == len(CHOSEN), f"seed {seed}: the choice made no difference"
    # What a consumer sends on is behind its own watermark, so it is late for those after it, and nothing else is.
    assert sorted(rows["after most"]) == sorted(rows["most"])
    assert set(result.watermarks.values()) == {MAX_TIMESTAMP}


def test_a_restart_goes_on_with_the_latenesses_of_before(tmp_path):
    whole, parts = {}, {}
    options = RunOptions(max_records_per_epoch=EPOCH, checkpoint=str(tmp_path))
    LocalRunner().run_topology(topology_of(3, whole), RunOptions(max_records_per_epoch=EPOCH))
    for epoch in (2, 5):
        with pytest.raises(Stop):
            LocalRunner(scheduler=StopAfter(epoch)).run_topology(topology_of(3, parts), options)
    LocalRunner().run_topology(topology_of(3, parts), options)
    assert parts == whole


@pytest.mark.parametrize("delay", [None, 1000])
def test_a_perfect_watermark_is_one_for_all_and_nothing_is_counted(tmp_path, delay):
    rows, options = {}, RunOptions(max_records_per_epoch=EPOCH, checkpoint=str(tmp_path))
    LocalRunner().run_topology(topology_of(1, rows, delay), options)
    assert (rows["half"] == rows["strict"]) == (delay is None)
    manifest = CheckpointView.of(ObjectStore(tmp_path)).manifest
    assert bool(manifest.lateness) == (delay is not None)


def hosts(count):
    """A key for each of so many intervals."""
    found = {}
    for key in map(str, range(1000)):
        found.setdefault(IntervalMap.evenly(count).of(key_hash_of(encode_key(key))).number, key)
    return [found[number] for number in range(count)]


@pytest.mark.parametrize(("percentile", "reached"), [(None, 1), (80, 1), (75, 2), (50, 3), (1, 4)])
def test_holds_of_the_slowest_intervals_are_ignored(tmp_path, percentile, reached):
    keys = hosts(4)
    topology = Topology()
    topology.injector("in", ManualInjector().records(*((key, n) for n, key in enumerate(keys, 1))).watermark(90))
    topology.computation("holding", Holding(), {"in": str}, ["held"])
    topology.computation("passing", Passing(), {"held": lambda value: value}, watermark_percentile=percentile)
    with pytest.raises(Stop):
        LocalRunner(scheduler=StopAfter(2), intervals=4).run_topology(topology, RunOptions(checkpoint=str(tmp_path)))
    manifest = CheckpointView.of(ObjectStore(tmp_path)).manifest
    assert manifest.input_watermarks["passing"] == reached
    found = explain(topology, state_of(manifest).watermark_state(), "passing")
    assert found.cause.timestamp == reached
    assert found.cause.key == (keys[0] if reached == 1 else None)


def test_explain_goes_by_the_watermark_that_the_step_chose(tmp_path):
    topology = topology_of(5, {})
    with pytest.raises(Stop):
        LocalRunner(scheduler=StopAfter(4)).run_topology(
            topology, RunOptions(max_records_per_epoch=EPOCH, checkpoint=str(tmp_path))
        )
    manifest = CheckpointView.of(ObjectStore(tmp_path)).manifest
    standing = state_of(manifest).watermark_state()
    for name in (*CHOSEN, "after most"):
        found = explain(topology, standing, name)
        assert isinstance(found.cause, Injected)
        assert found.cause.timestamp == found.watermark == manifest.input_watermarks[name]
    assert "ignores the slowest 10 % of records" in str(explain(topology, standing, "after most"))
    assert "ignores" not in str(explain(topology, standing, "strict"))
