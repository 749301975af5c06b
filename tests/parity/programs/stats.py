"""What: approximate counts and quantiles, of so few values that they are exact, and of many within a bound."""

from __future__ import annotations

import operator

from tests.parity.corpus import program, timed
from tests.parity.masks import DEFAULTS, Mask

ANEW = Mask(DEFAULTS, ("timestamp", "timing"))
SHUFFLED = [(37 * number) % 101 for number in range(101)]
TIMED = [((f"k{number % 3}", number % 7), number) for number in range(60)]


def quantiles(name, values, **options):
    """Register a program that takes quantiles of values."""

    def build(beam, p):
        created = p | beam.Create(values)
        counts = (2, 3, 5, 20, 200)
        transforms = {str(n): beam.ApproximateQuantiles.Globally(n, **options) for n in counts}
        return {n: created | n >> transform | f"Tuple {n}" >> beam.Map(tuple) for n, transform in transforms.items()}

    build.__name__ = name
    program(build, masks=(ANEW,))


quantiles("quantiles_of_a_range", SHUFFLED)
quantiles("quantiles_of_few", [3, 1, 2])
quantiles("quantiles_of_a_thousand", [(37 * number) % 1001 for number in range(1001)])
quantiles("quantiles_of_one", [1])
quantiles("quantiles_of_none", [])
quantiles("quantiles_of_equal_values", [5, 5, 5, 1, 5])
quantiles("quantiles_of_text", ["pear", "fig", "quince", "date", "kiwi"])
quantiles("quantiles_of_floats", [number / 8 for number in SHUFFLED])
quantiles("quantiles_in_reverse", SHUFFLED, reverse=True)
quantiles("quantiles_by_key", [str(number) for number in SHUFFLED], key=int)
quantiles("quantiles_by_key_in_reverse", [str(number) for number in SHUFFLED], key=int, reverse=True)
quantiles("quantiles_by_weight", [(number, 1 if number < 10 else 1e-5) for number in SHUFFLED], weighted=True)
quantiles("quantiles_by_whole_weights", [(number, number % 4) for number in SHUFFLED], weighted=True)
quantiles("quantiles_by_no_weight", [(2, 0), (1, 0), (3, 0)], weighted=True)
quantiles("quantiles_by_weight_and_key", [(str(n), n % 3 + 1) for n in SHUFFLED], weighted=True, key=int)
quantiles("quantiles_by_weight_in_reverse", [(n, n % 3 + 1) for n in SHUFFLED], weighted=True, reverse=True)
quantiles("quantiles_of_batches", [SHUFFLED[at : at + 10] for at in range(0, 101, 10)], input_batched=True)
quantiles(
    "quantiles_of_batches_by_weight",
    [(SHUFFLED[at : at + 10], [1.5] * len(SHUFFLED[at : at + 10])) for at in range(0, 101, 10)],
    input_batched=True,
    weighted=True,
)


@program
def quantiles_per_key(beam, p):
    windowed = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(20))
    return windowed | beam.ApproximateQuantiles.PerKey(4) | beam.MapTuple(lambda key, its: (key, tuple(its)))


@program
def quantiles_per_key_by_weight(beam, p):
    weighed = timed(beam, p, TIMED) | beam.MapTuple(lambda key, value: (key, (value, value + 0.5)))
    lists = weighed | beam.ApproximateQuantiles.PerKey(4, key=operator.neg, weighted=True)
    return lists | "Tuple" >> beam.MapTuple(lambda key, its: (key, tuple(its)))


@program(masks=(ANEW,))
def quantiles_of_many(beam, p):
    def within(its):
        return [abs(value - 1000 * place) <= 1000 for place, value in enumerate(its)]

    scattered = p | beam.Create([(number * 1237) % 4001 for number in range(4001)])
    return scattered | beam.ApproximateQuantiles.Globally(5) | beam.Map(within)


@program(masks=(ANEW,))
def unique_of_few(beam, p):
    values = [1, 2, 1, 1.0, "1", ("a", 1), ("a", 1), None]
    created = p | beam.Create(values)
    return {
        "by size": created | "Size" >> beam.ApproximateUnique.Globally(size=16),
        "by error": created | "Error" >> beam.ApproximateUnique.Globally(error=0.3),
    }


@program(masks=(ANEW,))
def unique_of_none(beam, p):
    return p | beam.Create([]) | beam.ApproximateUnique.Globally(size=16)


@program
def unique_per_key(beam, p):
    windowed = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(20))
    return windowed | beam.transforms.stats.ApproximateUnique.PerKey(error=0.1)


@program(masks=(ANEW,))
def unique_of_many(beam, p):
    numbers = p | beam.Create([number % 1500 for number in range(4000)])
    return numbers | beam.ApproximateUnique.Globally(error=0.1) | beam.Map(lambda about: abs(about - 1500) < 450)
