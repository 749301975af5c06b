"""What tests of pipelines are made of: assertions about collections, and streams that are told event by event."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace.lowlevel import StepError
from headrace.testing.test_pipeline import TestPipeline
from headrace.testing.test_stream import ElementEvent, ProcessingTimeEvent, TestStream, WatermarkEvent
from headrace.testing.util import (
    BeamAssertException,
    assert_that,
    equal_to,
    equal_to_approx,
    equal_to_per_window,
    is_empty,
    is_not_empty,
)
from headrace.transforms import trigger, window
from headrace.utils.timestamp import MAX_TIMESTAMP
from tests.unit.collected import values

DISCARDING = trigger.AccumulationMode.DISCARDING


def timed(pipeline, *seconds):
    """Elements whose value is their timestamp in seconds."""
    return pipeline | beam.Create([window.TimestampedValue(second, second) for second in seconds])


def seen(element, when=beam.DoFn.TimestampParam, where=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam):
    return element, when, where, pane


class TestAssertions:
    def failure(self, elements, matcher, **kwargs):
        with pytest.raises(StepError) as caught, TestPipeline("LocalRunner") as p:
            assert_that(p | beam.Create(elements), matcher, **kwargs)
        assert caught.value.step == "assert_that/Match"
        return caught.value.cause

    def test_they_hold(self):
        with TestPipeline("LocalRunner") as p:
            numbers = p | beam.Create([1, 2, 2])
            assert_that(numbers, equal_to([2, 1, 2]))
            assert_that(numbers, is_not_empty())
            assert_that(p | "none" >> beam.Create([]), is_empty())
            assert_that(p | "close" >> beam.Create([(0.1 + 0.2, "a")]), equal_to_approx([(0.3, "a")]))
            assert_that(p | "rows" >> beam.Create([beam.Row(a=1)]), equal_to([beam.Row(a=1)]))

    def test_they_do_not(self):
        assert "unexpected: [2], missing: [3]" in self.failure([1, 2], equal_to([1, 3]))
        assert "expected nothing, got [1]" in self.failure([1], is_empty())
        assert "expected something" in self.failure([], is_not_empty())
        assert "missing: [1]" in self.failure([], equal_to([1]))

    def test_per_window(self):
        with TestPipeline("LocalRunner") as p:
            windowed = timed(p, 1, 2, 11) | beam.WindowInto(window.FixedWindows(10))
            expected = {window.IntervalWindow(0, 10): [2, 1], window.IntervalWindow(10, 20): [11]}
            assert_that(windowed, equal_to_per_window(expected))
        with pytest.raises(StepError, match="missing elements by window"), TestPipeline("LocalRunner") as p:
            assert_that(timed(p, 1), equal_to_per_window({window.GlobalWindow(): [1, 2]}))
        with pytest.raises(StepError, match="unexpected 1 in window"), TestPipeline("LocalRunner") as p:
            assert_that(timed(p, 1), equal_to_per_window({window.GlobalWindow(): [2]}))

    def test_within_each_window(self):
        def look(pair):
            elements, where = pair
            if sorted(elements) not in ([1, 2], [11]):
                raise BeamAssertException(f"{elements} in {where}")

        with TestPipeline("LocalRunner") as p:
            windowed = timed(p, 1, 2, 11) | beam.WindowInto(window.FixedWindows(10))
            # The marker element is in the window at the beginning of time.
            assert_that(windowed, lambda pair: pair[0] and look(pair), use_global_window=False)

    def test_not_after_the_run(self):
        with TestPipeline("LocalRunner") as p:
            numbers = p | beam.Create([1])
        with pytest.raises(RuntimeError, match="inside its with block"):
            assert_that(numbers, equal_to([1]))


class TestStreamsOfEvents:
    def panes(self, stream, **kwargs):
        def build(p):
            windowed = p | stream | beam.WindowInto(window.FixedWindows(10), **kwargs)
            return windowed | beam.CombinePerKey(sum) | beam.Map(seen)

        return [(row[0][1], row[2].start, row[3].timing.name) for row in values(build)]

    def test_early_on_time_and_late(self):
        stream = (
            TestStream()
            .advance_watermark_to(1000)
            .add_elements([("k", 1), window.TimestampedValue(("k", 2), 1003)])
            .advance_processing_time(10)
            .add_elements([("k", 3)])
            .advance_watermark_to(1020)
            .add_elements([window.TimestampedValue(("k", 4), 1001)])
            .advance_watermark_to(1050)
            .add_elements([window.TimestampedValue(("k", 5), 1001)])
        )
        after = trigger.AfterWatermark(early=trigger.AfterProcessingTime(5), late=trigger.AfterCount(1))
        assert self.panes(stream, trigger=after, accumulation_mode=DISCARDING, allowed_lateness=20) == [
            (3, 1000, "EARLY"), (3, 1000, "ON_TIME"), (4, 1000, "LATE"),
        ]  # fmt: skip

    def test_outputs_by_tag_keep_step(self):
        stream = (
            TestStream()
            .add_elements([window.TimestampedValue(("k", 1), 5)], tag="one")
            .advance_watermark_to(10, tag="one")
            .add_elements([window.TimestampedValue(("k", 2), 6)], tag="two")
            .advance_watermark_to(10, tag="two")
            .add_elements([window.TimestampedValue(("k", 4), 7)], tag="one")
        )

        def build(p):
            outputs = p | stream
            both = (outputs["one"], outputs["two"]) | beam.Flatten()
            return both | beam.WindowInto(window.FixedWindows(10)) | beam.CombinePerKey(sum)

        # The window ends when the slower of the two has passed it; what comes then is too late.
        assert values(build) == [("k", 3)]

    def test_events_as_values(self):
        events = [
            ElementEvent([window.TimestampedValue(("k", 1), 1)], "one"),
            WatermarkEvent(20, "one"),
            ProcessingTimeEvent(5),
        ]
        assert values(lambda p: (p | TestStream(events=events, output_tags=["one"]))["one"]) == [("k", 1)]
        with pytest.raises(ValueError, match="none of output_tags"):
            TestStream(events=events)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (lambda s: s.advance_watermark_to(5).advance_watermark_to(5), "the watermark must go on"),
            (lambda s: s.advance_processing_time(0), "the clock must go on"),
            (lambda s: s.add_elements([1], event_timestamp=MAX_TIMESTAMP), "before the end of time"),
        ],
    )
    def test_what_cannot_happen(self, wrong, message):
        with pytest.raises(ValueError, match=message):
            wrong(TestStream())
