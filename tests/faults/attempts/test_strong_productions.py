"""A lost task runs again and makes something else: the epoch is repeated, no mixture is seen (paper §6.1.2)."""

from itertools import count

import pytest

from headrace.lowlevel import BoundedInjector, CallSink, Computation, Topology
from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.runners.engine.clock import ManualClock
from headrace.runners.engine.driver.driver import Driver
from headrace.runners.engine.driver.journal import Journal
from headrace.runners.engine.messages import COMMITTED, DRIVER, MessageKind, unpack, unpack_report
from headrace.runners.engine.options import RunOptions
from headrace.runners.engine.task.task import run_level
from headrace.runners.local import Scheduler
from headrace.runners.local.executor import LocalExecutor

pytestmark = pytest.mark.faults

NUMBERS = count()
KEY = next(key for key in map(str, count()) if IntervalMap.evenly(2).of(key_hash_of(encode_key(key))).number == 0)
"""A key of interval 0, whose task is the one that is lost."""


class Random(Computation):
    """Sends every key's record to both consumers under a number that differs each time it runs."""

    def process_record(self, record, context):
        number = next(NUMBERS)
        for target in range(8):
            context.produce("out", (target, record.value, number))


class Keep(Computation):
    def process_record(self, record, context):
        context.produce("kept", record.value)


class LosesATask(LocalExecutor):
    """At level 1 the only task runs twice; some of level 2 gets its first output, the rest its second."""

    def __init__(self, topology, times):
        super().__init__(topology, 1, Scheduler(), None, 1)
        self.times = times
        self.fired = 0

    def _run_level(self, spec, level, rows):
        out = super()._run_level(spec, level, rows)
        if level == 1 and self.fired < self.times:
            self.fired += 1
            again = list(run_level(self._program, self, 1, 0, [row for row in rows if row[1] == 1 and row[0] == 0]))
            mine = [row for row in out if row[1] != DRIVER and row[0] == 0]
            theirs = [row for row in again if row[1] != DRIVER and row[0] != 0]
            report = [row for row in again if row[2] == MessageKind.REPORT]
            kept = [row for row in out if row[1] == DRIVER and _place(unpack_report(row[3]).sender) != (1, 0)]
            others = [
                row
                for row in out
                if row[2] in (MessageKind.BLOCK, MessageKind.CONTROL) and row[0] != 0 and _of(row) != 0
            ]
            return mine + theirs + report + kept + others
        return out


def _place(sender):
    return sender.level, sender.index


def _of(row):
    """The interval of the task that sent a row between levels; None for the driver."""
    sent = unpack(row[3])
    sender = sent[0] if row[2] == MessageKind.BLOCK else sent.sender
    return None if sender == COMMITTED else sender.index


def run(times):
    topology, kept = Topology(), []
    topology.injector("in", BoundedInjector([("a", 1)]))
    topology.computation("random", Random(), {"in": lambda value: KEY}, ["out"])
    topology.computation("keep", Keep(), {"out": lambda value: value[0]}, ["kept"])
    topology.sink("kept", "kept", CallSink(lambda epoch, rows: kept.extend(value for value, _ in rows)))
    executor = LosesATask(topology, times)
    Driver(topology, executor, Journal(), ManualClock(), RunOptions(intervals=2)).run()
    return kept, executor.fired


def test_no_mixture_of_attempts_is_committed(many_tasks):
    kept, fired = run(times=2)
    assert fired == 2, "the fault did not fire"
    assert sorted(target for target, _, _ in kept) == list(range(8))
    assert len({number for _, _, number in kept}) == 1


def test_an_epoch_that_never_fits_together_is_given_up(many_tasks):
    cause = "level 1, task 0: attempt" if many_tasks > 2 else "level 2: productions of attempts were used that are not"
    with pytest.raises(RuntimeError, match=rf"epoch 1 was given up: in 3 attempts .*{cause}"):
        run(times=99)
