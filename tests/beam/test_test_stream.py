"""Scripted streams of Beam's `TestStream`: HeadraceRunner gives what Beam's streaming direct runner gives."""

from __future__ import annotations

from collections.abc import Callable

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.testing.test_stream import TestStream as Script
from apache_beam.testing.test_stream import WindowedValueHolder
from apache_beam.transforms import trigger, userstate
from apache_beam.transforms.window import FixedWindows, IntervalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming, WindowedValue

from headrace.runners.beam import HeadraceRunner

_told: list[object] = []


class Tell(beam.DoFn):
    """Notes each element with its time and window."""

    def process(self, element, time=beam.DoFn.TimestampParam, where=beam.DoFn.WindowParam):
        _told.append((element, time.micros, where.end.micros))


def told(runner: object, build: Callable[[beam.Pipeline], object]) -> list[str]:
    """What a program puts out, in order."""
    _told.clear()
    with beam.Pipeline(runner=runner, options=PipelineOptions(["--streaming", "--allow_unsafe_triggers"])) as pipeline:
        _ = build(pipeline) | "Tell" >> beam.ParDo(Tell())
    return list(map(repr, _told))


def grouped(pipeline, script, **windowing):
    pairs = pipeline | script | beam.WindowInto(FixedWindows(15), **windowing) | beam.WithKeys("k")
    return pairs | beam.GroupByKey()


def script():
    early = Script().advance_watermark_to(10).add_elements(["a", "b"]).advance_watermark_to(20).add_elements(["c"])
    return early.advance_processing_time(10).advance_watermark_to(300)


def elements(pipeline):
    return pipeline | script().add_elements([TimestampedValue("late", 12)]).add_elements(["d"], event_timestamp=310)


def late_panes(pipeline):
    late = script().add_elements([TimestampedValue("late", 12)]).add_elements([TimestampedValue("last", 310)])
    return grouped(pipeline, late.advance_watermark_to_infinity(), allowed_lateness=300)


def dropped(pipeline):
    return grouped(pipeline, script().add_elements([TimestampedValue("late", 12)]))


def early_panes(pipeline):
    each = trigger.AfterWatermark(early=trigger.AfterCount(1))
    return grouped(pipeline, script(), trigger=each, accumulation_mode=trigger.AccumulationMode.DISCARDING)


def by_the_clock(pipeline):
    stream = Script().advance_watermark_to(10).add_elements(["a"]).advance_processing_time(4).add_elements(["b"])
    stream = stream.advance_processing_time(2).add_elements(["c"]).advance_processing_time(6)
    after = trigger.Repeatedly(trigger.AfterProcessingTime(5))
    return grouped(pipeline, stream, trigger=after, accumulation_mode=trigger.AccumulationMode.DISCARDING)


def of_several_tags(pipeline):
    stream = Script().advance_watermark_to(0, tag="letters").advance_watermark_to(20, tag="numbers")
    stream = stream.add_elements([TimestampedValue("x", 6)], tag="letters").advance_watermark_to(16, tag="letters")
    stream = stream.add_elements([TimestampedValue(1, 21)], tag="numbers").advance_watermark_to(31, tag="numbers")
    both = pipeline | stream
    firsts = both["letters"] | "Letters" >> beam.WindowInto(FixedWindows(15)) | "L" >> beam.WithKeys("l")
    seconds = both["numbers"] | "Numbers" >> beam.WindowInto(FixedWindows(15)) | "N" >> beam.WithKeys("n")
    return ((firsts | "GL" >> beam.GroupByKey()), (seconds | "GN" >> beam.GroupByKey())) | beam.Flatten()


def with_windows(pipeline):
    pane = PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0)
    held = WindowedValueHolder(WindowedValue("a", Timestamp(5), [IntervalWindow(5, 10)], pane))
    return pipeline | Script().advance_watermark_to(4).add_elements([held]).add_elements([{"plain": 1}])


def beside_an_input(pipeline):
    side = pipeline | "Side" >> beam.Create([3, 1, 2])
    stream = pipeline | script()
    return stream | beam.Map(lambda letter, numbers: (letter, sorted(numbers)), beam.pvalue.AsList(side))


class Sampler(beam.DoFn):
    """A timer in processing time that sets itself again, and one on the watermark that ends it."""

    AGAIN = userstate.TimerSpec("again", userstate.TimeDomain.REAL_TIME)
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)
    COUNT = userstate.CombiningValueStateSpec("count", sum)

    def process(self, pair, again=beam.DoFn.TimerParam(AGAIN), end=beam.DoFn.TimerParam(END)):
        again.set(3)
        end.set(250)
        yield pair[1]

    @userstate.on_timer(AGAIN)
    def sample(
        self,
        time=beam.DoFn.TimestampParam,
        key=beam.DoFn.KeyParam,
        again=beam.DoFn.TimerParam(AGAIN),
        count=beam.DoFn.StateParam(COUNT),
    ):
        count.add(1)
        if count.read() < 4:
            again.set(time + 2)
        yield f"sample {count.read()} of {key} at {time.micros}"

    @userstate.on_timer(END)
    def end(self, again=beam.DoFn.TimerParam(AGAIN), count=beam.DoFn.StateParam(COUNT)):
        again.clear()
        yield f"{count.read()} samples"


def samples(pipeline):
    stream = Script().advance_watermark_to(0).add_elements([TimestampedValue("a", 100)])
    for _ in range(4):
        stream = stream.advance_processing_time(2)
    stream = stream.advance_watermark_to(260).advance_processing_time(20)
    return pipeline | stream | beam.WithKeys(("k", 1)) | beam.ParDo(Sampler())


PROGRAMS = [
    elements,
    late_panes,
    dropped,
    early_panes,
    by_the_clock,
    of_several_tags,
    with_windows,
    beside_an_input,
    samples,
]


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_as_beam(build: Callable[[beam.Pipeline], object]) -> None:
    expected = told(BundleBasedDirectRunner(), build)
    assert expected
    assert told(HeadraceRunner(), build) == expected
