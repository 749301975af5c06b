"""Splittable DoFns of Beam's SDK: checkpoints that the engine takes, deferred rests, watermarks, windows, splits."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.sdf_utils import RestrictionTrackerView
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import trigger, window
from apache_beam.utils.timestamp import Duration, Timestamp

from headrace.runners.beam import HeadraceRunner
from headrace.sdk.operators.splittable import process_invoker


@pytest.fixture(autouse=True)
def enough_time(monkeypatch):
    """A slow machine takes no checkpoints of its own."""
    monkeypatch.setattr(process_invoker, "BUNDLE_SECONDS", 1e9)


class Numbers(beam.RestrictionProvider):
    """The numbers from 0 to an element."""

    tracker = OffsetRestrictionTracker

    def initial_restriction(self, element):
        return OffsetRange(0, element)

    def create_tracker(self, restriction):
        return self.tracker(restriction)

    def restriction_size(self, element, restriction):
        return restriction.size()


class Splits(Numbers):
    def split(self, element, restriction):
        return restriction.split(4)


class Whole(Numbers):
    class tracker(OffsetRestrictionTracker):
        def try_split(self, fraction_of_remainder):
            raise NotImplementedError


class Again(Numbers):
    """Checkpoints can follow one another; the second one takes what the first one has left."""

    class tracker(OffsetRestrictionTracker):
        def try_split(self, fraction_of_remainder):
            self._checkpointed = False
            self._last_claim_attempt = self._current_position
            if self._current_position + 1 < self._range.stop:
                return super().try_split(fraction_of_remainder)
            self._range, rest = self._range.split_at(self._range.stop)
            return self._range, rest


class Endless(Numbers):
    class tracker(OffsetRestrictionTracker):
        def is_bounded(self):
            return False


class Half(Endless):
    def truncate(self, element, restriction):
        return OffsetRange(restriction.start, restriction.stop // 2)


def reading(provider):
    """A function that puts out (number, first number of the call)."""

    class Read(beam.DoFn):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(provider)):
            assert isinstance(tracker, RestrictionTrackerView)
            first = number = tracker.current_restriction().start
            while tracker.try_claim(number):
                yield number, first
                number += 1

    return Read()


@pytest.fixture
def pipeline():
    return beam.Pipeline(runner=HeadraceRunner())


@pytest.mark.parametrize(("provider", "size"), [(Numbers(), 3), (Splits(), 4), (Whole(), 10)])
def test_an_element_is_read_in_parts(pipeline, monkeypatch, provider, size):
    monkeypatch.setattr(process_invoker, "MOST_CLAIMS", 100 if isinstance(provider, Splits) else 3)
    read = pipeline | beam.Create([10]) | beam.ParDo(reading(provider))
    assert_that(read, equal_to([(number, number // size * size) for number in range(10)]))
    pipeline.run()


def test_what_the_engine_splits_off_and_what_is_deferred_then_are_both_kept(pipeline, monkeypatch):
    class DefersToo(beam.DoFn):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Again())):
            first = number = tracker.current_restriction().start
            while tracker.try_claim(number):
                yield number
                number += 1
            if number > first:
                tracker.defer_remainder(Duration(1))

    monkeypatch.setattr(process_invoker, "MOST_CLAIMS", 3)
    assert_that(pipeline | beam.Create([8]) | beam.ParDo(DefersToo()), equal_to(range(8)))
    pipeline.run()


class Ticks(beam.DoFn):
    """Puts out a number a second of event time, two a call, and waits a minute in between."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element,
        side,
        window=beam.DoFn.WindowParam,
        tracker=beam.DoFn.RestrictionParam(Numbers()),
        estimator=beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider()),
    ):
        first = tracker.current_restriction().start
        for number in (first, first + 1):
            if not tracker.try_claim(number):
                return
            yield beam.window.TimestampedValue((side, number), number)
            estimator.set_watermark(Timestamp(number + 1))
        tracker.defer_remainder(Duration(60))


def test_windows_fire_on_time_as_the_estimated_watermark_passes_them(pipeline):
    side = pipeline | "Side" >> beam.Create(["s"])
    ticks = pipeline | beam.Create([7]) | beam.ParDo(Ticks(), beam.pvalue.AsSingleton(side))
    assert not ticks.is_bounded
    fixed = beam.WindowInto(
        window.FixedWindows(3),
        trigger=trigger.AfterWatermark(late=trigger.AfterCount(1)),
        accumulation_mode=trigger.AccumulationMode.DISCARDING,
        allowed_lateness=100,
    )
    grouped = ticks | fixed | beam.GroupByKey()
    found = grouped | beam.MapTuple(lambda key, all, pane=beam.DoFn.PaneInfoParam: (key, sorted(all), pane.timing))
    assert_that(found, equal_to([("s", [0, 1, 2], 1), ("s", [3, 4, 5], 1), ("s", [6], 1)]))
    pipeline.run()


def test_outputs_are_in_all_windows_of_the_element(pipeline):
    stamped = pipeline | beam.Create([3]) | beam.Map(lambda element: window.TimestampedValue(element, 7))
    read = stamped | beam.WindowInto(window.SlidingWindows(10, 5)) | beam.ParDo(reading(Numbers()))
    found = read | beam.Map(lambda row, at=beam.DoFn.WindowParam: (row[0], int(at.start)))
    assert_that(found, equal_to([(number, start) for number in range(3) for start in (0, 5)]))
    pipeline.run()


@pytest.mark.parametrize(("provider", "count"), [(Numbers(), 6), (Endless(), 0), (Half(), 3)])
def test_draining_truncates(provider, count):
    pipeline = beam.Pipeline(runner=HeadraceRunner(), options=PipelineOptions(["--drain"]))
    read = pipeline | beam.Create([6]) | beam.ParDo(reading(provider))
    assert_that(read | beam.Keys(), equal_to(range(count)))
    pipeline.run()


def test_what_is_left_unclaimed_is_an_error(pipeline):
    class Stops(beam.DoFn):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Numbers())):
            if tracker.try_claim(0):
                yield element

    _ = pipeline | beam.Create([3]) | "Bad" >> beam.ParDo(Stops())
    with pytest.raises(Exception, match=r"not done since work in range \[0, 3\) has not been claimed"):
        pipeline.run()
