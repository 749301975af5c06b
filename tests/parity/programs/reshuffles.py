"""Where elements are processed: shuffles that change nothing else."""

from __future__ import annotations

from tests.parity.corpus import program, timed
from tests.parity.masks import SHUFFLED_LATE, Mask
from tests.parity.watching import stream

PAIRS = [("a", 1), ("b", 2), ("a", 3), (None, 4), (("x", 1), 5)]
TIMED = [(pair, 4 * place) for place, pair in enumerate(PAIRS)]


@program
def reshuffle(beam, p):
    return p | beam.Create(range(20)) | beam.Reshuffle()


@program
def reshuffle_into_buckets(beam, p):
    return p | beam.Create(range(20)) | beam.Reshuffle(num_buckets=3) | beam.Map(lambda number: number + 1)


@program
def reshuffle_in_windows(beam, p):
    windowed = timed(beam, p, TIMED) | beam.WindowInto(beam.window.SlidingWindows(10, 5))
    reshuffled = windowed | beam.Reshuffle()
    return {"elements": reshuffled, "sums": reshuffled | beam.CombinePerKey(sum)}


@program
def reshuffle_per_key(beam, p):
    windowed = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(10))
    reshuffled = windowed | beam.transforms.util.ReshufflePerKey()
    return {"elements": reshuffled, "groups": reshuffled | beam.GroupByKey()}


@program
def reshuffle_groups(beam, p):
    groups = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(10)) | beam.GroupByKey()
    return {
        "any": groups | beam.Reshuffle(),
        "per key": groups | beam.transforms.util.ReshufflePerKey(),
        "twice": groups | "Once" >> beam.Reshuffle() | "Twice" >> beam.Reshuffle(),
    }


@program
def reshuffle_sessions(beam, p):
    windowed = timed(beam, p, TIMED) | beam.WindowInto(beam.window.Sessions(5))
    return windowed | beam.Reshuffle() | beam.CombinePerKey(sum)


@program
def reshuffle_values_with_timestamps(beam, p):
    stamped = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(10))
    shifted = stamped | beam.Map(lambda pair: beam.window.TimestampedValue(pair, 2)) | beam.Reshuffle()
    return {"elements": shifted, "sums": shifted | beam.CombinePerKey(sum)}


@program(streaming=True, masks=(Mask(SHUFFLED_LATE, only_ours=("('a', 16)",)),))
def reshuffle_a_stream(beam, p):
    events = stream(beam, p, 0, [(("a", 1), 1), (("b", 2), 2)], 12, [(("a", 8), 13), (("a", 16), 3)])
    windowed = events | beam.WindowInto(beam.window.FixedWindows(10), allowed_lateness=20)
    return windowed | beam.Reshuffle() | beam.CombinePerKey(sum)


@program(streaming=True, masks=(Mask(SHUFFLED_LATE, only_ours=("('a', 11)",)),))
def reshuffle_panes_of_a_stream(beam, p):
    events = stream(beam, p, 0, [(("a", 1), 1), (("a", 2), 2)], 12, [(("a", 8), 3)])
    early = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1), late=beam.trigger.AfterCount(1))
    windowed = events | beam.WindowInto(
        beam.window.FixedWindows(10),
        trigger=early,
        accumulation_mode=beam.trigger.AccumulationMode.ACCUMULATING,
        allowed_lateness=20,
    )
    return windowed | beam.CombinePerKey(sum) | beam.Reshuffle()
