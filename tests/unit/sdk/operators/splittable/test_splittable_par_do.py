"""Splittable DoFns: initial splits, checkpoints, deferred rests, watermarks, windows, side inputs and errors."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import ClassVar

import pytest

import headrace as beam
from headrace.io.iobase import Read
from headrace.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from headrace.io.watermark_estimators import ManualWatermarkEstimator, MonotonicWatermarkEstimator
from headrace.lowlevel import CallSink, ManualInjector, StepError, TopologyError
from headrace.options.pipeline_options import PipelineOptions
from headrace.pvalue import AsList, AsSingleton
from headrace.runners.local import Crash, LocalRunner, ManualClock, Scheduler
from headrace.sdk.operators.splittable import process_invoker
from headrace.sdk.operators.splittable.process_invoker import Allowance
from headrace.testing.test_stream import TestStream as Stream
from headrace.transforms import window
from headrace.transforms.userstate import BagStateSpec
from headrace.utils.timestamp import Duration, Timestamp
from headrace.utils.windowed_value import WindowedValue
from tests.schedulers import RandomScheduler
from tests.unit.collected import collect, values


@pytest.fixture(autouse=True)
def enough_time(monkeypatch):
    """A slow machine takes no checkpoints of its own."""
    monkeypatch.setattr(process_invoker, "BUNDLE_SECONDS", 1e9)


class Numbers(beam.RestrictionProvider):
    """The numbers from 0 to an element, in splits of a size."""

    def __init__(self, size=1_000_000):
        self.size = size

    def initial_restriction(self, element):
        return OffsetRange(0, element)

    def create_tracker(self, restriction):
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element, restriction):
        return restriction.size()

    def split(self, element, restriction):
        return restriction.split(self.size)


class Count(beam.DoFn):
    """Puts out (element, number, first number of the call) for each number."""

    def process(self, element, tracker=beam.DoFn.RestrictionParam(Numbers())):
        first = number = tracker.current_restriction().start
        while tracker.try_claim(number):
            yield element, number, first
            number += 1


class CountInSplits(Count):
    def process(self, element, tracker=beam.DoFn.RestrictionParam(Numbers(4))):
        return super().process(element, tracker)


class Deferring(beam.DoFn):
    """Puts out two numbers a call, then waits."""

    def __init__(self, deferred=None):
        self.deferred = deferred

    def process(self, element, tracker=beam.DoFn.RestrictionParam(Numbers())):
        first = tracker.current_restriction().start
        for number in (first, first + 1):
            if not tracker.try_claim(number):
                return
            yield number
        tracker.defer_remainder(self.deferred)


def numbers(build):
    return sorted(values(lambda p: build(p)))


def test_an_element_is_read_to_its_end():
    assert numbers(lambda p: p | beam.Create([3, 2, 0]) | beam.ParDo(Count())) == [
        (2, 0, 0),
        (2, 1, 0),
        (3, 0, 0),
        (3, 1, 0),
        (3, 2, 0),
    ]


def test_initial_splits_are_processed_apart_from_each_other():
    found = numbers(lambda p: p | beam.Create([10]) | beam.ParDo(CountInSplits()))
    assert found == [(10, number, number // 4 * 4) for number in range(10)]


def test_checkpoints_after_so_many_claims(monkeypatch):
    monkeypatch.setattr(process_invoker, "MOST_CLAIMS", 3)
    found = numbers(lambda p: p | beam.Create([10]) | beam.ParDo(Count()))
    assert found == [(10, number, number // 3 * 3) for number in range(10)]


def test_checkpoints_after_so_many_outputs(monkeypatch):
    class Thrice(beam.DoFn):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Numbers())):
            for _, number, first in Count().process(element, tracker):
                yield from [(number, first)] * 3

    monkeypatch.setattr(process_invoker, "MOST_CLAIMS", 7)
    found = values(lambda p: p | beam.Create([8]) | beam.ParDo(Thrice()))
    firsts = {number: first for number, first in found}
    assert Counter(number for number, _ in found) == dict.fromkeys(range(8), 3)
    assert len(set(firsts.values())) == 3


def test_an_allowance_of_time_is_the_bundle_s_but_for_a_slice():
    now = [100.0]
    measured = Allowance(lambda: now[0])
    measured.start_bundle()
    measured.start_element()
    assert not measured.is_spent()
    now[0] += process_invoker.BUNDLE_SECONDS
    assert measured.is_spent()
    measured.start_element()
    assert not measured.is_spent()
    now[0] += process_invoker.SLICE_SECONDS
    assert measured.is_spent()


@pytest.mark.parametrize(("seconds", "size"), [(1e9, 10), (-1e9, 1)])
def test_time_counts_from_the_start_of_the_bundle(monkeypatch, seconds, size):
    monkeypatch.setattr(process_invoker, "BUNDLE_SECONDS", seconds)
    monkeypatch.setattr(process_invoker, "SLICE_SECONDS", 0)
    found = numbers(lambda p: p | beam.Create([10]) | beam.ParDo(Count()))
    assert found == [(10, number, number // size * size) for number in range(10)]


def test_a_rest_is_resumed_when_it_was_deferred_to():
    runner = LocalRunner(ManualClock())
    for deferred, after in ((None, 4), (Duration(60), 240_000_000), (Timestamp(3600), 3_600_000_003)):
        runner.clock.set(0)
        pipeline = beam.Pipeline(runner)
        _ = pipeline | beam.Create([9]) | beam.ParDo(Deferring(deferred)) | beam.Map(id)
        pipeline.run()
        assert runner.clock.now() == after


def test_nothing_stays_when_all_is_done(monkeypatch):
    monkeypatch.setattr(process_invoker, "MOST_CLAIMS", 2)
    runner = LocalRunner()
    pipeline = beam.Pipeline(runner)
    _ = pipeline | beam.Create([9, 4]) | "Count" >> beam.ParDo(Count()) | beam.Map(id)
    pipeline.run()
    stores = [store for (name, _), store in runner.stores.items() if name == "Count"]
    assert stores
    assert not any(sum(store.count().values()) for store in stores)


def test_outputs_keep_timestamp_and_windows_of_the_element():
    def build(p):
        stamped = p | beam.Create([window.TimestampedValue(2, 7)])
        counted = stamped | beam.WindowInto(window.SlidingWindows(10, 5)) | beam.ParDo(Count())
        return counted | beam.Map(
            lambda row, at=beam.DoFn.TimestampParam, w=beam.DoFn.WindowParam: (row[1], at, int(w.start))
        )

    assert numbers(build) == [(n, Timestamp(7), start) for n in range(2) for start in (0, 5)]


def test_a_process_that_asks_for_its_window_is_called_for_each():
    class Windowed(beam.DoFn):
        def process(
            self, element, tracker=beam.DoFn.RestrictionParam(Numbers()), window=beam.DoFn.WindowParam, factor=10
        ):
            if tracker.try_claim(0):
                yield element * factor, int(window.start)

    def build(p):
        stamped = p | beam.Create([window.TimestampedValue(1, 7)])
        return stamped | beam.WindowInto(window.SlidingWindows(10, 5)) | beam.ParDo(Windowed())

    assert numbers(build) == [(10, 0), (10, 5)]


def test_side_inputs_are_there_in_every_call(monkeypatch):
    class Beside(beam.DoFn):
        def process(self, element, side, *, more, tracker=beam.DoFn.RestrictionParam(Numbers())):
            for _, number, first in Count().process(element, tracker):
                yield number, first, side, sorted(more)

    def build(p):
        side, more = p | "Side" >> beam.Create([7]), p | "More" >> beam.Create([2, 1])
        return p | beam.Create([4]) | beam.ParDo(Beside(), AsSingleton(side), more=AsList(more))

    monkeypatch.setattr(process_invoker, "MOST_CLAIMS", 2)
    assert numbers(build) == [(n, n // 2 * 2, 7, [1, 2]) for n in range(4)]


class One(Numbers):
    """One number for any element."""

    def initial_restriction(self, element):
        return OffsetRange(0, 1)


class Tagging(beam.DoFn):
    def process(
        self,
        element,
        key=beam.DoFn.KeyParam,
        at=beam.DoFn.TimestampParam,
        pane=beam.DoFn.PaneInfoParam,
        whole=beam.DoFn.WindowedValueParam,
        tracker=beam.DoFn.RestrictionParam(One()),
    ):
        if tracker.try_claim(0):
            yield key, at, pane.timing.name, whole.value == element
            yield beam.TaggedOutput("late", window.TimestampedValue(key, 9))


def test_tagged_outputs_and_what_else_process_may_ask_for():
    def outputs(tag):
        def build(p):
            stamped = p | beam.Create([window.TimestampedValue(("a", 1), 5)])
            return (stamped | beam.ParDo(Tagging()).with_outputs("late", main="main"))[tag]

        return collect(build)

    assert outputs("main") == [(("a", Timestamp(5), "UNKNOWN", True), 5_000_000)]
    assert outputs("late") == [("a", 9_000_000)]


class Ticks(beam.DoFn):
    """Puts out a number a second of event time, three a call, and waits a minute in between."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element,
        tracker=beam.DoFn.RestrictionParam(Numbers()),
        estimator=beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider()),
    ):
        first = tracker.current_restriction().start
        for number in range(first, first + 3):
            if not tracker.try_claim(number):
                return
            yield window.TimestampedValue(number, number)
            estimator.set_watermark(Timestamp(number + 1))
        tracker.defer_remainder(Duration(60))


def test_windows_fire_on_time_as_the_estimated_watermark_passes_them():
    runner, fired = LocalRunner(ManualClock()), []
    pipeline = beam.Pipeline(runner)
    ticks = pipeline | beam.Create([9]) | beam.ParDo(Ticks())
    assert not ticks.is_bounded
    keyed = ticks | beam.WindowInto(window.FixedWindows(4)) | beam.Map(lambda number: (None, number))
    panes = keyed | beam.GroupByKey() | beam.MapTuple(lambda _, all, pane=beam.DoFn.PaneInfoParam: (sorted(all), pane))

    def note(epoch, rows):
        fired.extend((numbers, pane.timing.name, runner.clock.now() // 60_000_000) for (numbers, pane), _ in rows)

    _ = panes | beam.io.Write(CallSink(note))
    pipeline.run()
    assert fired == [([0, 1, 2, 3], "ON_TIME", 1), ([4, 5, 6, 7], "ON_TIME", 2), ([8], "ON_TIME", 2)]


def test_the_hold_is_the_least_estimate_of_all_elements():
    """Windows that a slow element may still put something into stay open."""

    class Slow(Ticks):
        def process(
            self,
            element,
            tracker=beam.DoFn.RestrictionParam(Numbers()),
            estimator=beam.DoFn.WatermarkEstimatorParam(MonotonicWatermarkEstimator.default_provider()),
        ):
            number = tracker.current_restriction().start
            if tracker.try_claim(number):
                yield window.TimestampedValue((element, number), number * element)
                tracker.defer_remainder(Duration(1))

    def build(p):
        counted = p | beam.Create([2, 5]) | beam.ParDo(Slow()) | beam.WindowInto(window.FixedWindows(4))
        return counted | beam.Map(lambda row: (None, row)) | beam.GroupByKey() | beam.Values() | beam.Map(sorted)

    assert numbers(build) == [[(2, 0), (2, 1), (5, 0)], [(5, 1)], [(5, 2)], [(5, 3)], [(5, 4)]]


class Life(beam.DoFn):
    """Notes what it is called for."""

    CALLS: ClassVar[list[str]] = []

    def setup(self):
        self.CALLS.append("setup")

    def start_bundle(self):
        self.CALLS.append("start")

    def process(self, element, tracker=beam.DoFn.RestrictionParam(Numbers())):
        number = tracker.current_restriction().start
        if tracker.try_claim(number):
            self.CALLS.append(f"process {number}")
            tracker.defer_remainder()
        return []

    def finish_bundle(self):
        self.CALLS.append("finish")
        yield WindowedValue("end", 0, [window.GlobalWindow()])

    def teardown(self):
        self.CALLS.append("teardown")


def test_the_life_cycle_is_that_of_other_functions():
    Life.CALLS.clear()
    assert values(lambda p: p | beam.Create([2]) | beam.ParDo(Life())) == ["end", "end"]
    each = ["start", "process 0", "finish", "start", "process 1", "finish"]
    assert ["setup", *each, "teardown"] == Life.CALLS


class Own(beam.DoFn, Numbers, beam.RestrictionProvider):
    """Its own provider."""

    def __init__(self):
        Numbers.__init__(self, 2)

    def process(self, element, tracker=beam.DoFn.RestrictionParam()):
        return Count().process(element, tracker)


def test_a_dofn_can_be_its_own_provider():
    assert numbers(lambda p: p | beam.Create([4]) | beam.ParDo(Own())) == [(4, n, n // 2 * 2) for n in range(4)]


def test_functions_can_be_splittable():
    def count(element, tracker=beam.DoFn.RestrictionParam(Numbers())):
        return [number for _, number, _ in Count().process(element, tracker)]

    def spread(upto, name, tracker=beam.DoFn.RestrictionParam(First())):
        return [(name, number) for _, number, _ in Count().process(upto, tracker)]

    assert numbers(lambda p: p | beam.Create([2]) | beam.FlatMap(count)) == [0, 1]
    assert numbers(lambda p: p | beam.Create([(2, "a")]) | beam.FlatMapTuple(spread)) == [("a", 0), ("a", 1)]


class First(Numbers):
    def initial_restriction(self, element):
        return OffsetRange(0, element[0])


def test_elements_that_are_delivered_again_are_not_processed_again():
    injector = ManualInjector(record_ids=True)
    injector.records((3, 1), (2, 1), ids=[b"1", b"2"]).records((3, 1), ids=[b"1"])
    assert len(values(lambda p: p | Read(injector) | beam.ParDo(Count()))) == 5


def test_elements_of_a_stream():
    stream = Stream().add_elements([3]).advance_processing_time(5).add_elements([2]).advance_watermark_to_infinity()
    assert len(values(lambda p: p | stream | beam.ParDo(Deferring(Duration(1))))) == 5


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_tasks_and_any_intervals(seed, monkeypatch):
    monkeypatch.setattr(process_invoker, "MOST_CLAIMS", 2)
    found = values(
        lambda p: p | beam.Create([5, 9, 1]) | beam.ParDo(CountInSplits()),
        scheduler=RandomScheduler(seed),
        intervals=3,
        parallelism=2,
    )
    assert Counter(row[:2] for row in found) == Counter((n, i) for n in (5, 9, 1) for i in range(n))


# The end of a run that would have none


class Endless(Numbers):
    """Restrictions that are no finite amount of work."""

    class tracker(OffsetRestrictionTracker):
        def is_bounded(self):
            return False

    def create_tracker(self, restriction):
        return self.tracker(restriction)


class Half(Endless):
    def truncate(self, element, restriction):
        return OffsetRange(restriction.start, (restriction.start + restriction.stop) // 2)


def polling(provider):
    class Polls(beam.DoFn):
        @beam.DoFn.unbounded_per_element()
        def process(self, element, tracker=beam.DoFn.RestrictionParam(provider)):
            number = tracker.current_restriction().start
            if tracker.try_claim(number):
                yield window.TimestampedValue(number, number)
                tracker.defer_remainder(Duration(1))

    return Polls()


def polled(provider, epochs, *flags, checkpoint=None, until=None):
    """One life of a pipeline, which crashes at the plan of an epoch; what it has put out so far."""

    class Until(Scheduler):
        def step(self, name, epoch):
            if (name, epoch) == ("plan", until):
                raise Crash

    options = PipelineOptions(list(flags), checkpoint=checkpoint)
    pipeline = beam.Pipeline(LocalRunner(scheduler=Until()), options=options)
    numbers = pipeline | beam.Create([20]) | "Poll" >> beam.ParDo(polling(provider))
    # A restart delivers the last epoch again.
    _ = numbers | beam.io.Write(CallSink(lambda epoch, its: epochs.update({epoch: [value for value, _ in its]})))
    with suppress(Crash):
        pipeline.run()
    return [row for rows in epochs.values() for row in rows]


@pytest.mark.parametrize(("provider", "count"), [(Numbers(), 20), (Endless(), 0), (Half(), 10)])
def test_elements_are_truncated_when_the_run_is_the_last(provider, count):
    assert polled(provider, {}, "--drain") == [*range(count)]


@pytest.mark.parametrize(("provider", "count"), [(Numbers(), 20), (Endless(), 4), (Half(), 12)])
def test_elements_under_way_are_truncated_once_when_the_last_run_goes_on_with_them(tmp_path, provider, count):
    epochs = {}
    assert polled(provider, epochs, checkpoint=str(tmp_path), until=5) == [0, 1, 2, 3]
    assert polled(provider, epochs, "--drain", checkpoint=str(tmp_path)) == [*range(count)]


def test_sources_without_an_end_have_one_in_the_last_run():
    injector = ManualInjector().records((1, 1)).records((2, 2))
    pipeline = beam.Pipeline(LocalRunner(), options=PipelineOptions(["--drain"]))
    endless = pipeline | "Endless" >> Read(injector, is_bounded=False)
    rows = []
    ended = (endless, pipeline | beam.Create([7])) | beam.Flatten()
    _ = ended | beam.io.Write(CallSink(lambda epoch, its: rows.extend(value for value, _ in its)))
    pipeline.run()
    assert rows == [7]


# Errors


def failing(do_fn, element=3):
    with pytest.raises(StepError) as raised:
        values(lambda p: p | beam.Create([element]) | "Bad" >> beam.ParDo(do_fn))
    return str(raised.value)


def test_what_is_left_unclaimed_is_an_error():
    class Stops(beam.DoFn):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Numbers())):
            if tracker.try_claim(0):
                yield element

    message = failing(Stops())
    assert message.startswith("step 'Bad' raised for key OffsetRange(start=0, stop=3) at 3; nothing of this epoch")
    assert "OffsetRange(start=1, stop=3) was not claimed; call try_claim until it returns False" in message


def test_errors_of_user_code_name_step_and_element():
    class Fails(beam.DoFn):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Numbers())):
            raise KeyError("red")

    class Negative(Numbers):
        def restriction_size(self, element, restriction):
            return -1

    class Sized(beam.DoFn):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Negative())):
            return []

    assert "step 'Bad' raised for key OffsetRange(start=0, stop=3) at 3" in failing(Fails())
    assert "step 'Bad' raised at 3" in failing(Sized())
    assert "sizes are 0 or more" in failing(Sized())


class Stateful(beam.DoFn):
    def process(
        self,
        element,
        tracker=beam.DoFn.RestrictionParam(Numbers()),
        bag=beam.DoFn.StateParam(BagStateSpec("bag")),
    ):
        return []


class Twice(beam.DoFn):
    def process(self, element, one=beam.DoFn.RestrictionParam(Numbers()), two=beam.DoFn.RestrictionParam(Numbers())):
        return []


class Unprovided(beam.DoFn):
    def process(self, element, tracker=beam.DoFn.RestrictionParam()):
        return []


class OnlyEstimates(beam.DoFn):
    def process(self, element, estimator=beam.DoFn.WatermarkEstimatorParam()):
        return []


class Unestimated(beam.DoFn):
    def process(
        self,
        element,
        tracker=beam.DoFn.RestrictionParam(Numbers()),
        estimator=beam.DoFn.WatermarkEstimatorParam(),
    ):
        return []


@pytest.mark.parametrize(
    ("do_fn", "message"),
    [
        (Stateful(), "has a DoFn.RestrictionParam and state or timers; split it into two steps"),
        (Twice(), "several parameters for DoFn.RestrictionParam; one is enough"),
        (Unprovided(), r"DoFn.RestrictionParam\(\) has no provider"),
        (OnlyEstimates(), "no DoFn.RestrictionParam; only a splittable DoFn estimates watermarks"),
        (Unestimated(), r"DoFn.WatermarkEstimatorParam\(\) has no provider"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_when_the_step_is_made(do_fn, message):
    with pytest.raises(TopologyError, match=message):
        beam.ParDo(do_fn)


def test_providers_are_checked_when_the_parameter_is_made():
    with pytest.raises(ValueError, match="takes a RestrictionProvider"):
        beam.DoFn.RestrictionParam(5)
    with pytest.raises(ValueError, match="takes a WatermarkEstimatorProvider"):
        beam.DoFn.WatermarkEstimatorParam(5)
