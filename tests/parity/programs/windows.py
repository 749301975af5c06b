"""Where: which windows elements are in, and which timestamps their panes get."""

from __future__ import annotations

from tests.parity.corpus import program, timed

EVERY_SECOND = [(("k", 1 << place), place) for place in range(40)]
SCATTERED = [(("a", 1), 3), (("a", 2), 4), (("b", 4), 11), (("a", 8), 19.999), (("a", 16), 20), (("b", 32), 61)]


def sums(beam, p, values, window, **options):
    """The elements in their windows, and their sum per key."""
    pairs = timed(beam, p, values) | beam.WindowInto(window, **options)
    return {"elements": pairs, "sums": pairs | beam.CombinePerKey(sum)}


@program
def fixed(beam, p):
    return sums(beam, p, EVERY_SECOND, beam.window.FixedWindows(10))


@program
def fixed_with_offset(beam, p):
    return sums(beam, p, EVERY_SECOND, beam.window.FixedWindows(10, offset=3))


@program
def fixed_with_large_offset(beam, p):
    return sums(beam, p, EVERY_SECOND, beam.window.FixedWindows(10, offset=27))


@program
def fixed_of_fractions(beam, p):
    return sums(beam, p, EVERY_SECOND, beam.window.FixedWindows(1.5, offset=0.25))


@program
def fixed_of_durations(beam, p):
    duration = beam.utils.timestamp.Duration
    return sums(beam, p, EVERY_SECOND, beam.window.FixedWindows(duration(7), offset=beam.utils.timestamp.Timestamp(2)))


@program
def fixed_before_1970(beam, p):
    return sums(beam, p, [(("k", place), place - 25) for place in range(50)], beam.window.FixedWindows(10, offset=4))


@program
def fixed_at_the_borders(beam, p):
    values = [(("k", place), time) for place, time in enumerate([0, 9.999, 10, 19.999, 20, -0.001, -10])]
    return sums(beam, p, values, beam.window.FixedWindows(10))


@program
def sliding(beam, p):
    return sums(beam, p, EVERY_SECOND, beam.window.SlidingWindows(20, 5))


@program
def sliding_with_offset(beam, p):
    return sums(beam, p, EVERY_SECOND, beam.window.SlidingWindows(20, 5, offset=3))


@program
def sliding_whose_period_does_not_divide(beam, p):
    return sums(beam, p, EVERY_SECOND, beam.window.SlidingWindows(10, 4))


@program
def sliding_with_gaps(beam, p):
    return sums(beam, p, EVERY_SECOND, beam.window.SlidingWindows(4, 10))


@program
def sliding_like_fixed(beam, p):
    return sums(beam, p, EVERY_SECOND, beam.window.SlidingWindows(10, 10, offset=1))


@program
def sliding_before_1970(beam, p):
    return sums(
        beam, p, [(("k", place), place - 25) for place in range(50)], beam.window.SlidingWindows(15, 5, offset=2)
    )


@program
def sessions(beam, p):
    return sums(beam, p, SCATTERED, beam.window.Sessions(10))


@program
def sessions_that_touch(beam, p):
    values = [(("k", 1), 0), (("k", 2), 10), (("k", 4), 20), (("k", 8), 30.001), (("l", 1), 0), (("l", 2), 9.999)]
    return sums(beam, p, values, beam.window.Sessions(10))


@program
def sessions_bridged_by_the_last(beam, p):
    return sums(
        beam,
        p,
        [(("k", 1), 0), (("k", 2), 16), (("k", 4), 32), (("k", 8), 8), (("k", 16), 24)],
        beam.window.Sessions(10),
    )


@program
def sessions_out_of_order(beam, p):
    return sums(beam, p, [(("k", place), (place * 37) % 100) for place in range(30)], beam.window.Sessions(4))


@program
def everything(beam, p):
    return sums(beam, p, SCATTERED, beam.window.GlobalWindows())


@program
def windowed_again(beam, p):
    pairs = timed(beam, p, SCATTERED) | "Slide" >> beam.WindowInto(beam.window.SlidingWindows(20, 10))
    return {
        "fixed": pairs | "F" >> beam.WindowInto(beam.window.FixedWindows(30)),
        "global": pairs | "G" >> beam.WindowInto(beam.window.GlobalWindows()) | beam.CombinePerKey(sum),
    }


@program
def windowed_again_after_grouping(beam, p):
    small = (
        timed(beam, p, EVERY_SECOND)
        | "Small" >> beam.WindowInto(beam.window.FixedWindows(5))
        | "S" >> beam.CombinePerKey(sum)
    )
    large = small | "Large" >> beam.WindowInto(beam.window.FixedWindows(20)) | "L" >> beam.CombinePerKey(sum)
    return {
        "small": small,
        "large": large,
        "all": large | "All" >> beam.WindowInto(beam.window.GlobalWindows()) | beam.GroupByKey(),
    }


@program
def windowed_again_from_sessions(beam, p):
    sessions = (
        timed(beam, p, SCATTERED)
        | "Sessions" >> beam.WindowInto(beam.window.Sessions(10))
        | "S" >> beam.CombinePerKey(sum)
    )
    return sessions | beam.WindowInto(beam.window.SlidingWindows(60, 30)) | "Slide" >> beam.CombinePerKey(sum)


@program
def windows_of_one_transform_object(beam, p):
    window = beam.WindowInto(beam.window.FixedWindows(10))
    one, two = timed(beam, p, SCATTERED, "One"), timed(beam, p, SCATTERED[:2], "Two")
    return {"one": one | "W1" >> window, "two": two | "W2" >> window | beam.CombinePerKey(sum)}


def with_each_combiner(beam, p, values, window):
    pairs = timed(beam, p, values)
    outputs = {}
    for name in ("OUTPUT_AT_EOW", "OUTPUT_AT_EARLIEST", "OUTPUT_AT_LATEST"):
        combiner = getattr(beam.window.TimestampCombiner, name)
        windowed = pairs | f"W {name}" >> beam.WindowInto(window, timestamp_combiner=combiner)
        outputs[name] = windowed | name >> beam.CombinePerKey(sum)
        outputs[f"{name} again"] = (
            outputs[name]
            | f"One key {name}" >> beam.MapTuple(lambda key, total: ("all", total))
            | f"Again {name}" >> beam.CombinePerKey(sum)
        )
    return outputs


@program
def timestamp_combiners_in_fixed_windows(beam, p):
    return with_each_combiner(beam, p, SCATTERED, beam.window.FixedWindows(20))


@program
def timestamp_combiners_in_sliding_windows(beam, p):
    return with_each_combiner(beam, p, SCATTERED, beam.window.SlidingWindows(20, 10))


@program
def timestamp_combiners_in_sessions(beam, p):
    return with_each_combiner(beam, p, SCATTERED, beam.window.Sessions(9))


@program
def timestamp_combiners_in_the_global_window(beam, p):
    return with_each_combiner(beam, p, SCATTERED, beam.window.GlobalWindows())


@program
def window_objects(beam, p):
    window = beam.window.IntervalWindow(0, 10)
    facts = [
        (window.start, window.end, window.max_timestamp()),
        window == beam.window.IntervalWindow(0, 10),
        window == beam.window.IntervalWindow(0, 11),
        window.intersects(beam.window.IntervalWindow(9, 12)),
        window.union(beam.window.IntervalWindow(5, 12)),
        (beam.window.GlobalWindow().end, beam.window.GlobalWindow().max_timestamp()),
        beam.window.GlobalWindow() == beam.window.GlobalWindow(),
    ]
    return p | beam.Create([0]) | beam.FlatMap(lambda nothing: facts)
