"""What: combining in two phases, which changes nothing; Beam's own two phases agree where panes fire once."""

from __future__ import annotations

from tests.parity.corpus import program, timed
from tests.parity.masks import DEFAULTS, Mask
from tests.parity.watching import stream

ANEW = Mask(DEFAULTS, ("timestamp", "timing"))
TIMED = [(("hot" if number % 5 else f"cold {number}", number), number * 0.7) for number in range(60)]


def hot(key):
    return 4 if key == "hot" else 1


@program
def fanout_of_a_number(beam, p):
    return p | beam.Create([pair for pair, _ in TIMED]) | beam.CombinePerKey(sum).with_hot_key_fanout(3)


@program
def fanout_by_key(beam, p):
    return p | beam.Create([pair for pair, _ in TIMED]) | beam.CombinePerKey(max).with_hot_key_fanout(hot)


@program
def fanout_of_none(beam, p):
    pairs = p | beam.Create([pair for pair, _ in TIMED])
    return {
        "none": pairs | "None" >> beam.CombinePerKey(sum).with_hot_key_fanout(None),
        "one": pairs | "One" >> beam.CombinePerKey(sum).with_hot_key_fanout(1),
    }


@program
def fanout_in_fixed_windows(beam, p):
    windowed = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(10))
    return windowed | beam.CombinePerKey(beam.combiners.MeanCombineFn()).with_hot_key_fanout(hot)


@program
def fanout_in_sliding_windows(beam, p):
    windowed = timed(beam, p, TIMED) | beam.WindowInto(beam.window.SlidingWindows(10, 4))
    return windowed | beam.CombinePerKey(beam.combiners.CountCombineFn()).with_hot_key_fanout(3)


@program
def fanout_with_arguments(beam, p):
    def bounded(values, bound, low=0):
        return max(low, min(sum(values), bound))

    pairs = p | beam.Create([pair for pair, _ in TIMED])
    return pairs | beam.CombinePerKey(bounded, 40, low=3).with_hot_key_fanout(2)


@program
def fanout_of_a_list(beam, p):
    windowed = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(20))
    return windowed | beam.CombinePerKey(beam.combiners.ToListCombineFn()).with_hot_key_fanout(hot)


@program(masks=(ANEW,))
def fanout_globally(beam, p):
    numbers = p | beam.Create(range(50))
    return {
        "sum": numbers | "Sum" >> beam.CombineGlobally(sum).with_fanout(4),
        "none": p | "Nothing" >> beam.Create([]) | "None" >> beam.CombineGlobally(sum).with_fanout(4),
    }


@program
def fanout_globally_without_defaults(beam, p):
    windowed = timed(beam, p, TIMED) | beam.Values() | beam.WindowInto(beam.window.FixedWindows(10))
    return windowed | beam.CombineGlobally(sum).with_fanout(4).without_defaults()


@program(streaming=True)
def fanout_of_a_stream(beam, p):
    events = stream(beam, p, 0, [(("a", 1), 1), (("b", 2), 2), (("a", 4), 3)], 12, [(("a", 8), 13), (("a", 16), 14)])
    return events | beam.WindowInto(beam.window.FixedWindows(10)) | beam.CombinePerKey(sum).with_hot_key_fanout(2)
