"""What: combining values, of a key or of all."""

from __future__ import annotations

from functools import partial

from tests.parity.corpus import program, timed
from tests.parity.masks import DEFAULTS, Mask

RESULT_ANEW = Mask(DEFAULTS, ("timestamp", "timing"))
PAIRS = [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("a", 5), ("b", -6)]
TIMED = [(pair, 7 * place) for place, pair in enumerate(PAIRS)]


def average(beam):
    """A CombineFn with an accumulator, a result of another type, and `compact`."""

    class Average(beam.CombineFn):
        def create_accumulator(self):
            return (0, 0)

        def add_input(self, accumulator, element):
            return (accumulator[0] + element, accumulator[1] + 1)

        def merge_accumulators(self, accumulators):
            totals, counts = zip(*accumulators, strict=True)
            return (sum(totals), sum(counts))

        def compact(self, accumulator):
            return tuple(accumulator)

        def extract_output(self, accumulator):
            total, count = accumulator
            return ("average", total / count if count else None)

    return Average()


@program
def combine_with_built_in_functions(beam, p):
    pairs = p | beam.Create(PAIRS)
    return {function.__name__: pairs | beam.CombinePerKey(function) for function in (sum, min, max)}


@program
def combine_truth_values(beam, p):
    pairs = p | beam.Create([("t", True), ("t", True), ("f", False), ("m", True), ("m", False)])
    return {"any": pairs | beam.CombinePerKey(any), "all": pairs | beam.CombinePerKey(all)}


@program
def combine_floats(beam, p):
    pairs = p | beam.Create([("a", 0.5), ("a", 0.25), ("b", -1.5), ("b", 2)])
    return {function.__name__: pairs | beam.CombinePerKey(function) for function in (sum, min, max)}


@program
def combine_large_integers(beam, p):
    return (
        p | beam.Create([("a", 2**61), ("a", 2**61), ("a", 2**61), ("b", -(2**62)), ("b", 1)]) | beam.CombinePerKey(sum)
    )


@program
def combine_text(beam, p):
    pairs = p | beam.Create([("a", "x"), ("a", "yy"), ("b", "é")])
    return {function.__name__: pairs | beam.CombinePerKey(function) for function in (min, max)}


@program
def combine_with_a_function(beam, p):
    return p | beam.Create(PAIRS) | beam.CombinePerKey(lambda values: sum(values) % 1000)


@program
def combine_with_a_function_and_arguments(beam, p):
    def bounded(values, bound, low=0):
        return max(low, min(sum(values), bound))

    return p | beam.Create(PAIRS) | beam.CombinePerKey(bounded, 7, low=-3)


@program
def combine_with_a_combine_fn(beam, p):
    return p | beam.Create(PAIRS) | beam.CombinePerKey(average(beam))


@program
def combine_with_a_combine_fn_and_arguments(beam, p):
    class Scaled(beam.CombineFn):
        def create_accumulator(self, factor, plus=0):
            return plus

        def add_input(self, accumulator, element, factor, plus=0):
            return accumulator + element * factor

        def merge_accumulators(self, accumulators, factor, plus=0):
            return sum(accumulators)

        def extract_output(self, accumulator, factor, plus=0):
            return accumulator, factor, plus

    return p | beam.Create(PAIRS) | beam.CombinePerKey(Scaled(), 10, plus=0)


@program
def combine_with_set_up(beam, p):
    class Squares(beam.CombineFn):
        def setup(self):
            self.table = {number: number * number for number in range(-10, 10)}

        def create_accumulator(self):
            return 0

        def add_input(self, accumulator, element):
            return accumulator + self.table[element]

        def merge_accumulators(self, accumulators):
            return sum(accumulators)

        def extract_output(self, accumulator):
            return accumulator

        def teardown(self):
            del self.table

    return p | beam.Create(PAIRS) | beam.CombinePerKey(Squares())


@program
def combine_fn_of_a_callable(beam, p):
    return p | beam.Create(PAIRS) | beam.CombinePerKey(beam.CombineFn.from_callable(sum))


@program
def combine_with_combine_fns_that_are_there(beam, p):
    pairs, combiners = p | beam.Create(PAIRS), beam.combiners
    return {
        "mean": pairs | "Mean" >> beam.CombinePerKey(combiners.MeanCombineFn()),
        "count": pairs | "Count" >> beam.CombinePerKey(combiners.CountCombineFn()),
        "list": pairs | "List" >> beam.CombinePerKey(combiners.ToListCombineFn()),
        "top": pairs
        | "Top" >> beam.CombinePerKey(combiners.TopCombineFn(2))
        | beam.MapTuple(lambda k, v: (k, tuple(v))),
    }


@program
def combine_with_partials_and_methods(beam, p):
    class Bounded:
        def __init__(self, bound):
            self.bound = bound

        def total(self, values):
            return min(self.bound, sum(values))

    pairs = p | beam.Create([("a", 1), ("b", 2), ("b", 3)])
    return {
        "partial": pairs | "Partial" >> beam.CombinePerKey(partial(sum, start=0)),
        "method": pairs | "Method" >> beam.CombinePerKey(Bounded(3).total),
    }


@program
def combine_means_and_counts_per_key(beam, p):
    pairs = p | beam.Create(PAIRS)
    return {"mean": pairs | beam.combiners.Mean.PerKey(), "count": pairs | "Count" >> beam.combiners.Count.PerKey()}


@program(masks=(RESULT_ANEW,))
def combine_means_and_counts_globally(beam, p):
    numbers = p | beam.Create([1, 2, 3, 10])
    return {
        "mean": numbers | beam.combiners.Mean.Globally(),
        "count": numbers | "Count" >> beam.combiners.Count.Globally(),
        "each": numbers | beam.combiners.Count.PerElement(),
    }


@program
def combine_values_of_groups(beam, p):
    groups = p | beam.Create(PAIRS) | beam.GroupByKey()
    return {"sum": groups | beam.CombineValues(sum), "average": groups | "A" >> beam.CombineValues(average(beam))}


@program(masks=(RESULT_ANEW,))
def combine_top(beam, p):
    numbers, pairs = p | "N" >> beam.Create([5, 1, 9, 7]), p | "P" >> beam.Create(PAIRS)
    return {
        "largest": numbers | "Largest" >> beam.combiners.Top.Largest(2) | "L" >> beam.Map(tuple),
        "smallest": numbers | "Smallest" >> beam.combiners.Top.Smallest(2) | "S" >> beam.Map(tuple),
        "per key": pairs | beam.combiners.Top.PerKey(2) | "K" >> beam.MapTuple(lambda key, top: (key, tuple(top))),
        "by": numbers | "By" >> beam.combiners.Top.Of(2, key=lambda x: -x) | "B" >> beam.Map(tuple),
    }


@program(masks=(RESULT_ANEW,))
def combine_into_containers(beam, p):
    pairs = p | beam.Create([("a", 1), ("b", 2), ("c", 2)])
    return {
        "list": pairs | beam.combiners.ToList(),
        "dict": pairs | beam.combiners.ToDict(),
        "set": pairs | beam.Map(lambda pair: pair[1]) | beam.combiners.ToSet(),
    }


@program
def combine_tuples(beam, p):
    tuple_of = beam.combiners.TupleCombineFn(sum, max)
    same = beam.combiners.SingleInputTupleCombineFn(min, max, beam.combiners.MeanCombineFn())
    pairs = p | beam.Create([("a", (1, 5)), ("a", (2, 3)), ("b", (7, 7))])
    firsts = pairs | beam.MapTuple(lambda key, both: (key, both[0]))
    return {"each": pairs | beam.CombinePerKey(tuple_of), "same": firsts | "S" >> beam.CombinePerKey(same)}


@program(masks=(RESULT_ANEW,))
def combine_latest(beam, p):
    pairs = timed(beam, p, [(("a", 1), 5), (("a", 2), 9), (("a", 3), 7), (("b", 4), 0)])
    return {"key": pairs | beam.combiners.Latest.PerKey(), "all": pairs | beam.combiners.Latest.Globally()}


@program(masks=(RESULT_ANEW,))
def combine_globally(beam, p):
    numbers = p | beam.Create([3, 1, 2])
    return {
        "sum": numbers | beam.CombineGlobally(sum),
        "max": numbers | "M" >> beam.CombineGlobally(max),
        "average": numbers | "A" >> beam.CombineGlobally(average(beam)),
        "arguments": numbers | "G" >> beam.CombineGlobally(lambda values, high: min(high, sum(values)), 5),
    }


@program(masks=(RESULT_ANEW,))
def combine_nothing_globally(beam, p):
    nothing = p | beam.Create([]) | beam.Map(lambda x: x + 1)
    return {
        "sum": nothing | beam.CombineGlobally(sum),
        "average": nothing | "A" >> beam.CombineGlobally(average(beam)),
        "count": nothing | beam.combiners.Count.Globally(),
        "list": nothing | beam.combiners.ToList(),
        "without": nothing | "W" >> beam.CombineGlobally(sum).without_defaults(),
    }


@program(masks=(RESULT_ANEW,))
def combine_globally_with_timestamps(beam, p):
    numbers = timed(beam, p, [(number, number) for number in range(5)])
    return numbers | beam.CombineGlobally(sum)


@program
def combine_globally_in_fixed_windows(beam, p):
    numbers = timed(beam, p, [(number, number) for number in range(25)]) | beam.WindowInto(beam.window.FixedWindows(10))
    return {
        "sum": numbers | beam.CombineGlobally(sum).without_defaults(),
        "average": numbers | "A" >> beam.CombineGlobally(average(beam)).without_defaults(),
        "count": numbers | beam.CombineGlobally(beam.combiners.CountCombineFn()).without_defaults(),
    }


@program
def combine_per_key_in_fixed_windows(beam, p):
    pairs = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(20))
    return {
        "sum": pairs | beam.CombinePerKey(sum),
        "max": pairs | beam.CombinePerKey(max),
        "average": pairs | "A" >> beam.CombinePerKey(average(beam)),
        "mean": pairs | "M" >> beam.combiners.Mean.PerKey(),
        "count": pairs | "C" >> beam.combiners.Count.PerKey(),
    }


@program
def combine_per_key_in_sliding_windows(beam, p):
    pairs = timed(beam, p, TIMED) | beam.WindowInto(beam.window.SlidingWindows(20, 5))
    return {
        "sum": pairs | beam.CombinePerKey(sum),
        "average": pairs | "A" >> beam.CombinePerKey(average(beam)),
        "count": pairs | beam.combiners.Count.PerKey(),
    }


@program
def combine_per_key_in_sessions(beam, p):
    pairs = timed(beam, p, TIMED) | beam.WindowInto(beam.window.Sessions(15))
    return {
        "sum": pairs | beam.CombinePerKey(sum),
        "average": pairs | "A" >> beam.CombinePerKey(average(beam)),
        "any": pairs | beam.CombinePerKey(any),
    }


@program(masks=(RESULT_ANEW,))
def combine_by_a_callable_with_side_inputs(beam, p):
    combine = beam.CombineFn.from_callable(lambda values, factor: sum(values) + 0 * factor)
    side = beam.pvalue.AsSingleton(p | "Side" >> beam.Create([7]))
    numbers, pairs = p | beam.Create([1, 2, 3]), p | "Pairs" >> beam.Create([("a", 1), ("a", 2), ("b", 3)])
    return {
        "globally": numbers | "Globally" >> beam.CombineGlobally(combine, side),
        "plain": numbers | "Plain" >> beam.CombineGlobally(combine, 7),
        "per key": pairs | "PerKey" >> beam.CombinePerKey(combine, factor=side),
    }


@program(masks=(RESULT_ANEW,))
def combine_by_a_function_that_states_its_types(beam, p):
    typehints = beam.typehints

    @typehints.with_input_types(typehints.Iterable[int])
    @typehints.with_output_types(int)
    def total(values):
        return sum(values)

    numbers, pairs = p | beam.Create([1, 2, 3]), p | "Pairs" >> beam.Create([("a", 1), ("a", 2), ("b", 3)])
    return {"globally": numbers | beam.CombineGlobally(total), "per key": pairs | beam.CombinePerKey(total)}
