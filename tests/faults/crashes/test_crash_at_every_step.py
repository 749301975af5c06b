"""A driver that crashes at any step of the protocol, also while it recovers, and is started again: output unchanged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.lowlevel import BoundedInjector, CallSink, CheckpointError, FencedError, ManualInjector, Topology
from headrace.metrics import Metrics
from headrace.runners.engine.clock import ManualClock
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner, Scheduler
from tests.schedulers import RandomScheduler
from tests.unit.runners.local.test_local_runner import Highest, PerMinute, itself

pytestmark = pytest.mark.faults

ROWS = [(i % 5, (i * 37) % 400) for i in range(60)]
OPTIONS = {"max_records_per_epoch": 16}


class Counted(Highest):
    """Reports metrics of every kind from records and timers."""

    def process_record(self, record, context):
        Metrics.counter("test", "records").inc()
        Metrics.distribution("test", "values").update(record.value[2])
        Metrics.gauge("test", "last").set(record.value[2])
        Metrics.string_set("test", "keys").add(str(record.value[0]))
        super().process_record(record, context)


class CountedPerMinute(PerMinute):
    """Counts timers."""

    def process_timer(self, timer, context):
        Metrics.counter("test", "timers").inc()
        super().process_timer(timer, context)


def exact(result):
    """Everything but the size of state, which is measured where a task runs and kept nowhere."""
    return {
        step: {metric: cell for metric, cell in cells.items() if metric.name != "state_bytes"}
        for step, cells in result.metrics.items()
    }


class Outside:
    """An external system: it takes rows by (sink, epoch), and a repeated delivery must be the same."""

    def __init__(self):
        self.rows = {}

    def take(self, sink):
        def deliver(epoch, rows):
            rows = sorted(rows)
            assert self.rows.setdefault((sink, epoch), rows) == rows, "a repeated delivery differs"

        return CallSink(deliver)

    def values(self, sink):
        return sorted(row for (name, _), rows in self.rows.items() if name == sink for row in rows)


def topology(outside, max_delay=None, rows=ROWS):
    made = Topology()
    made.injector("in", BoundedInjector(rows, max_delay))
    made.computation("per minute", CountedPerMinute(), {"in": itself}, ["minutes"])
    made.computation("highest", Counted(), {"minutes": lambda value: value[0] % 2}, ["highest"])
    made.sink("minutes", "minutes", outside.take("minutes"))
    made.sink("highest", "highest", outside.take("highest"))
    return made


def attempt(outside, checkpoint, scheduler, max_delay=None):
    """One life of a driver; None if it crashed."""
    runner = LocalRunner(ManualClock(), scheduler, intervals=3, parallelism=2)
    try:
        return runner.run_topology(topology(outside, max_delay), RunOptions(checkpoint=str(checkpoint), **OPTIONS))
    except Crash:
        return None


def reference(tmp_path, max_delay=None):
    outside, scheduler = Outside(), RandomScheduler(0)
    scheduler.bundle_size = lambda epoch, limit: 16
    result = attempt(outside, tmp_path / "reference", scheduler, max_delay)
    return outside, result, scheduler.steps


class FixedSize(RandomScheduler):
    """Bundles of a fixed size, so that epochs are the same in every life."""

    def bundle_size(self, epoch, limit):
        return 16


@pytest.mark.parametrize("max_delay", [None, 50])
def test_crash_at_every_step(tmp_path, max_delay):
    expected, result, steps = reference(tmp_path, max_delay)
    crashed = 0
    for step in range(1, steps + 1):
        outside, place = Outside(), tmp_path / f"at-{step}"
        assert attempt(outside, place, FixedSize(step, crash_at=step), max_delay) is None, "the fault did not fire"
        crashed += 1
        again = attempt(outside, place, FixedSize(step + 1), max_delay)
        assert outside.values("minutes") == expected.values("minutes"), f"crash at step {step}"
        assert outside.values("highest") == expected.values("highest"), f"crash at step {step}"
        assert again.counters == result.counters, f"crash at step {step}"
        assert exact(again) == exact(result), f"crash at step {step}"
    assert len([metric for cells in result.metrics.values() for metric in cells if metric.namespace == "test"]) == 5
    assert crashed == steps > 40


@settings(max_examples=40)
@given(st.lists(st.integers(1, 60), min_size=2, max_size=4), st.integers(0, 2**32))
def test_crash_again_and_again(tmp_path_factory, crashes, seed):
    tmp_path = tmp_path_factory.mktemp("crashes")
    expected, result, _ = reference(tmp_path)
    outside, place = Outside(), tmp_path / "checkpoint"
    for life, step in enumerate(crashes):
        again = attempt(outside, place, FixedSize(seed + life, crash_at=step))
        if again is not None:
            break
    else:
        again = attempt(outside, place, FixedSize(seed))
    assert exact(again) == exact(result)
    assert outside.values("highest") == expected.values("highest")
    assert outside.values("minutes") == expected.values("minutes")


def test_a_finished_run_started_again_does_nothing(tmp_path):
    outside = Outside()
    first = attempt(outside, tmp_path, Scheduler())
    before = dict(outside.rows)
    again = attempt(outside, tmp_path, Scheduler())
    assert (again.epochs, again.counters, exact(again)) == (first.epochs, first.counters, exact(first))
    assert outside.rows == before


def test_a_second_driver_fences_the_first_and_the_loser_says_by_whom(tmp_path):
    expected, _, _ = reference(tmp_path)
    outside, place = Outside(), tmp_path / "checkpoint"

    class Interrupted(Scheduler):
        """While epoch 2 runs, another driver takes the checkpoint and finishes the work."""

        def step(self, name, epoch):
            if (name, epoch) == ("commit", 2):
                assert attempt(outside, place, Scheduler()) is not None

    with pytest.raises(FencedError, match=r"generation 1 \(local runner on .*replaced by generation 2 \(local"):
        attempt(Outside(), place, Interrupted())
    assert outside.values("highest") == expected.values("highest")


def test_another_pipeline_is_refused_with_the_difference(tmp_path):
    attempt(Outside(), tmp_path, Scheduler())
    other = topology(Outside())
    other.computation("new", Highest(), {"minutes": itself}, ["highest"])
    del other.sinks["minutes"]
    del other.keyed["highest"], other.sinks["highest"]
    with pytest.raises(CheckpointError, match=r"computation 'highest' is gone; give it.*sink 'highest' is gone"):
        LocalRunner().run_topology(other, RunOptions(checkpoint=str(tmp_path)))


def test_duplicates_across_a_restart_count_once(tmp_path):
    def run(scheduler):
        injector = ManualInjector(record_ids=True)
        injector.records((1, 1), (2, 2), ids=[b"1", b"2"]).records((2, 2), (3, 3), ids=[b"2", b"3"])
        made = Topology()
        made.injector("in", injector)
        made.computation("per minute", PerMinute(), {"in": itself}, ["minutes"])
        made.sink("minutes", "minutes", outside.take("minutes"))
        return LocalRunner(scheduler=scheduler).run_topology(made, RunOptions(checkpoint=str(tmp_path)))

    class AfterFirst(Scheduler):
        def step(self, name, epoch):
            if (name, epoch) == ("plan", 2):
                raise Crash

    outside = Outside()
    with pytest.raises(Crash):
        run(AfterFirst())
    assert run(Scheduler()).counters["per minute"]["duplicates"] == 1
    assert [value for value, _ in outside.values("minutes")] == [(1, 0, 1), (2, 0, 1), (3, 0, 1)]


@pytest.mark.parametrize(("tasks", "epochs", "most"), [(2, 200, 250), (1, 700, 600)])
def test_long_runs_are_bounded_by_snapshots_and_garbage_collection(tasks, epochs, most, tmp_path):
    rows = [(i % 5, i) for i in range(2 * epochs)]
    outside = Outside()
    options = RunOptions(checkpoint=str(tmp_path), max_records_per_epoch=2)
    LocalRunner(intervals=2, parallelism=tasks).run_topology(topology(outside, 50, rows), options)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("snapshots" in str(path) for path in files)
    # Two levels of two intervals leave four deltas an epoch, which the commits of a single task carry.
    assert len(files) < most
    whole = Outside()
    LocalRunner().run_topology(topology(whole, 50, rows))
    assert outside.values("highest") == whole.values("highest")
