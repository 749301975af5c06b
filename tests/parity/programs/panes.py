"""When and how, on bounded input: all elements come at once, then the watermark goes to the end of time."""

from __future__ import annotations

from tests.parity.corpus import program, timed
from tests.parity.masks import KEPT_HOLD, Mask

VALUES = [(("a", 1), 1), (("b", 2), 2), (("a", 4), 3), (("a", 8), 12), (("b", 16), 35), (("a", 32), 14)]


def panes(beam, p, trigger, mode="DISCARDING", window=None, **options):
    """Sums and groups of the same elements under a trigger."""
    accumulation_mode = getattr(beam.trigger.AccumulationMode, mode)
    pairs = timed(beam, p, VALUES) | beam.WindowInto(
        window or beam.window.FixedWindows(10), trigger=trigger, accumulation_mode=accumulation_mode, **options
    )
    return {"sums": pairs | beam.CombinePerKey(sum), "groups": pairs | beam.GroupByKey()}


@program
def default_trigger(beam, p):
    return panes(beam, p, beam.trigger.DefaultTrigger())


@program
def default_trigger_accumulating(beam, p):
    return panes(beam, p, beam.trigger.DefaultTrigger(), "ACCUMULATING")


@program
def default_trigger_with_lateness(beam, p):
    return panes(beam, p, beam.trigger.DefaultTrigger(), allowed_lateness=100)


@program
def after_watermark(beam, p):
    return panes(beam, p, beam.trigger.AfterWatermark())


@program
def after_watermark_in_sessions(beam, p):
    return panes(beam, p, beam.trigger.AfterWatermark(), window=beam.window.Sessions(5))


@program
def after_watermark_in_sliding_windows(beam, p):
    return panes(beam, p, beam.trigger.AfterWatermark(), window=beam.window.SlidingWindows(20, 10))


@program
def after_watermark_repeatedly(beam, p):
    return panes(beam, p, beam.trigger.Repeatedly(beam.trigger.AfterWatermark()))


@program
def early_counts_discarding(beam, p):
    return panes(beam, p, beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(2)))


@program
def early_counts_accumulating(beam, p):
    return panes(beam, p, beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(2)), "ACCUMULATING")


@program
def early_counts_in_sliding_windows(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(2))
    return panes(beam, p, trigger, "ACCUMULATING", beam.window.SlidingWindows(20, 10))


@program
def early_counts_in_sessions(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(2))
    return panes(beam, p, trigger, "ACCUMULATING", beam.window.Sessions(5))


@program
def early_and_late_counts(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(3), late=beam.trigger.AfterCount(1))
    return panes(beam, p, trigger, allowed_lateness=20)


@program
def early_and_late_counts_repeatedly(beam, p):
    count = beam.trigger.Repeatedly(beam.trigger.AfterCount(2))
    return panes(beam, p, beam.trigger.AfterWatermark(early=count, late=count), "ACCUMULATING", allowed_lateness=20)


@program(masks=(Mask(KEPT_HOLD, ("timestamp",)),))
def early_counts_at_the_earliest(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(2))
    return panes(beam, p, trigger, timestamp_combiner=beam.window.TimestampCombiner.OUTPUT_AT_EARLIEST)


@program(masks=(Mask(KEPT_HOLD, ("timestamp",)),))
def early_counts_at_the_latest(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(2))
    return panes(beam, p, trigger, timestamp_combiner=beam.window.TimestampCombiner.OUTPUT_AT_LATEST)


@program
def counts_repeatedly(beam, p):
    return panes(beam, p, beam.trigger.Repeatedly(beam.trigger.AfterCount(1)))


@program
def counts_repeatedly_accumulating(beam, p):
    return panes(beam, p, beam.trigger.Repeatedly(beam.trigger.AfterCount(1)), "ACCUMULATING")


@program
def counts_repeatedly_in_the_global_window(beam, p):
    return panes(beam, p, beam.trigger.Repeatedly(beam.trigger.AfterCount(2)), window=beam.window.GlobalWindows())


@program
def early_counts_in_the_global_window(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(2))
    return panes(beam, p, trigger, "ACCUMULATING", beam.window.GlobalWindows())


@program
def early_panes_grouped_again(beam, p):
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(2))
    sums = panes(beam, p, trigger)["sums"]
    return sums | beam.MapTuple(lambda key, total: ("all", total)) | "Again" >> beam.GroupByKey()
