"""Recording of computations and of DoFns with state: what they are given, what they give, and timers that fire."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import headrace as beam
from headrace.lowlevel import BoundedInjector, Computation, Context, Record, TimeDomain, Timer, Topology
from headrace.lowlevel.time import SECOND
from headrace.recording import RecordingError, StepRecording, record_topology
from headrace.runners.local import LocalRunner
from headrace.sdk.transforms.core.low_level import RunComputation
from headrace.testing.test_stream import TestStream
from headrace.transforms.timeutil import TimeDomain as Domain
from headrace.transforms.userstate import CombiningValueStateSpec, TimerSpec, on_timer
from headrace.transforms.window import FixedWindows, TimestampedValue


class Total(Computation):
    """Sums, told at the end of each minute, and after 30 seconds without a record."""

    private_state = True

    def process_record(self, record: Record, context: Context) -> None:
        context.state = (context.state or 0) + record.value[1]
        context.set_timer("minute", record.timestamp - record.timestamp % (60 * SECOND) + 60 * SECOND)
        context.set_timer("idle", context.wall_time + 30 * SECOND, TimeDomain.WALL_TIME)
        context.count("seen")

    def process_timer(self, timer: Timer, context: Context) -> None:
        context.produce("totals", (context.key, context.state))


class Summing(beam.DoFn):
    """The same with Beam's state and timers, an output for each element, and one at the end of each bundle."""

    SUM, END = CombiningValueStateSpec("sum", sum), TimerSpec("end", Domain.WATERMARK)

    def process(
        self,
        element: Any,
        total: Any = beam.DoFn.StateParam(SUM),
        end: Any = beam.DoFn.TimerParam(END),
        window: Any = beam.DoFn.WindowParam,
    ) -> Any:
        total.add(element[1])
        # Before the window closes, for which the engine sets a timer of its own then.
        end.set(window.end - 10)
        yield -element[1]

    @on_timer(END)
    def ends(self, total: Any = beam.DoFn.StateParam(SUM)) -> Any:
        yield "sum", total.read()


def stream() -> TestStream:
    return (
        TestStream()
        .advance_processing_time(100)
        .add_elements([TimestampedValue(("a", 5), 10), TimestampedValue(("b", 1), 20)])
        .advance_processing_time(20)
        .add_elements([TimestampedValue(("a", 7), 40)])
        .advance_processing_time(20)
        .advance_watermark_to(60)
        .advance_processing_time(5)
        .advance_watermark_to_infinity()
    )


def pipeline(runner: Any = "LocalRunner", **options: Any) -> beam.Pipeline:
    made = beam.Pipeline(runner, **options)
    given = made | stream()
    given | "raw" >> RunComputation(Total(), key=lambda pair: pair[0], outputs="totals") | "out" >> beam.Map(str)
    given | beam.WindowInto(FixedWindows(60)) | "fn" >> beam.ParDo(Summing()) | "out too" >> beam.Map(str)
    return made


def arrivals(step: StepRecording) -> list[tuple[Any, ...]]:
    return [
        (its.key, its.value, its.event_time // SECOND, its.processing_time // SECOND)
        for its in sorted_of(step.arrivals)
    ]


def results(step: StepRecording) -> list[tuple[Any, ...]]:
    return [
        (its.key, its.value, its.event_time // SECOND, its.processing_time // SECOND)
        for its in sorted_of(step.productions)
    ]


def timers(step: StepRecording) -> list[tuple[Any, ...]]:
    return [
        (its.key, its.tag, its.timestamp // SECOND, its.processing_time // SECOND, its.is_wall)
        for its in sorted_of(step.timers)
    ]


def sorted_of(things: Any) -> Any:
    return sorted(things, key=lambda its: (its.key, its.processing_time, str(its)))


ARRIVALS = [("a", 5, 10, 100), ("a", 7, 40, 120), ("b", 1, 20, 100)]


def test_a_computation():
    step = pipeline(record="raw").run().recording.step()
    assert arrivals(step) == ARRIVALS
    assert timers(step) == [
        ("a", "minute", 60, 140, False),
        ("b", "idle", 130, 140, True),
        ("b", "minute", 60, 140, False),
    ]
    assert results(step) == [("a", 12, 60, 140), ("b", 1, 130, 140), ("b", 1, 60, 140)]
    assert [move.watermark // SECOND for move in step.watermarks][1] == 60


def test_a_do_fn_with_state():
    step = pipeline(record="fn").run().recording.step()
    assert arrivals(step) == ARRIVALS
    assert timers(step) == [("a", "end", 50, 140, False), ("b", "end", 50, 140, False)], "and not the engine's own"
    assert results(step) == [
        ("a", -5, 10, 100),
        ("a", -7, 40, 120),
        ("a", "('sum', 12)", 50, 140),
        ("b", -1, 20, 100),
        ("b", "('sum', 1)", 50, 140),
    ]


def test_the_run_is_the_same():
    plain, recorded = pipeline().run(), pipeline(record=True).run()
    for step in ("raw", "fn"):
        own = Counter(recorded.counters[step])
        assert own == Counter(plain.counters[step])
    assert {step.label for step in recorded.recording.steps} == {"raw", "fn"}


def topology() -> Topology:
    made = Topology()
    made.injector("pairs", BoundedInjector([(("a", 5), 10 * SECOND), (("b", 1), 20 * SECOND)]))
    made.computation("total", Total(), inputs={"pairs": lambda pair: pair[0]}, outputs=["totals"])
    return made


def test_a_topology():
    result, recording = record_topology(LocalRunner(), topology())
    assert result.counters["total"]["seen"] == 2
    assert [(its.key, its.value) for its in recording.step("total").arrivals] == [("a", 5), ("b", 1)]
    with pytest.raises(RecordingError, match=r"nothing can be recorded of 'sum'.* the pipeline has 'total'"):
        record_topology(LocalRunner(), topology(), wanted=["sum"])


class Picky(Computation):
    """Raises for what it does not like, after it has put something out."""

    def process_record(self, record: Record, context: Context) -> None:
        context.produce("out", record.value)
        if record.value < 0:
            raise ValueError("negative")


def test_what_a_poisonous_record_did_is_not_recorded():
    made = Topology()
    made.injector("numbers", BoundedInjector([(1, 1), (-1, 2), (3, 3)]))
    made.computation("picky", Picky(), {"numbers": lambda number: 0}, ["out"], dead_letters="dead")
    _, recording = record_topology(LocalRunner(), made)
    step = recording.step()
    assert [its.value for its in step.arrivals] == [its.value for its in step.productions] == [1, 3]


class Weak(Picky):
    """Its productions may come again."""

    strong_productions = False


def test_a_computation_with_weak_productions():
    made = Topology()
    made.injector("numbers", BoundedInjector([(1, 1), (3, 3)]))
    made.computation("weak", Weak(), {"numbers": lambda number: 0}, ["out"])
    _, recording = record_topology(LocalRunner(), made)
    assert [its.value for its in recording.step().productions] == [1, 3]
