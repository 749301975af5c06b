"""Where: windows on streams: sliding, sessions that merge, new windows; and the timestamps of panes."""

from __future__ import annotations

from tests.parity.masks import CLOSED, KEPT_HOLD, Mask
from tests.parity.watching import IN_TIME_AND_LATE, stream, streaming, watch


@streaming
def stream_sliding_windows(beam, p):
    return watch(
        beam,
        p,
        [0, [(1, 1), (2, 7)], [(4, 12)], 10, [(8, 16)], 20, [(16, 23)], 60],
        window=beam.window.SlidingWindows(10, 5),
    )


@streaming
def stream_sliding_windows_late(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(2), late=beam.trigger.AfterCount(1))
    script = [0, [(1, 1), (2, 7)], [(4, 12)], 10, [(8, 6)], [(16, 13)], 20, [(32, 8)], 60]
    return watch(beam, p, script, trigger, "ACCUMULATING", beam.window.SlidingWindows(10, 5), allowed_lateness=12)


@streaming
def stream_fixed_windows_with_offset(beam, p):
    return watch(beam, p, IN_TIME_AND_LATE, window=beam.window.FixedWindows(10, offset=4), allowed_lateness=5)


@streaming
def stream_sessions(beam, p):
    script = [0, [(1, 1)], [(2, 8)], [(4, 30)], 20, [(8, 35)], 60, [(16, 70)], 100]
    return watch(beam, p, script, window=beam.window.Sessions(10))


@streaming
def stream_sessions_bridged(beam, p):
    script = [0, [(1, 1)], [(2, 17)], [(4, 9), (8, 40)], [(16, 25)], [(32, 33)], 100]
    return watch(beam, p, script, window=beam.window.Sessions(10))


@streaming
def stream_sessions_of_several_keys(beam, p):
    script = [0, [(("a", 1), 1), (("b", 2), 5)], [(("a", 4), 9), (("b", 8), 20)], 16, [(("a", 16), 30)], 100]
    return watch(beam, p, script, window=beam.window.Sessions(10))


@streaming
def stream_sessions_drop_late(beam, p):
    return watch(beam, p, [0, [(1, 1)], 30, [(2, 5)], [(4, 40)], 100], window=beam.window.Sessions(10))


@streaming
def stream_sessions_with_early_count(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(2))
    script = [0, [(1, 1), (2, 3)], 20, [(4, 40)], 100]
    return watch(beam, p, script, trigger, "ACCUMULATING", beam.window.Sessions(10))


@streaming
def stream_windowed_again_after_grouping(beam, p):
    sums = watch(beam, p, [0, [(1, 1), (2, 12)], 10, [(4, 24)], 20, [(8, 39)], 40])
    return sums | "Large" >> beam.WindowInto(beam.window.FixedWindows(20)) | "Again" >> beam.CombinePerKey(sum)


@streaming
def stream_sessions_merge_after_an_early_pane(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1))
    return watch(beam, p, [0, [(1, 1)], [(2, 5)], [(4, 30)], 100], trigger, "ACCUMULATING", beam.window.Sessions(10))


@streaming
def stream_sessions_grow_by_a_late_element(beam, p):
    trigger = beam.trigger.AfterWatermark(late=beam.trigger.AfterCount(1))
    script = [0, [(1, 1)], 20, [(2, 5)], [(4, 40)], 100]
    return watch(beam, p, script, trigger, window=beam.window.Sessions(10), allowed_lateness=100)


@streaming
def stream_sessions_grow_beyond_the_watermark(beam, p):
    script = [0, [(1, 1)], 12, [(2, 8)], [(4, 60)], 100]
    trigger = beam.trigger.DefaultTrigger()
    return watch(beam, p, script, trigger, "ACCUMULATING", beam.window.Sessions(10), allowed_lateness=100)


@streaming(masks=(Mask(CLOSED, ("window",)),))
def stream_sessions_touch_a_closed_one(beam, p):
    return watch(beam, p, [0, [(1, 0), (2, 25)], 20, [(4, 9), (8, 16)], 100], window=beam.window.Sessions(10))


@streaming
def stream_sessions_late_alone(beam, p):
    trigger = beam.trigger.AfterWatermark(late=beam.trigger.AfterCount(1))
    script = [0, [(1, 1)], 50, [(2, 25)], [(4, 60)], 100]
    return watch(beam, p, script, trigger, window=beam.window.Sessions(10), allowed_lateness=100)


@streaming
def stream_sliding_windows_close_one_by_one(beam, p):
    script = [0, [(1, 1)], 12, [(2, 8)], 15.5, [(4, 6)], 26, [(8, 7)], 100]
    return watch(beam, p, script, window=beam.window.SlidingWindows(10, 5), allowed_lateness=5)


@streaming
def stream_early_panes_windowed_again(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1))
    panes = watch(beam, p, [0, [(1, 1)], 8, [(2, 8)], 12, [(4, 14)], 30, 100], trigger, "ACCUMULATING")
    return panes | "Large" >> beam.WindowInto(beam.window.FixedWindows(20)) | "Again" >> beam.GroupByKey()


def at_each(beam, p, script, **options):
    pairs = stream(beam, p, *script) | beam.Map(lambda x: ("k", x))
    outputs = {}
    for name in ("OUTPUT_AT_EOW", "OUTPUT_AT_EARLIEST", "OUTPUT_AT_LATEST"):
        combiner = getattr(beam.window.TimestampCombiner, name)
        windowed = pairs | f"W {name}" >> beam.WindowInto(timestamp_combiner=combiner, **options)
        outputs[name] = windowed | name >> beam.CombinePerKey(sum)
    return outputs


@streaming
def stream_timestamp_combiners(beam, p):
    return at_each(beam, p, [0, [(1, 3), (2, 7)], [(4, 5)], 10, [(8, 11)], 30], windowfn=beam.window.FixedWindows(10))


@streaming(masks=(Mask(KEPT_HOLD, ("timestamp",)),))
def stream_timestamp_combiners_with_early_panes(beam, p):
    return at_each(
        beam,
        p,
        [0, [(1, 3)], [(2, 7)], [(4, 5)], 10, [(8, 11)], 30],
        windowfn=beam.window.FixedWindows(10),
        trigger=beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1)),
        accumulation_mode=beam.trigger.AccumulationMode.DISCARDING,
    )


@streaming
def stream_timestamp_combiners_of_late_panes(beam, p):
    return at_each(
        beam,
        p,
        [0, [(1, 3)], 10, [(2, 7)], [(4, 5)], 30],
        windowfn=beam.window.FixedWindows(10),
        trigger=beam.trigger.AfterWatermark(late=beam.trigger.AfterCount(1)),
        allowed_lateness=100,
        accumulation_mode=beam.trigger.AccumulationMode.ACCUMULATING,
    )


@streaming
def stream_timestamp_combiners_in_sessions(beam, p):
    return at_each(beam, p, [0, [(1, 3)], [(2, 7)], [(4, 25)], 60], windowfn=beam.window.Sessions(10))
