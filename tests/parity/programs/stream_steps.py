"""What: transforms on streams, and panes that go on to further transforms."""

from __future__ import annotations

from tests.parity.corpus import timed
from tests.parity.watching import FAR, IN_TIME_AND_LATE, stream, streaming, under_one_key, watch


@streaming
def stream_elements(beam, p):
    return stream(beam, p, 0, [(1, 1), (2, 4)], 5, [(3, 2)])


@streaming
def stream_grouped_values(beam, p):
    pairs = stream(beam, p, 0, [(1, 1), (2, 4)], [(3, 6)], 10, [(4, 15)]) | beam.Map(lambda x: (x % 2, x))
    return pairs | beam.WindowInto(beam.window.FixedWindows(10)) | beam.GroupByKey()


@streaming
def stream_combined_globally(beam, p):
    numbers = stream(beam, p, 0, [(1, 1), (2, 4)], [(3, 6)], 10, [(4, 15)])
    numbers = numbers | beam.WindowInto(beam.window.FixedWindows(10))
    return {
        "sum": numbers | beam.CombineGlobally(sum).without_defaults(),
        "count": numbers | beam.CombineGlobally(beam.combiners.CountCombineFn()).without_defaults(),
    }


@streaming
def stream_means_and_counts(beam, p):
    pairs = stream(beam, p, 0, [(1, 1), (2, 4)], [(3, 6)], 10, [(4, 15)]) | beam.Map(lambda x: ("k", x))
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1))
    pairs = pairs | beam.WindowInto(
        beam.window.FixedWindows(10), trigger=trigger, accumulation_mode=beam.trigger.AccumulationMode.ACCUMULATING
    )
    return {"mean": pairs | beam.combiners.Mean.PerKey(), "count": pairs | "Count" >> beam.combiners.Count.PerKey()}


@streaming
def stream_combined_globally_with_panes(beam, p):
    numbers = stream(beam, p, 0, [(1, 1), (2, 4)], [(3, 6)], 12, [(4, 15)], [(5, 5)])
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(2), late=beam.trigger.AfterCount(1))
    numbers = numbers | beam.WindowInto(
        beam.window.FixedWindows(10),
        trigger=trigger,
        accumulation_mode=beam.trigger.AccumulationMode.ACCUMULATING,
        allowed_lateness=beam.utils.timestamp.Duration(20),
    )
    return numbers | beam.CombineGlobally(max).without_defaults()


@streaming
def stream_do_fn_with_every_parameter(beam, p):
    class Everything(beam.DoFn):
        def process(
            self, pair, timestamp=beam.DoFn.TimestampParam, window=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam
        ):
            yield pair, timestamp, window, pane.is_first, int(pane.timing), pane.index

    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1), late=beam.trigger.AfterCount(1))
    panes = watch(beam, p, IN_TIME_AND_LATE, trigger, "ACCUMULATING", allowed_lateness=20)
    return panes | beam.ParDo(Everything()) | beam.Filter(lambda row: row[-1] < 2)


@streaming
def stream_panes_stamped_again(beam, p):
    panes = watch(beam, p, IN_TIME_AND_LATE, beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1)))
    return panes | "Stamp" >> beam.Map(lambda pair: beam.window.TimestampedValue(pair, FAR + pair[1]))


@streaming
def stream_panes_in_new_windows(beam, p):
    panes = watch(beam, p, IN_TIME_AND_LATE, beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1)))
    return panes | "Slide" >> beam.WindowInto(beam.window.SlidingWindows(20, 10))


@streaming
def stream_grouped_twice(beam, p):
    script = [0, [(("a", 1), 1), (("b", 2), 2)], [(("a", 4), 5)], 10, [(("b", 8), 15)], 20]
    sums = watch(beam, p, script)
    return {"once": sums, "twice": sums | beam.MapTuple(lambda key, total: ("all", total)) | beam.GroupByKey()}


@streaming
def stream_grouped_twice_with_early_panes(beam, p):
    script = [0, [(("a", 1), 1), (("b", 2), 2)], [(("a", 4), 5)], 10, [(("b", 8), 15)], 20]
    sums = watch(beam, p, script, beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1)))
    return {"once": sums, "twice": sums | beam.MapTuple(lambda key, total: ("all", total)) | beam.GroupByKey()}


@streaming
def stream_timestamped_again(beam, p):
    later = beam.Map(lambda x, time=beam.DoFn.TimestampParam: beam.window.TimestampedValue(("k", x), time + 10))
    numbers = stream(beam, p, 0, [(1, 1), (2, 4)], 5, [(4, 6)], 30) | later
    return numbers | beam.WindowInto(beam.window.FixedWindows(10)) | beam.CombinePerKey(sum)


@streaming
def stream_tagged_outputs(beam, p):
    split = beam.Map(lambda x: beam.pvalue.TaggedOutput("odd" if x % 2 else "even", ("k", x)))
    outputs = stream(beam, p, 0, [(1, 1), (2, 4)], [(3, 6)], 10) | split.with_outputs("odd", "even")
    window = beam.WindowInto(beam.window.FixedWindows(10))
    return {
        "odd": outputs.odd | "W1" >> window | beam.CombinePerKey(sum),
        "even": outputs.even | "W2" >> window | "E" >> beam.CombinePerKey(sum),
    }


@streaming
def stream_elements_at_the_watermark(beam, p):
    source = beam.testing.test_stream.TestStream().advance_watermark_to(FAR).add_elements(["a", "b"])
    source = source.advance_watermark_to(FAR + 5).add_elements(["c"]).advance_watermark_to_infinity()
    return p | source


@streaming
def stream_of_two_outputs(beam, p):
    outputs = p | two_inputs(beam)
    window = beam.WindowInto(beam.window.FixedWindows(10))
    return {tag: outputs[tag] | f"W {tag}" >> window | f"S {tag}" >> beam.CombinePerKey(sum) for tag in ("a", "b")}


@streaming
def stream_of_two_outputs_flattened(beam, p):
    outputs = p | two_inputs(beam)
    both = (outputs["a"], outputs["b"]) | beam.Flatten()
    return both | beam.WindowInto(beam.window.FixedWindows(10)) | beam.CombinePerKey(sum)


@streaming
def stream_of_two_outputs_grouped_together(beam, p):
    outputs = p | two_inputs(beam)
    window = beam.WindowInto(beam.window.FixedWindows(10))
    return {tag: outputs[tag] | f"W {tag}" >> window for tag in ("a", "b")} | beam.CoGroupByKey()


def two_inputs(beam):
    """A stream with two outputs; the watermark of `b` stays behind."""

    def at(second, number):
        return beam.window.TimestampedValue(("k", number), FAR + second)

    source = beam.testing.test_stream.TestStream()
    source = source.advance_watermark_to(FAR, tag="a").advance_watermark_to(FAR, tag="b")
    source = source.add_elements([at(1, 1), at(4, 2)], tag="a").add_elements([at(2, 4)], tag="b")
    source = source.advance_watermark_to(FAR + 11, tag="a").add_elements([at(15, 8), at(3, 16)], tag="a")
    source = source.advance_watermark_to(FAR + 10, tag="b").add_elements([at(12, 32)], tag="b")
    source = source.advance_watermark_to(FAR + 50, tag="a").advance_watermark_to(FAR + 50, tag="b")
    return source.advance_watermark_to_infinity(tag="a").advance_watermark_to_infinity(tag="b")


@streaming
def stream_and_bounded_flattened(beam, p):
    pairs = stream(beam, p, 0, [(1, 1), (2, 4)], [(4, 6)], 10, [(8, 12)], 30) | beam.Map(lambda x: ("k", x))
    more = timed(beam, p, [(("k", 16), FAR + 3), (("k", 32), FAR + 13), (("l", 64), FAR + 3)])
    return (pairs, more) | beam.Flatten() | beam.WindowInto(beam.window.FixedWindows(10)) | beam.CombinePerKey(sum)


@streaming
def stream_late_panes_grouped_again(beam, p):
    trigger = beam.trigger.AfterWatermark(late=beam.trigger.AfterCount(1))
    script = [0, [(1, 1)], 12, [(2, 8)], [(4, 60)], 100]
    return {
        mode: under_one_key(beam, panes, f"{mode} again")
        for mode, panes in in_both_modes(beam, p, script, trigger).items()
    }


def in_both_modes(beam, p, script, trigger, **options):
    """The panes of one stream, discarding and accumulating."""
    pairs = stream(beam, p, *script) | beam.Map(lambda x: ("k", x))
    panes = {}
    for mode in ("DISCARDING", "ACCUMULATING"):
        accumulation_mode = getattr(beam.trigger.AccumulationMode, mode)
        windowed = pairs | f"W {mode}" >> beam.WindowInto(
            beam.window.FixedWindows(10), trigger=trigger, accumulation_mode=accumulation_mode, allowed_lateness=50
        )
        panes[mode] = windowed | mode >> beam.CombinePerKey(sum)
    return panes


@streaming
def stream_early_counts_of_keys_grouped_again(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(2))
    first, second = [(("a", 1), 1), (("b", 2), 1)], [(("a", 4), 2), (("b", 8), 2), (("c", 16), 2)]
    return under_one_key(beam, watch(beam, p, [0, first, second, 12, [(4, 60)], 100], trigger))


@streaming
def stream_sliding_windows_grouped_again(beam, p):
    window = beam.window.SlidingWindows(10, 5)
    return under_one_key(beam, watch(beam, p, [0, [(1, 1)], 8, [(2, 8)], [(4, 60)], 100], window=window))


@streaming
def stream_sessions_grouped_again(beam, p):
    script = [0, [(("a", 1), 1), (("b", 2), 5)], [(("a", 4), 8)], 18, [(("b", 8), 60)], 100]
    return under_one_key(beam, watch(beam, p, script, window=beam.window.Sessions(10)))


@streaming
def stream_earliest_timestamps_grouped_again(beam, p):
    script = [0, [(("a", 1), 1), (("b", 2), 5)], [(("a", 4), 8)], 18, [(("b", 8), 60)], 100]
    earliest = beam.window.TimestampCombiner.OUTPUT_AT_EARLIEST
    return under_one_key(beam, watch(beam, p, script, timestamp_combiner=earliest))
