"""A source that runs ahead waits for the others, and nothing is lost or stands still (MillWheel paper §8.4)."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace.lowlevel import CallSink, Computation, ManualInjector, Topology
from headrace.lowlevel.time import SECOND
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner


class Pass(Computation):
    def process_record(self, record, context):
        context.produce("out", (record.value, context.watermark))


def source(name, pace, rounds):
    """A record and the watermark every `pace` seconds of event time, an epoch each."""
    injector = ManualInjector()
    for number in range(1, rounds + 1):
        injector.records(((name, number * pace), number * pace * SECOND)).watermark(number * pace * SECOND)
    return injector


def run(limit):
    topology = Topology()
    topology.injector("slow", source("slow", 1, 100))
    topology.injector("quick", source("quick", 10, 30))
    topology.computation("pass", Pass(), {"slow": lambda value: 0, "quick": lambda value: 0}, ["out"])
    seen = []
    topology.sink("out", "out", CallSink(lambda epoch, rows: seen.extend((epoch, value) for value, _ in rows)))
    LocalRunner().run_topology(topology, RunOptions(skew_limit=limit))
    return seen


def test_the_one_ahead_waits_until_the_other_ends():
    free, limited = run(None), run(25)
    assert sorted(value for _, (value, _) in limited) == sorted(value for _, (value, _) in free)
    slow = 0
    for _, ((name, at), _) in limited:
        if name == "slow":
            slow = at
        elif slow < 100:
            # It stops behind the record that takes it past the limit.
            assert at <= slow + 25 + 10
    assert max(at for _, ((name, at), _) in free[:40] if name == "quick") > 100
    assert max(epoch for epoch, _ in limited) > max(epoch for epoch, _ in free)


def test_the_slowest_never_waits():
    assert len(run(0)) == len(run(None)) == 130


@pytest.mark.parametrize("limit", [0, 5])
def test_bounded_sources_of_a_pipeline(limit):
    rows = []
    options = PipelineOptions(["--skew_limit", str(limit), "--max_records_per_epoch", "3"])
    with beam.Pipeline(LocalRunner(), options=options) as p:
        early = p | "Early" >> beam.Create(range(10)) | "At" >> beam.Map(lambda n: beam.window.TimestampedValue(n, n))
        later = p | "Later" >> beam.Create(range(1000, 1010))
        _ = (early, later) | beam.Flatten() | beam.io.Write(CallSink(lambda epoch, its: rows.extend(v for v, _ in its)))
    assert sorted(rows) == [*range(10), *range(1000, 1010)]
