"""Streams as programs of the corpus tell them."""

from __future__ import annotations

from functools import partial

from tests.parity.corpus import program

streaming = partial(program, streaming=True)
"""Adds a program on a stream to the corpus."""
on_the_clock = partial(program, streaming=True, alone=True)
"""Adds a program that moves the wall clock to the corpus."""

FAR = 1_000_000
"""Where streams' event times begin, in seconds: far above the test clock, which Beam's direct runner mixes into the
watermark (fact 1)."""
UNSAFE = ("--allow_unsafe_triggers",)
IN_TIME_AND_LATE = [
    *(0, [(1, 1), (2, 4)], [(4, 6)], 10, [(8, 3)], [(16, 5), (32, 15)]),
    *(15, [(64, 2)], 40, [(128, 1)], [(256, 41)]),
]
"""A script of numbers for windows of 10 seconds; the sum shows which ones a pane holds."""


class Clock(int):
    """Seconds by which a stream's wall clock advances."""


def stream(beam, p, *script):
    """An unbounded collection; of the script, a list is elements that come together, as (value, second) pairs, a
    number is the second that the watermark advances to, a `Clock` the seconds by which the wall clock does.

    Seconds are after `FAR`. In the end the watermark moves beyond all windows before it goes to infinity, as Beam's
    direct runner does not flush what is buffered then (fact 2).
    """
    source = beam.testing.test_stream.TestStream()
    for event in script:
        if isinstance(event, Clock):
            source = source.advance_processing_time(int(event))
        elif isinstance(event, list):
            stamped = [beam.window.TimestampedValue(value, FAR + second) for value, second in event]
            source = source.add_elements(stamped)
        else:
            source = source.advance_watermark_to(FAR + event)
    return p | source.advance_watermark_to(2 * FAR).advance_watermark_to_infinity()


def patient(beam):
    """Options under which late elements may wait for their pane: with other combiners of timestamps Beam's runner holds
    the watermark for them at the end of their window, behind where it is, and then stalls."""
    return {"allowed_lateness": 100, "timestamp_combiner": beam.window.TimestampCombiner.OUTPUT_AT_LATEST}


def watch(beam, p, script, trigger=None, mode="DISCARDING", window=None, **options):
    """Panes of numbers, all under the key `k`; pairs keep their own key."""
    pairs = stream(beam, p, *script) | beam.Map(lambda x: x if isinstance(x, tuple) else ("k", x))
    if trigger is not None:
        options["accumulation_mode"] = getattr(beam.trigger.AccumulationMode, mode)
    windowed = pairs | beam.WindowInto(window or beam.window.FixedWindows(10), trigger=trigger, **options)
    return windowed | beam.CombinePerKey(sum)


def under_one_key(beam, pairs, label="Again"):
    return pairs | f"{label}/Key" >> beam.MapTuple(lambda key, number: ("all", number)) | label >> beam.GroupByKey()
