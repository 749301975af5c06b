"""The MillWheel paper's figure 9: a window counter and a dip detector on low watermark timers."""

from headrace.lowlevel import CallSink, Computation, ManualInjector, Topology
from headrace.lowlevel.time import SECOND
from headrace.runners.local import LocalRunner


class Windower(Computation):
    """Counts a key's records in one-second buckets; sends a bucket's count once the watermark has passed it."""

    def initial_state(self):
        return {}

    def process_record(self, record, context):
        bucket = record.timestamp // SECOND
        if context.is_late(record):
            context.drop_late()
            return
        context.state[bucket] = context.state.get(bucket, 0) + 1
        context.set_timer(str(bucket), (bucket + 1) * SECOND)

    def process_timer(self, timer, context):
        count = context.state.pop(int(timer.tag))
        context.produce("windows", (context.key, int(timer.tag), count), timer.timestamp - 1)
        if not context.state:
            context.state = None


class DipDetector(Computation):
    """Compares each bucket with what the model predicts; reports a dip after two buckets far below it."""

    def __init__(self, prediction, threshold):
        self.prediction, self.threshold = prediction, threshold

    def initial_state(self):
        return 0

    def process_record(self, record, context):
        _, bucket, count = record.value
        low = count < self.prediction / 2
        context.state = context.state + 1 if low else 0
        if context.state >= self.threshold:
            context.produce("dips", (context.key, bucket, context.state), record.timestamp)


def queries(word, second, count):
    return [(word, second * SECOND + i) for i in range(count)]


def figure9(injector):
    """The topology, and the lists that its windows and dips end in."""
    topology, windows, dips = Topology(), [], []
    topology.injector("queries", injector)
    topology.computation("window counter", Windower(), {"queries": lambda query: query}, ["windows"])
    topology.computation("dip detector", DipDetector(10, 2), {"windows": lambda window: window[0]}, ["dips"])
    topology.sink("windows", "windows", CallSink(lambda epoch, rows: windows.extend(value for value, _ in rows)))
    topology.sink("dips", "dips", CallSink(lambda epoch, rows: dips.extend(rows)))
    return topology, windows, dips


def test_dips_are_found_through_the_low_watermark_and_late_data_is_counted(run):
    injector = ManualInjector()
    injector.records(*queries("britney", 0, 12), *queries("britney", 2, 3), *queries("carly", 0, 9))
    injector.records(*queries("britney", 1, 4))  # out of order, but in time: the watermark has not moved
    injector.watermark(3 * SECOND)
    injector.records(*queries("britney", 1, 20))  # behind the watermark
    injector.records(*queries("britney", 3, 11))
    topology, windows, dips = figure9(injector)
    result = run(topology)
    britney = [("britney", 0, 12), ("britney", 1, 4), ("britney", 2, 3), ("britney", 3, 11)]
    assert sorted(windows) == [*britney, ("carly", 0, 9)]
    assert dips == [(("britney", 2, 2), 3 * SECOND - 1)]
    counters = result.counters["window counter"]
    assert (counters["records"], counters["dropped_late"]) == (59, 20)


def test_nothing_is_said_before_the_watermark():
    injector = ManualInjector().records(*queries("britney", 0, 12)).watermark(SECOND - 1).clock(5 * SECOND)
    topology, windows, _ = figure9(injector)
    runner = LocalRunner()
    seen = []
    topology.sink("when", "windows", CallSink(lambda epoch, rows: seen.append(epoch)))
    runner.run_topology(topology)
    assert windows == [("britney", 0, 12)]
    assert seen == [4]  # records, watermark short of the end, clock, and only then the end of the input
    assert runner.stores["window counter", 0].count() == {"keys": 0, "cells": 0, "marks": 0, "ids": 0, "segments": 0}
