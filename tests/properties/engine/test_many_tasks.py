"""Epochs whose tasks hear from the driver alone how far the others are, against those whose tasks tell each other."""

from collections import Counter
from typing import ClassVar

import pytest

from headrace.lowlevel import BoundedInjector, CallSink, Computation, StepError, Topology
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.runners.engine.clock import ManualClock
from headrace.runners.engine.driver import running_topology
from headrace.runners.engine.driver.driver import Driver
from headrace.runners.engine.driver.journal import Journal
from headrace.runners.engine.messages import MessageKind
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner, Scheduler
from headrace.runners.local.executor import LocalExecutor
from tests.faults.life import Mortal, Outside, live, stored
from tests.faults.mill import SINKS, Mill
from tests.unit.runners.local.test_local_runner import Highest, PerMinute, first, itself

ROWS = [((number % 7, number), 3 * number) for number in range(120)]


@pytest.mark.parametrize("seed", range(12))
def test_the_same_results_and_state_in_the_end(seed, tmp_path, monkeypatch):
    """State, timers on both clocks, holds, a circle, records that come again, and intervals that change."""
    mill, ends = Mill(seed), {}
    for many in (256, 2):
        monkeypatch.setattr(running_topology, "MANY_TASKS", many)
        outside, store = Outside(), ObjectStore(str(tmp_path / str(many)))
        result = live(mill.topology, outside, store, Mortal(seed))
        assert set(result.watermarks.values()) == {MAX_TIMESTAMP}
        ends[many] = {sink: sorted(outside.got(sink)) for sink in SINKS}, stored(store)
        for sink, values in mill.expected().items():
            assert sorted(outside.values(sink)) == sorted(values), sink
    assert ends[2] == ends[256]


class Watching(Scheduler):
    """Notes nothing, and gives epochs of twenty records."""

    def bundle_size(self, epoch, limit):
        return 20


def run(many, monkeypatch, percentile=None, intervals=3):
    monkeypatch.setattr(running_topology, "MANY_TASKS", many)
    topology, epochs, found = Topology(), {}, []
    topology.injector("in", BoundedInjector([((key % 3, key), time) for (key, _), time in ROWS], max_delay=40))
    topology.computation("per minute", PerMinute(), {"in": itself}, ["minutes"])
    topology.computation("highest", Highest(), {"minutes": first}, ["highest"], watermark_percentile=percentile)

    def deliver(epoch, rows):
        epochs.update(dict.fromkeys((value for value, _ in rows), epoch))
        found.extend(rows)

    topology.sink("minutes", "minutes", CallSink(deliver))
    marks = []
    options = RunOptions(progress=lambda progress: marks.append(progress.watermark), balancer=None)
    result = LocalRunner(scheduler=Watching(), intervals=intervals).run_topology(topology, options)
    return sorted(found), epochs, marks, result


@pytest.mark.parametrize("percentile", [None, 90])
def test_watermarks_come_one_epoch_later_for_each_level_and_never_ahead(percentile, monkeypatch):
    usual, usual_epochs, usual_marks, _ = run(256, monkeypatch, percentile)
    many, many_epochs, many_marks, result = run(2, monkeypatch, percentile)
    assert many == usual and set(result.watermarks.values()) == {MAX_TIMESTAMP}
    assert {epoch - usual_epochs[value] for value, epoch in many_epochs.items()} == {1}
    if percentile is None:
        for epoch, mark in enumerate(usual_marks):
            assert many_marks[epoch] <= mark <= many_marks[epoch + 2], epoch
    assert len(usual_marks) < len(many_marks) <= len(usual_marks) + 2


class Counting(LocalExecutor):
    """Counts messages by kind, each time one comes to a task."""

    def __init__(self, topology, parallelism):
        super().__init__(topology, parallelism, Scheduler(), None, 1)
        self.messages, self.bytes = Counter(), Counter()

    def _run_level(self, spec, level, messages):
        arrived = [message for message in messages if message[1] == level]
        for _, _, kind, blob in arrived:
            self.messages[MessageKind(kind)] += 1
            self.bytes[MessageKind(kind)] += len(blob)
        return super()._run_level(spec, level, messages)


def counted(tasks, many, monkeypatch):
    """The executor, and the epochs of a run."""
    monkeypatch.setattr(running_topology, "MANY_TASKS", many)
    topology, rows = Topology(), []
    topology.injector("in", BoundedInjector(ROWS))
    topology.computation("per minute", PerMinute(), {"in": first}, ["minutes"])
    topology.computation("highest", Highest(), {"minutes": first}, ["highest"])
    topology.sink("highest", "highest", CallSink(lambda epoch, its: rows.extend(its)))
    executor = Counting(topology, 4)
    options = RunOptions(intervals=tasks, balancer=None)
    result = Driver(topology, executor, Journal(), ManualClock(), options).run()
    return executor, result.epochs, sorted(rows)


@pytest.mark.parametrize("tasks", [64, 256])
def test_messages_of_control_grow_with_tasks_and_not_with_their_square(tasks, monkeypatch):
    usual, usual_epochs, expected = counted(tasks, 1000, monkeypatch)
    many, epochs, found = counted(tasks, 2, monkeypatch)
    assert found == expected
    # Of level 0 one task reads, and tells all of level 1.
    assert usual.messages[MessageKind.CONTROL] >= usual_epochs * (tasks + tasks * tasks)
    assert many.messages[MessageKind.CONTROL] == epochs * 2 * tasks
    # An even map of intervals is small whatever their number.
    assert many.bytes[MessageKind.CONTROL] < 900 * many.messages[MessageKind.CONTROL]


class Fails(Computation):
    """Sends each record on, but one."""

    def process_record(self, record, context):
        if record.value[1] == 77:
            raise ValueError("seventy-seven")
        context.produce("sent", record.value)


class Released(Computation):
    """Weak: what it is given is seen at once, before any commit."""

    strong_productions = False
    seen: ClassVar[list] = []

    def process_record(self, record, context):
        self.seen.append(record.value)


def test_behind_a_task_that_fails_no_user_code_runs(monkeypatch):
    monkeypatch.setattr(running_topology, "MANY_TASKS", 2)
    monkeypatch.setattr(Released, "seen", [])
    topology = Topology()
    topology.injector("in", BoundedInjector(ROWS))
    topology.computation("fails", Fails(), {"in": first}, ["sent"])
    topology.computation("passes", Fails(), {"sent": first}, ["sent again"])
    topology.computation("released", Released(), {"sent": first, "sent again": first})
    with pytest.raises(StepError, match="seventy-seven"):
        LocalRunner(intervals=5).run_topology(topology)
    assert not Released.seen
