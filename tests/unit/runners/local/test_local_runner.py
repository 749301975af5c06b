"""The local runner and the driver's loop: epochs, levels, circles, holds, wall time, errors, any order of tasks."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.lowlevel import (
    BoundedInjector,
    CallSink,
    Computation,
    InlineComputation,
    ManualInjector,
    StalledError,
    StepError,
    TimeDomain,
    Topology,
)
from headrace.lowlevel.injectors.injector import BaseInjector, Delivery, MemorySplit
from headrace.lowlevel.records.record import Batch
from headrace.runners.engine.clock import LocalClock, ManualClock, SkippingClock
from headrace.runners.engine.driver.topology_change import Changes
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner, Scheduler
from tests.schedulers import RandomScheduler


def collect(topology, stream):
    """Add a sink that gathers a stream's values."""
    rows = []
    topology.sink(f"collect {stream}", stream, CallSink(lambda epoch, more: rows.extend(value for value, _ in more)))
    return rows


def itself(value):
    return value


def first(value):
    return value[0]


class PerMinute(Computation):
    def initial_state(self):
        return {}

    def process_record(self, record, context):
        minute = record.timestamp // 60
        context.state[minute] = context.state.get(minute, 0) + 1
        context.set_timer(str(minute), minute * 60 + 60)
        context.hold(min(context.state) * 60)

    def process_timer(self, timer, context):
        minute = int(timer.tag)
        context.produce("minutes", (context.key, minute, context.state.pop(minute)), minute * 60)
        if context.state:
            context.hold(min(context.state) * 60)
        else:
            context.release()
            context.state = None


class Highest(Computation):
    """The busiest minute of each parity of key, once all minutes are in."""

    def process_record(self, record, context):
        _, minute, count = record.value
        context.state = max(context.state or (0, 0), (count, -minute))
        context.set_timer("end", 10**9)

    def process_timer(self, timer, context):
        context.produce("highest", (context.key, *context.state))
        context.state = None


def two_stages(rows, max_delay=None):
    topology = Topology()
    topology.injector("in", BoundedInjector(rows, max_delay))
    topology.computation("per minute", PerMinute(), {"in": itself}, ["minutes"])
    topology.computation("highest", Highest(), {"minutes": lambda value: value[0] % 2}, ["highest"])
    return topology, collect(topology, "minutes"), collect(topology, "highest")


rows_strategy = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 600)), max_size=60)


@settings(max_examples=60)
@given(rows_strategy, st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 3))
def test_any_order_of_tasks_and_any_size_of_bundles_gives_the_same(rows, seed, intervals, parallelism):
    topology, minutes, highest = two_stages(rows)
    runner = LocalRunner(scheduler=RandomScheduler(seed), intervals=intervals, parallelism=parallelism)
    result = runner.run_topology(topology, RunOptions(max_records_per_epoch=16))
    counts = {}
    for key, timestamp in rows:
        counts[key, timestamp // 60] = counts.get((key, timestamp // 60), 0) + 1
    assert sorted(minutes) == sorted((key, minute, count) for (key, minute), count in counts.items())
    best = {}
    for (key, minute), count in counts.items():
        best[key % 2] = max(best.get(key % 2, (0, 0)), (count, -minute))
    assert sorted(highest) == sorted((parity, *value) for parity, value in best.items())
    assert all(store.count()["cells"] == store.count()["marks"] == 0 for store in runner.stores.values())
    assert result.counters.get("in", {}).get("records", 0) == len(rows)


def test_an_event_time_timer_fires_through_the_whole_graph_in_one_epoch():
    topology, minutes, highest = two_stages([(1, 5), (2, 65)])
    result = LocalRunner().run_topology(topology)
    assert (result.epochs, len(minutes), len(highest)) == (1, 2, 2)


def test_heuristic_watermark_takes_effect_in_the_epoch_that_read_the_records():
    topology, minutes, _ = two_stages([(1, 5), (1, 200), (1, 10)], max_delay=10)
    seen = []
    LocalRunner().run_topology(
        topology, RunOptions(max_records_per_epoch=2, progress=lambda p: seen.append((p.watermark, p.late)))
    )
    assert seen[0] == (180, 0)  # read up to 200: the first stage is at 190, the second waits for the open minute 3
    assert sorted(minutes) == [(1, 0, 1), (1, 0, 1), (1, 3, 1)]
    assert seen[-1][1] == 2  # the third record, and the count that it leads to in the second stage


def test_a_circle_of_computations_comes_to_rest():
    class Collatz(Computation):
        def process_record(self, record, context):
            number, steps = record.value
            if number == 1:
                context.produce("done", steps)
            else:
                context.produce("more", (number // 2 if number % 2 == 0 else 3 * number + 1, steps + 1))

    topology = Topology()
    topology.injector("in", BoundedInjector([((6, 0), 5), ((27, 0), 6)]))
    topology.computation("collatz", Collatz(), {"in": first, "more": first}, ["more", "done"])
    done = collect(topology, "done")
    seen = []
    LocalRunner(intervals=3).run_topology(topology, RunOptions(progress=lambda p: seen.append(p.watermark)))
    assert sorted(done) == [8, 111]
    assert seen == sorted(seen)
    assert max(seen[:-1]) <= 6


class Double(InlineComputation):
    def process_batch(self, stream, batch, emit):
        emit("doubled", Batch([value * 2 for value in batch.values], batch.timestamps))


class Fuse(Double):
    def start_bundle(self):
        self.seen = 0

    def finish_bundle(self, emit):
        emit("ends", Batch(["end"], [0]))


def test_inline_computations_run_where_their_input_is_made():
    topology = Topology()
    topology.injector("in", BoundedInjector([(1, 1), (2, 2)]))
    topology.inline("double", Fuse(), ["in"], ["doubled", "ends"])
    doubled, ends = collect(topology, "doubled"), collect(topology, "ends")
    LocalRunner().run_topology(topology)
    assert (doubled, ends) == ([2, 4], ["end"])


class Late(Computation):
    def process_record(self, record, context):
        context.set_timer("wall", context.wall_time + 1000, TimeDomain.WALL_TIME, hold=record.timestamp)

    def process_timer(self, timer, context):
        context.produce("out", (timer.timestamp, context.wall_time))


def test_a_held_watermark_waits_for_the_wall_clock():
    topology = Topology()
    topology.injector("in", BoundedInjector([("a", 5)]))
    topology.computation("late", Late(), {"in": itself}, ["out"])
    topology.computation("behind", NothingLate(), {"out": first})
    out = collect(topology, "out")
    clock = ManualClock(50)
    LocalRunner(clock).run_topology(topology)
    assert out == [(1050, 1050)]


class NothingLate(Computation):
    def process_record(self, record, context):
        assert not context.is_late(record)


def test_a_forgotten_hold_is_named():
    class Forgetful(Computation):
        def process_record(self, record, context):
            context.hold(record.timestamp, "mine")
            context.produce("out", 1)

    topology = Topology()
    topology.injector("in", BoundedInjector([("a", 5)]))
    topology.computation("forgetful", Forgetful(), {"in": itself}, ["out"])
    topology.computation("behind", NothingLate(), {"out": itself})
    with pytest.raises(StalledError, match=r"'forgetful' holds the watermark at 5 for key 'a' .hold 'mine'"):
        LocalRunner().run_topology(topology)


def test_an_error_stops_the_run_and_leaves_earlier_epochs():
    class Picky(Computation):
        def process_record(self, record, context):
            if record.value == "bad":
                raise ValueError("no")
            context.produce("out", record.value)

    topology = Topology()
    topology.injector("in", BoundedInjector([("good", 1), ("bad", 2), ("good", 3)]))
    topology.computation("picky", Picky(), {"in": itself}, ["out"])
    out = collect(topology, "out")
    with pytest.raises(StepError, match="'picky' raised for key 'bad' at 'bad'"):
        LocalRunner().run_topology(topology, RunOptions(max_records_per_epoch=1))
    assert out == ["good"]


def test_an_extractor_that_raises_names_the_value():
    topology = Topology()
    topology.injector("in", BoundedInjector([((1, 2), 1), (3, 2)]))
    topology.computation("keyed", NothingLate(), {"in": first})
    with pytest.raises(StepError, match="'keyed' raised at 3"):
        LocalRunner().run_topology(topology)


def test_keys_that_compare_equal_but_differ_in_type_are_apart():
    class Keys(Computation):
        def process_record(self, record, context):
            context.produce("out", context.key)

    topology = Topology()
    topology.injector("in", BoundedInjector([(1, 1), (True, 1), (1.0, 1), ("1", 1), (b"1", 1), (None, 1), ((1,), 1)]))
    topology.computation("keys", Keys(), {"in": itself}, ["out"])
    out = collect(topology, "out")
    runner = LocalRunner()
    runner.run_topology(topology)
    assert sorted(map(repr, out)) == sorted(map(repr, [1, True, 1.0, "1", b"1", None, (1,)]))


def test_redelivered_records_count_once():
    injector = ManualInjector(record_ids=True)
    injector.records(("a", 1), ("b", 2), ids=[b"1", b"2"]).records(("b", 2), ("c", 3), ids=[b"2", b"3"])
    topology = Topology()
    topology.injector("in", injector)
    topology.inline("double", Double(), ["in"], ["doubled"])
    topology.computation("per minute", PerMinute(), {"doubled": itself}, ["minutes"])
    minutes = collect(topology, "minutes")
    result = LocalRunner().run_topology(topology)
    assert sorted(minutes) == [("aa", 0, 1), ("bb", 0, 1), ("cc", 0, 1)]
    assert result.counters["per minute"]["duplicates"] == 1


def test_the_clock_never_goes_back():
    class Clock(Computation):
        def process_record(self, record, context):
            context.produce("out", context.wall_time)

    injector = ManualInjector().clock(500).records(("a", 1)).clock(100).records(("a", 1))
    topology = Topology()
    topology.injector("in", injector)
    topology.computation("clock", Clock(), {"in": itself}, ["out"])
    out = collect(topology, "out")
    LocalRunner(scheduler=Scheduler()).run_topology(topology)
    assert out == [500, 500]


def test_a_request_to_stop_ends_the_run_after_the_epoch():
    topology, changes = Topology(), Changes(Topology())
    topology.injector("in", BoundedInjector([(number, 0) for number in range(100)]))
    epochs = []
    topology.sink("out", "in", CallSink(lambda epoch, rows: (epochs.append(epoch), changes.stop())))
    result = LocalRunner().run_topology(topology, RunOptions(max_records_per_epoch=1), changes)
    assert epochs == [1] and result.epochs == 1 and not changes.finished


def test_the_start_of_each_task_is_told_before_any_other_code():
    class Notes(InlineComputation):
        def setup(self):
            told.append("setup")

        def process_batch(self, stream, batch, emit):
            told.append("record")

    told = []
    topology = Topology(task_begins=lambda: told.append("task"))
    topology.injector("in", BoundedInjector([("a", 0), ("b", 0)]))
    topology.inline("notes", Notes(), ["in"])
    LocalRunner().run_topology(topology, RunOptions(max_records_per_epoch=1))
    assert told[:2] == ["task", "setup"] and told.count("task") == told.count("record") == 2


@pytest.mark.parametrize(("waits", "kind"), [(False, SkippingClock), (True, LocalClock)])
def test_the_time_of_the_machine(waits, kind):
    runner, given_clock = LocalRunner(), LocalRunner(ManualClock())
    for each in (runner, given_clock):
        each.keep_time(waits)
    assert type(runner.clock) is kind and type(given_clock.clock) is ManualClock


class TestTheClockOfAProgram:
    """A program that makes a LocalRunner has the machine's clock; nothing happens early while its input goes on."""

    class Ticks(BaseInjector):
        """A record now, and one after a while."""

        def __init__(self, seconds):
            self._seconds = seconds

        def start(self):
            return 0

        def plan(self, position, limit, splits):
            now = time.time_ns() // 1000
            if position == 0:
                return Delivery([MemorySplit(Batch([("a", now)], [now]))], now, 0)
            if now - position < self._seconds * 1e6:
                return Delivery([], position, 0, idle=True)
            return Delivery([], position, done=True)

    class Timed(Computation):
        def process_record(self, record, context):
            context.set_timer("due", context.wall_time + 200_000, TimeDomain.WALL_TIME)
            context.produce("out", ("record", context.wall_time))

        def process_timer(self, timer, context):
            context.produce("out", ("timer", context.wall_time))

    def run(self, seconds):
        told, topology = [], Topology()
        topology.injector("in", self.Ticks(seconds))
        topology.computation("timed", self.Timed(), {"in": lambda value: value[0]}, ["out"])
        topology.sink("out", "out", CallSink(lambda epoch, rows: told.extend(value for value, _ in rows)))
        began = time.process_time()
        LocalRunner().run_topology(topology, RunOptions(poll_seconds=0.02))
        return told, time.process_time() - began

    def test_a_timer_fires_once_at_its_time(self):
        before = time.time_ns() // 1000
        told, _ = self.run(1.0)
        (first, began), (second, fired) = told
        assert (first, second) == ("record", "timer")
        assert before <= began < before + 30_000_000
        assert 200_000 <= fired - began < 20_000_000
        assert fired <= time.time_ns() // 1000, "the clock has not jumped"

    def test_waiting_takes_next_to_no_processor_time(self):
        _, seconds = self.run(1.5)
        assert seconds < 0.6
