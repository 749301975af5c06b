"""When: timers of DoFns, on the watermark and on real time."""

from __future__ import annotations

from tests.parity.corpus import program, timed
from tests.parity.masks import CLOCK_AS_TIME, DUE_TIMERS, LAST_BATCHES, Mask
from tests.parity.watching import FAR, Clock, on_the_clock, stream, streaming

TIMED = [(("a", 1), 1), (("b", 1), 2), (("a", 1), 12), (("a", 1), 3), (("b", 1), 15)]


def specs(beam):
    """A bag, a timer on the watermark and one on real time."""
    userstate, domain = beam.transforms.userstate, beam.transforms.timeutil.TimeDomain
    return (
        userstate.BagStateSpec("bag", beam.coders.VarIntCoder()),
        userstate.TimerSpec("event", domain.WATERMARK),
        userstate.TimerSpec("real", domain.REAL_TIME),
    )


def gathered(beam, when):
    """A `ParDo` that keeps values until a timer fires, set to `when(timestamp, window)`."""
    bag, event, _ = specs(beam)

    class Gather(beam.DoFn):
        def process(
            self,
            pair,
            time=beam.DoFn.TimestampParam,
            window=beam.DoFn.WindowParam,
            its=beam.DoFn.StateParam(bag),
            timer=beam.DoFn.TimerParam(event),
        ):
            its.add(pair[1])
            timer.set(when(time, window))

        @beam.transforms.userstate.on_timer(event)
        def put_out(self, key=beam.DoFn.KeyParam, its=beam.DoFn.StateParam(bag)):
            values = tuple(sorted(its.read()))
            its.clear()
            yield key, values

    return beam.ParDo(Gather())


@program
def timers_at_the_end_of_windows(beam, p):
    pairs = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(10))
    return pairs | gathered(beam, lambda time, window: window.end)


@program
def timers_within_windows(beam, p):
    pairs = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(10))
    return pairs | gathered(beam, lambda time, window: window.start + 7)


@program
def timers_in_the_global_window(beam, p):
    return timed(beam, p, TIMED) | gathered(beam, lambda time, window: 20)


@program
def timers_in_sliding_windows(beam, p):
    pairs = timed(beam, p, TIMED) | beam.WindowInto(beam.window.SlidingWindows(10, 5))
    return pairs | gathered(beam, lambda time, window: window.end)


@program
def timers_before_a_grouping(beam, p):
    pairs = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(10))
    return pairs | gathered(beam, lambda time, window: window.start + 7) | beam.GroupByKey()


def tagged(beam):
    """A `ParDo` that sets a timer for every value, under a tag of its own; what the callback gets."""
    _, event, _ = specs(beam)

    class Tagged(beam.DoFn):
        def process(self, pair, time=beam.DoFn.TimestampParam, timer=beam.DoFn.TimerParam(event)):
            timer.set(time + 2, dynamic_timer_tag=f"tag {pair[1]}")

        @beam.transforms.userstate.on_timer(event)
        def fire(
            self,
            key=beam.DoFn.KeyParam,
            time=beam.DoFn.TimestampParam,
            window=beam.DoFn.WindowParam,
            tag=beam.DoFn.DynamicTimerTagParam,
        ):
            yield key, time, window, tag

    return beam.ParDo(Tagged())


@program
def timers_by_tag_with_every_parameter(beam, p):
    pairs = timed(beam, p, [(("a", 1), 1), (("a", 2), 5), (("b", 1), 13), (("a", 1), 16)])
    return pairs | beam.WindowInto(beam.window.FixedWindows(10)) | tagged(beam)


@program
def timers_set_again_and_cleared(beam, p):
    _, event, _ = specs(beam)

    class Commanded(beam.DoFn):
        def process(self, pair, timer=beam.DoFn.TimerParam(event)):
            timer.set(10)
            timer.set(20)
            timer.set(5, dynamic_timer_tag="gone")
            timer.clear(dynamic_timer_tag="gone")
            timer.set(7, dynamic_timer_tag="stays")

        @beam.transforms.userstate.on_timer(event)
        def fire(self, time=beam.DoFn.TimestampParam, tag=beam.DoFn.DynamicTimerTagParam):
            yield float(time), tag

    return timed(beam, p, [(("a", 1), 1), (("b", 1), 2)]) | beam.ParDo(Commanded())


@program
def timers_set_by_timers(beam, p):
    _, event, _ = specs(beam)

    class Chain(beam.DoFn):
        def process(self, pair, timer=beam.DoFn.TimerParam(event)):
            timer.set(3)

        @beam.transforms.userstate.on_timer(event)
        def again(self, time=beam.DoFn.TimestampParam, timer=beam.DoFn.TimerParam(event)):
            yield "fired", time
            if time < 9:
                timer.set(time + 2)

    return timed(beam, p, [(("a", 1), 1), (("b", 1), 2)]) | beam.ParDo(Chain())


@program
def timers_that_call_several_methods(beam, p):
    userstate, domain = beam.transforms.userstate, beam.transforms.timeutil.TimeDomain
    one, two = userstate.TimerSpec("one", domain.WATERMARK), userstate.TimerSpec("two", domain.WATERMARK)
    count = userstate.CombiningValueStateSpec("count", beam.combiners.CountCombineFn())

    class Two(beam.DoFn):
        def process(self, pair, first=beam.DoFn.TimerParam(one), second=beam.DoFn.TimerParam(two)):
            first.set(30)
            second.set(20)

        @userstate.on_timer(one)
        def on_one(self, its=beam.DoFn.StateParam(count)):
            its.add(1)
            yield "one"

        @userstate.on_timer(two)
        def on_two(self, its=beam.DoFn.StateParam(count)):
            its.add(1)
            yield "two"

    return timed(beam, p, [(("a", 1), 1), (("b", 1), 2)]) | beam.ParDo(Two())


@program
def timers_with_tagged_and_stamped_outputs(beam, p):
    _, event, _ = specs(beam)

    class Outputs(beam.DoFn):
        def process(self, pair, timer=beam.DoFn.TimerParam(event)):
            timer.set(8)

        @beam.transforms.userstate.on_timer(event)
        def fire(self, key=beam.DoFn.KeyParam):
            yield beam.window.TimestampedValue((key, "stamped"), 25)
            yield beam.pvalue.TaggedOutput("side", (key, "tagged"))
            yield beam.transforms.window.WindowedValue((key, "placed"), 31, [beam.window.IntervalWindow(30, 50)])

    pairs = timed(beam, p, [(("a", 1), 1), (("b", 1), 12)]) | beam.WindowInto(beam.window.FixedWindows(10))
    outputs = pairs | beam.ParDo(Outputs()).with_outputs("side", main="main")
    return {"main": outputs.main, "side": outputs.side}


@streaming
def stream_timers_as_the_watermark_moves(beam, p):
    script = [0, [(("a", 1), 1), (("b", 2), 2)], 8, [(("a", 4), 9)], 12, [(("a", 8), 13)], 18, 30]
    pairs = stream(beam, p, *script) | beam.WindowInto(beam.window.FixedWindows(10))
    return pairs | gathered(beam, lambda time, window: window.end)


@streaming
def stream_timers_moved_on(beam, p):
    script = [0, [(("a", 1), 1)], 8, [(("a", 2), 9)], 15, [(("a", 4), 16)], 25, 40, [(("a", 8), 41)], 100]
    return stream(beam, p, *script) | gathered(beam, lambda time, window: time + 10)


@streaming
def stream_timers_by_tag(beam, p):
    script = [0, [(("a", 1), 1), (("a", 2), 4)], 3, [(("b", 1), 5)], 20]
    return stream(beam, p, *script) | tagged(beam)


@streaming
def stream_timers_in_the_past(beam, p):
    script = [0, [(("a", 1), 1)], 50, [(("a", 2), 55)], 60]
    return stream(beam, p, *script) | gathered(beam, lambda time, window: FAR + 20)


@streaming(masks=(Mask(DUE_TIMERS, only_ours=("('a', [(1, 4)])", "('b', [(2)])")),))
def stream_timers_before_a_grouping(beam, p):
    script = [0, [(("a", 1), 1), (("b", 2), 2)], 8, [(("a", 4), 9)], 12, 30]
    pairs = stream(beam, p, *script) | beam.WindowInto(beam.window.FixedWindows(10))
    return pairs | gathered(beam, lambda time, window: window.start + 9) | beam.GroupByKey()


@streaming(masks=(LAST_BATCHES,))
def stream_batches(beam, p):
    script = [0, [(("a", 1), 1), (("a", 1), 2)], [(("a", 1), 3), (("b", 1), 3)], 10, [(("a", 1), 11)], 20]
    batches = stream(beam, p, *script) | beam.WindowInto(beam.window.FixedWindows(10)) | beam.GroupIntoBatches(2)
    return batches | beam.MapTuple(lambda key, batch: (key, len(batch)))


@streaming
def stream_deduplicated(beam, p):
    script = [0, [("x", 1), ("y", 2)], 5, [("x", 6)], 12, [("x", 13)], 40]
    return stream(beam, p, *script) | beam.transforms.deduplicate.Deduplicate(event_time_duration=10)


def woken(beam, wait):
    """A `ParDo` that keeps values until the clock says so, `wait` seconds after it began."""
    bag, _, real = specs(beam)

    class Wake(beam.DoFn):
        def process(self, pair, its=beam.DoFn.StateParam(bag), timer=beam.DoFn.TimerParam(real)):
            its.add(pair[1])
            timer.set(wait)

        @beam.transforms.userstate.on_timer(real)
        def put_out(self, key=beam.DoFn.KeyParam, time=beam.DoFn.TimestampParam, its=beam.DoFn.StateParam(bag)):
            values = tuple(sorted(its.read()))
            its.clear()
            yield key, values, time

    return beam.ParDo(Wake())


@on_the_clock(masks=(Mask(CLOCK_AS_TIME, ("timestamp",)),))
def clock_timers(beam, p):
    script = [0, [(("a", 1), 1)], Clock(5), [(("a", 2), 2), (("b", 4), 2)], Clock(20), [(("a", 8), 3)]]
    return stream(beam, p, *script) | woken(beam, 15)


@on_the_clock(masks=(Mask(CLOCK_AS_TIME, ("timestamp",)),))
def clock_timers_cleared(beam, p):
    _, _, real = specs(beam)

    class Cleared(beam.DoFn):
        def process(self, pair, timer=beam.DoFn.TimerParam(real)):
            timer.set(10, dynamic_timer_tag="one")
            timer.set(12, dynamic_timer_tag="two")
            if pair[1] == 2:
                timer.clear(dynamic_timer_tag="one")

        @beam.transforms.userstate.on_timer(real)
        def fire(self, key=beam.DoFn.KeyParam, tag=beam.DoFn.DynamicTimerTagParam):
            yield key, tag

    script = [0, [(("a", 1), 1), (("b", 1), 1)], Clock(5), [(("a", 2), 2)], Clock(20), 10]
    return stream(beam, p, *script) | beam.ParDo(Cleared())


@on_the_clock(masks=(Mask(CLOCK_AS_TIME, ("timestamp",)),))
def clock_batches(beam, p):
    # A clock of its own, which Beam's transform needs with a stream's clock.
    script = [0, [(("a", 1), 1)], Clock(5), [(("b", 1), 2)], Clock(10), [(("a", 1), 3), (("a", 1), 3)]]
    batches = stream(beam, p, *script) | beam.GroupIntoBatches(2, max_buffering_duration_secs=5, clock=lambda: 3)
    return batches | beam.MapTuple(lambda key, batch: (key, len(batch)))


@program
def two_timers_of_one_method(beam, p):
    userstate, domain = beam.transforms.userstate, beam.transforms.timeutil.TimeDomain
    early, late = userstate.TimerSpec("early", domain.WATERMARK), userstate.TimerSpec("late", domain.WATERMARK)

    class Twice(beam.DoFn):
        def process(self, pair, one=beam.DoFn.TimerParam(early), other=beam.DoFn.TimerParam(late)):
            one.set(5)
            other.set(8)

        @userstate.on_timer(early)
        @userstate.on_timer(late)
        def fire(self, time=beam.DoFn.TimestampParam):
            yield time.micros

    return timed(beam, p, [(("a", 1), 1)]) | beam.ParDo(Twice())
