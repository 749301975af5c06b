"""Timers of a DoFn: when they fire and in what order, what they hold, what they put out, and what is refused."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace.lowlevel import CallSink, StepError
from headrace.runners.local import LocalRunner, Scheduler
from headrace.testing.test_stream import TestStream
from headrace.transforms.deduplicate import Deduplicate, DeduplicatePerKey
from headrace.transforms.timeutil import TimeDomain
from headrace.transforms.userstate import BagStateSpec, CombiningValueStateSpec, TimerSpec, on_timer
from headrace.transforms.window import FixedWindows, GlobalWindows, SlidingWindows, TimestampedValue
from tests.unit.collected import collect, values

StateParam, TimerParam = beam.DoFn.StateParam, beam.DoFn.TimerParam
EVENT, OTHER = TimerSpec("event", TimeDomain.WATERMARK), TimerSpec("other", TimeDomain.WATERMARK)
REAL = TimerSpec("real", TimeDomain.REAL_TIME)


class Clock(float):
    """Seconds by which the wall clock advances."""


def stream(*events):
    """Lists are bundles of (pair, second), numbers move the watermark, a `Clock` the wall clock."""
    script = TestStream()
    for event in events:
        if isinstance(event, Clock):
            script.advance_processing_time(float(event))
        elif isinstance(event, list):
            script.add_elements([TimestampedValue(pair, second) for pair, second in event])
        else:
            script.advance_watermark_to(event)
    return script.advance_watermark_to_infinity()


def told(fn, *events, windows=None, lateness=0):
    """(value, output timestamp in seconds) of what a DoFn puts out; nothing of it is left behind in the end."""
    runner, rows = LocalRunner(), []
    with beam.Pipeline(runner) as pipeline:
        pairs = pipeline | stream(*events) | beam.WindowInto(windows or GlobalWindows(), allowed_lateness=lateness)
        out = pairs | "step" >> beam.ParDo(fn)
        out | beam.io.Write(CallSink(lambda epoch, its: rows.extend((value, time / 1e6) for value, time in its)))
    for place, copy in runner.stores.items():
        assert copy.count() == {"keys": 0, "cells": 0, "marks": 0, "ids": 0, "segments": 0}, place
    return rows


class Commanded(beam.DoFn):
    """Does to its timers what the values say: (timer, method, arguments...)."""

    def process(self, pair, event=TimerParam(EVENT), other=TimerParam(OTHER), real=TimerParam(REAL)):
        timers = {"event": event, "other": other, "real": real}
        for name, method, *arguments in pair[1]:
            named = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
            getattr(timers[name], method)(*arguments, **named)

    @on_timer(EVENT)
    def on_event(self, key=beam.DoFn.KeyParam, time=beam.DoFn.TimestampParam, tag=beam.DoFn.DynamicTimerTagParam):
        yield "event", key, float(time), tag

    @on_timer(OTHER)
    def on_other(self, time=beam.DoFn.TimestampParam, window=beam.DoFn.WindowParam):
        yield "other", float(time), float(window.end)

    @on_timer(REAL)
    def on_real(self, time=beam.DoFn.TimestampParam):
        yield "real", float(time)


def do(*commands, key="k", at=0):
    return ((key, commands), at)


def test_a_timer_fires_when_the_watermark_reaches_it_in_order_of_time():
    rows = told(
        Commanded(),
        [do(("event", "set", 30), ("other", "set", 10)), do(("event", "set", 20), key="l")],
        9,
        [do(("event", "set", 25, "tag"))],
        29,
    )
    assert sorted((row[0][1:3], row[1]) for row in rows if row[0][0] == "event") == [
        (("k", 25.0), 25.0),
        (("k", 30.0), 30.0),
        (("l", 20.0), 20.0),
    ]
    assert [(row[0][1], row[1]) for row in rows if row[0][0] == "other"] == [(10.0, 10.0)]


def test_of_one_key_timers_fire_in_order_of_time_whatever_their_names():
    rows = told(
        Commanded(), [do(("other", "set", 5), ("event", "set", 4), ("event", "set", 7, "b"), ("other", "set", 6))]
    )
    assert [row[1] for row in rows] == [4, 6, 7]


def test_a_timer_that_is_set_again_fires_once_and_one_that_is_cleared_never():
    rows = told(
        Commanded(),
        [do(("event", "set", 5), ("event", "set", 6, "x"), ("event", "set", 7, "y"), ("real", "set", 50))],
        [do(("event", "set", 9), ("event", "clear", "x"), ("real", "clear"))],
        Clock(100),
        [do(("event", "clear", "nothing"))],
    )
    assert [(row[0][3], row[1]) for row in rows] == [("y", 7), ("", 9)]


def test_timers_set_by_timers_take_their_place_in_the_same_bundle():
    class Chain(beam.DoFn):
        N = CombiningValueStateSpec("n", sum)

        def process(self, pair, event=TimerParam(EVENT), other=TimerParam(OTHER)):
            event.set(1)
            other.set(4.5)

        @on_timer(EVENT)
        def again(self, time=beam.DoFn.TimestampParam, event=TimerParam(EVENT), n=StateParam(N)):
            n.add(1)
            if time < 8:
                event.set(time + 1)
            yield n.read()

        @on_timer(OTHER)
        def look(self, n=StateParam(N)):
            yield "other", n.read()

    assert told(Chain(), [(("k", 1), 0)], 100) == [
        *((n, n) for n in range(1, 5)),
        (("other", 4), 4.5),
        *((n, n) for n in range(5, 9)),
    ]


def test_a_timer_in_the_past_fires_in_the_same_bundle():
    rows = told(Commanded(), 50, [do(("event", "set", 20), at=60)])
    assert [(row[0][2], row[1]) for row in rows] == [(20, 20)]


def test_timers_of_each_window_are_its_own():
    rows = told(Commanded(), [do(("other", "set_relative", 3), at=4)], windows=SlidingWindows(10, 5))
    assert rows == [(("other", 5.0, 5.0), 5), (("other", 7.0, 10.0), 7)]


def test_real_time_timers_fire_by_the_clock_at_the_elements_time():
    rows = told(
        Commanded(),
        [do(("real", "set", 10), at=3), do(("real", "set_relative", 30), key="l", at=4)],
        Clock(9),
        Clock(1),
        Clock(20),
    )
    assert rows == [(("real", 10.0), 3), (("real", 30.0), 4)]


def test_real_time_timers_of_a_closed_window_are_dropped():
    assert told(Commanded(), [do(("real", "set", 10), at=3)], 10, Clock(20), windows=FixedWindows(10)) == []
    fires = told(Commanded(), [do(("real", "set", 10), at=3)], 10, Clock(20), windows=FixedWindows(10), lateness=1)
    assert fires == [(("real", 10.0), 3)]


class Buffer(beam.DoFn):
    """Emits its elements in twos, or when an hour has passed; the timer of another real-time spec is due earlier."""

    BAG, HOUR, MINUTE = (
        BagStateSpec("bag"),
        TimerSpec("hour", TimeDomain.REAL_TIME),
        TimerSpec("min", TimeDomain.REAL_TIME),
    )

    def process(self, pair, bag=StateParam(BAG), hour=TimerParam(HOUR), minute=TimerParam(MINUTE)):
        bag.add(pair[1])
        hour.set_relative(3600)
        minute.set_relative(60)

    @on_timer(HOUR)
    def flush(self, bag=StateParam(BAG), event=TimerParam(EVENT)):
        yield sorted(bag.read())
        bag.clear()
        event.set(0)

    @on_timer(MINUTE)
    def early(self, minute=TimerParam(MINUTE), bag=StateParam(BAG)):
        yield "minute"

    @on_timer(EVENT)
    def last(self, bag=StateParam(BAG)):
        yield "flushed", list(bag.read())


@pytest.mark.parametrize(("windows", "buffers"), [(GlobalWindows(), [[1, 2, 3]]), (FixedWindows(10), [[1], [2, 3]])])
def test_at_the_end_of_bounded_input_real_time_timers_fire_in_order(windows, buffers):
    runner, rows = LocalRunner(), []
    with beam.Pipeline(runner) as pipeline:
        timed = (
            pipeline
            | beam.Create([("k", 1), ("k", 11), ("k", 12)])
            | beam.MapTuple(lambda key, second: TimestampedValue((key, {1: 1, 11: 2, 12: 3}[second]), second))
        )
        out = timed | beam.WindowInto(windows) | beam.ParDo(Buffer())
        out | beam.io.Write(CallSink(lambda epoch, its: rows.extend(value for value, _ in its)))
    assert [row for row in rows if isinstance(row, list)] == buffers
    assert [row for row in rows if not isinstance(row, list)] == ["minute", ("flushed", [])] * len(buffers)
    assert rows[:2] == ["minute", buffers[0]], "in order of time"
    for place, copy in runner.stores.items():
        assert copy.count() == {"keys": 0, "cells": 0, "marks": 0, "ids": 0, "segments": 0}, place


def test_real_time_timers_that_are_dropped_with_a_window_of_endless_input_are_counted():
    with beam.Pipeline(LocalRunner()) as pipeline:
        pairs = pipeline | stream([do(("real", "set", 10), at=3)], 10) | beam.WindowInto(FixedWindows(10))
        pairs | "step" >> beam.ParDo(Commanded())
    assert pipeline.result.counter("dropped_timers") == 1


def behind(fn, *events, windows=None):
    """What a grouping behind a DoFn puts out, with the kinds of its panes: it sees whether the watermark was held."""

    def build(pipeline):
        pairs = pipeline | stream(*events)
        out = pairs | "step" >> beam.ParDo(fn) | beam.Map(lambda value: ("all", value))
        sums = out | beam.WindowInto(FixedWindows(10), allowed_lateness=1000) | beam.GroupByKey()
        return sums | beam.Map(lambda pair, pane=beam.DoFn.PaneInfoParam: (pair[1], pane.timing.name))

    return [value for value, _ in collect(build)]


@pytest.mark.parametrize(
    ("command", "value"), [(("event", "set", 50, {"output_timestamp": 7}), 50), (("real", "set", 8), 8)]
)
def test_until_a_timer_fires_its_output_timestamp_holds_the_watermark(command, value):
    (pane,) = behind(Commanded(), [do(command, at=5)], 20, 30, Clock(20), 60)
    assert pane[1] == "ON_TIME" and value in pane[0][0]


def test_a_timer_without_an_output_timestamp_holds_nothing():
    class Both(beam.DoFn):
        def process(self, pair, event=TimerParam(EVENT)):
            event.set(25)
            yield "now"

        @on_timer(EVENT)
        def fire(self):
            yield TimestampedValue("late", 3)

    assert behind(Both(), [(("k", 1), 5)], 20, 30) == [(["now"], "ON_TIME"), (["late"], "LATE")]


def test_a_hold_ends_when_the_timer_is_cleared_or_set_without_one():
    first = [do(("event", "set", 90, {"output_timestamp": 5}), at=5), do(("real", "set", 9), key="l", at=5)]
    second = [do(("event", "set", 90)), do(("real", "clear"), key="l")]

    class Late(Commanded):
        def process(self, pair, event=TimerParam(EVENT), other=TimerParam(OTHER), real=TimerParam(REAL)):
            super().process(pair, event, other, real)
            if not pair[1]:
                yield "late"

    assert behind(Late(), first, second, 20, [do(at=6)])[0] == (["late"], "LATE")


def test_timers_set_in_a_callback_have_the_callbacks_output_timestamp():
    class Echo(beam.DoFn):
        def process(self, pair, event=TimerParam(EVENT)):
            event.set(20, output_timestamp=6)

        @on_timer(EVENT)
        def first(self, real=TimerParam(REAL), other=TimerParam(OTHER)):
            real.set(5)
            other.set_relative(20)

        @on_timer(REAL)
        def second(self):
            yield "real"

        @on_timer(OTHER)
        def third(self, time=beam.DoFn.TimestampParam):
            yield "other", float(time)

    assert told(Echo(), [(("k", 1), 3)], 20, Clock(6)) == [("real", 6), (("other", 26.0), 26)]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            ("event", "set", 15.1),
            r"'event' is set to Timestamp\(15.1.*after window \[0.0, 10.0\) closes at .*15\)",
        ),
        (
            ("event", "set", 9, {"output_timestamp": 2}),
            r"output timestamp Timestamp\(2\).*must not be before the",
        ),
        (("event", "set", 9, {"output_timestamp": 16}), r"output timestamp Timestamp\(16\).*nor after window"),
        (("event", "set", "soon"), "cannot interpret 'soon' of type str as a Timestamp"),
        (("event", "set", 9, 7), "the dynamic tag of timer 'event' must be a str, got 7"),
    ],
)
def test_timers_that_cannot_be_are_refused_with_step_key_and_element(command, message):
    with pytest.raises(StepError, match=rf"step 'step' raised for key 'k' at \('k', (?s:.)*{message}"):
        told(Commanded(), [do(command, at=3)], windows=FixedWindows(10), lateness=5)


def test_a_timer_may_wait_for_the_closing_of_its_window_and_still_finds_its_state():
    class Close(beam.DoFn):
        BAG = BagStateSpec("bag")

        def process(self, pair, bag=StateParam(BAG), event=TimerParam(EVENT)):
            bag.add(pair[1])
            event.set(15)

        @on_timer(EVENT)
        def end(self, bag=StateParam(BAG)):
            yield bag.read()

    bundles = [(("k", 1), 3)], 12, [(("k", 2), 4)], 20
    assert told(Close(), *bundles, windows=FixedWindows(10), lateness=5) == [([1, 2], 15)]


def test_an_error_in_a_callback_names_the_timer():
    class Failing(beam.DoFn):
        def process(self, pair, event=TimerParam(EVENT)):
            event.set(7, dynamic_timer_tag="x")

        @on_timer(EVENT)
        def fire(self):
            raise ValueError("cannot")

    expected = (
        r"'step' raised for key 'k' at DueTimer\(name='event', dynamic_tag='x', timestamp=Timestamp\(7\), window=G"
    )
    with pytest.raises(StepError, match=expected):
        told(Failing(), [(("k", 1), 0)])


# Transforms made of timers


class Counting(Scheduler):
    """Counts, with each epoch, what steps kept from the epochs before."""

    def __init__(self):
        self.runner, self.counts = LocalRunner(scheduler=self), []

    def step(self, name, epoch):
        if name == "committed":
            counts = [copy.count() for copy in self.runner.stores.values()]
            self.counts.append(sum(count["cells"] + count["marks"] for count in counts))


def kept_after(transform, *events):
    """How many cells, timers and holds there are after these events."""
    watched = Counting()
    with beam.Pipeline(watched.runner) as pipeline:
        pipeline | stream(*events) | transform
    return watched.counts[len(events)]


def batched(transform, *events, windows=None):
    def build(pipeline):
        pairs = pipeline | stream(*events) | beam.WindowInto(windows or GlobalWindows())
        return pairs | transform | beam.MapTuple(lambda key, batch: (getattr(key, "key", key), batch))

    return [(value, time / 1e6) for value, time in collect(build)]


def test_batches_are_as_long_as_they_should_and_the_rest_comes_at_the_end_of_the_window():
    pairs = [(("k", n), n) for n in range(7)]
    rows = batched(beam.GroupIntoBatches(3), pairs[:2], pairs[2:], 20, windows=FixedWindows(10))
    assert rows == [(("k", [0, 1, 2]), 2), (("k", [3, 4, 5]), 5), (("k", [6]), 10 - 1e-6)]


def test_a_batch_waits_no_longer_than_it_may():
    pairs = [(("k", n), n) for n in range(4)]
    transform = beam.GroupIntoBatches(2, max_buffering_duration_secs=10)
    rows = batched(transform, pairs[:1], Clock(9), Clock(2), pairs[1:3], Clock(20), pairs[3:], Clock(11))
    assert rows == [(("k", [0]), 0), (("k", [1, 2]), 2), (("k", [3]), 3)]
    # By a clock of its own: the timer is set to what that says.
    rows = batched(beam.GroupIntoBatches(2, 10, clock=lambda: 5), pairs[:1], Clock(14), pairs[1:], Clock(1))
    assert rows[0] == (("k", [0, 1]), 1)


def test_a_batch_that_is_put_out_leaves_no_timer_that_would_hold_the_watermark():
    # Only the timer for the end of the window, which holds nothing.
    assert kept_after(beam.GroupIntoBatches(2, 10), [(("k", 1), 1), (("k", 2), 2)]) == 1


def test_batches_of_sharded_keys():
    rows = batched(beam.GroupIntoBatches.WithShardedKey(2), [(("k", n), 0) for n in range(3)])
    assert sorted(batch for (_, batch), _ in rows) == [[0, 1], [2]]
    assert {key for (key, _), _ in rows} == {"k"}


def test_batches_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="batch_size is 0; give a whole number of at least 1"):
        beam.GroupIntoBatches(0)
    with pytest.raises(ValueError, match="max_buffering_duration_secs is -1; give 0 or more seconds"):
        beam.GroupIntoBatches.WithShardedKey(1, -1)


def deduplicated(transform, *events, windows=None):
    return values(lambda p: p | stream(*events) | beam.WindowInto(windows or GlobalWindows()) | transform)


def test_duplicates_within_a_while_of_event_time_are_dropped():
    events = [("a", 1), ("a", 2), ("b", 3)], 10, [("a", 10)], 11, [("a", 12)]
    assert deduplicated(Deduplicate(event_time_duration=10), *events) == ["a", "b", "a"]
    assert deduplicated(Deduplicate(event_time_duration=100), *events, windows=FixedWindows(10)) == ["a", "b", "a"]
    pairs = [(("k", 1), 1), (("k", 2), 2), (("l", 1), 2)]
    assert deduplicated(DeduplicatePerKey(event_time_duration=10), pairs) == [("k", 1), ("l", 1)]


def test_duplicates_within_a_while_of_real_time_are_dropped():
    events = [("a", 1)], Clock(9), [("a", 2)], Clock(1), [("a", 3)]
    assert deduplicated(Deduplicate(processing_time_duration=10), *events) == ["a", "a"]
    # The shorter while counts, and what the other one waits for does not end the next.
    both = Deduplicate(processing_time_duration=20, event_time_duration=5)
    events = [("a", 1)], Clock(15), 6, [("a", 7)], Clock(6), [("a", 8)]
    assert deduplicated(both, *events) == ["a", "a"]
    assert kept_after(both, [("a", 1)], 6) == 0
    with pytest.raises(ValueError, match="Deduplicate takes processing_time_duration or event_time_duration"):
        Deduplicate()
