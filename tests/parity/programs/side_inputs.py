"""What: side inputs of every kind, in the same and in other windows, and as arguments of every kind of step."""

from __future__ import annotations

from tests.parity.corpus import program, timed
from tests.parity.watching import stream, streaming


def numbers(beam, p, label="Numbers"):
    return p | label >> beam.Create([1, 2, 3])


def pairs(beam, p, label="Pairs"):
    return p | label >> beam.Create([("a", 1), ("b", 2), ("a", 4)])


def windowed(beam, p, label, values, window):
    return timed(beam, p, values, label) | f"{label}/Window" >> beam.WindowInto(window)


def in_order(values):
    return tuple(sorted(values))


@program
def side_list(beam, p):
    return (
        p
        | beam.Create(["x", "y"])
        | beam.Map(lambda value, side: (value, in_order(side)), beam.pvalue.AsList(numbers(beam, p)))
    )


@program
def side_iter(beam, p):
    side = beam.pvalue.AsIter(numbers(beam, p))
    return p | beam.Create(["x", "y"]) | beam.FlatMap(lambda value, side: [(value, n) for n in side], side)


@program
def side_iter_twice(beam, p):
    side = beam.pvalue.AsIter(numbers(beam, p))
    return p | beam.Create(["x"]) | beam.Map(lambda value, side: (value, sum(side), max(side)), side)


@program
def side_dict(beam, p):
    side = p | "Side" >> beam.Create([("x", 10), ("y", 20)])
    return p | beam.Create(["x", "y"]) | beam.Map(lambda key, side: (key, side[key]), beam.pvalue.AsDict(side))


@program
def side_dict_without_the_key(beam, p):
    side = beam.pvalue.AsDict(p | "Side" >> beam.Create([("x", 10)]))
    return p | beam.Create(["x", "y"]) | beam.Map(lambda key, side: (key, side.get(key)), side)


@program
def side_multimap(beam, p):
    side = beam.pvalue.AsMultiMap(pairs(beam, p))
    return p | beam.Create(["a", "b"]) | beam.Map(lambda key, side: (key, in_order(side[key])), side)


@program
def side_multimap_without_the_key(beam, p):
    side = beam.pvalue.AsMultiMap(pairs(beam, p))
    return p | beam.Create(["a", "z"]) | beam.Map(lambda key, side: (key, in_order(side[key])), side)


@program
def side_singleton(beam, p):
    side = beam.pvalue.AsSingleton(p | "Side" >> beam.Create([10]))
    return numbers(beam, p) | beam.Map(lambda number, side: number * side, side)


@program
def side_singleton_with_default(beam, p):
    full = beam.pvalue.AsSingleton(p | "Full" >> beam.Create([10]), default_value=-1)
    empty = beam.pvalue.AsSingleton(p | "Empty" >> beam.Create([]), default_value=-1)
    return numbers(beam, p) | beam.Map(lambda number, full, empty: (number, full, empty), full, empty)


@program
def side_singleton_of_none(beam, p):
    side = beam.pvalue.AsSingleton(p | "Side" >> beam.Create([None]), default_value=3)
    return numbers(beam, p) | beam.Map(lambda number, side: (number, side), side)


@program
def side_singleton_without_a_value(beam, p):
    side = beam.pvalue.AsSingleton(p | "Side" >> beam.Create([]))
    return numbers(beam, p) | beam.Map(lambda number, side: (number, type(side).__name__), side)


@program
def side_empty_collections(beam, p):
    def sizes(number, values, several, one):
        return number, list(values), several, dict(one)

    empty = p | "Empty" >> beam.Create([])
    sides = [beam.pvalue.AsIter(empty), beam.pvalue.AsList(empty), beam.pvalue.AsDict(empty)]
    return numbers(beam, p) | beam.Map(sizes, *sides)


@program
def side_inputs_by_name(beam, p):
    def process(value, *, low, factor=1, high):
        return value * factor, low, high

    low, high = p | "Low" >> beam.Create([1]), p | "High" >> beam.Create([9])
    return numbers(beam, p) | beam.Map(
        process, low=beam.pvalue.AsSingleton(low), factor=5, high=beam.pvalue.AsSingleton(high)
    )


@program
def side_inputs_beside_other_parameters(beam, p):
    class Process(beam.DoFn):
        def process(self, value, side, second, window=beam.DoFn.WindowParam, timestamp=beam.DoFn.TimestampParam):
            yield value, in_order(side), second, window, timestamp

    side = beam.pvalue.AsList(numbers(beam, p))
    return timed(beam, p, [("x", 1), ("y", 12)]) | beam.ParDo(Process(), side, "second")


@program
def side_input_of_itself(beam, p):
    values = numbers(beam, p)
    return values | beam.Map(lambda number, side: (number, in_order(side)), beam.pvalue.AsList(values))


@program
def side_input_of_two_steps(beam, p):
    side = numbers(beam, p)
    main = p | beam.Create([10, 20])
    return {
        "sum": main | "Sum" >> beam.Map(lambda value, side: value + sum(side), beam.pvalue.AsIter(side)),
        "all": main | "All" >> beam.FlatMap(lambda value, side: [value - n for n in side], beam.pvalue.AsList(side)),
    }


@program
def side_inputs_one_after_the_other(beam, p):
    side = numbers(beam, p)
    first = p | beam.Create([10]) | "First" >> beam.Map(lambda value, side: value + max(side), beam.pvalue.AsIter(side))
    return side | "Second" >> beam.Map(lambda value, side: value * side, beam.pvalue.AsSingleton(first))


@program
def side_input_of_map_tuple(beam, p):
    side = beam.pvalue.AsSingleton(p | "Side" >> beam.Create([100]))
    return pairs(beam, p) | beam.MapTuple(lambda key, number, side=None: (key, number * side), side)


@program
def side_input_of_flat_map_tuple(beam, p):
    side = beam.pvalue.AsDict(p | "Side" >> beam.Create([("a", 2), ("b", 1)]))
    return pairs(beam, p) | beam.FlatMapTuple(lambda key, number, side=None: [number] * side[key], side=side)


@program
def side_input_of_filter(beam, p):
    side = beam.pvalue.AsList(p | "Side" >> beam.Create([1, 3]))
    return numbers(beam, p) | beam.Filter(lambda number, wanted: number in wanted, side) | beam.Map(lambda x: -x)


@program
def side_input_of_a_step_with_outputs(beam, p):
    def split(number, limit):
        yield number if number < limit else beam.pvalue.TaggedOutput("large", number)

    limit = beam.pvalue.AsSingleton(p | "Limit" >> beam.Create([2]))
    outputs = numbers(beam, p) | beam.FlatMap(split, limit).with_outputs("large", main="small")
    return {"small": outputs.small, "large": outputs.large}


@program
def side_input_before_a_grouping(beam, p):
    side = beam.pvalue.AsDict(p | "Side" >> beam.Create([("a", "A"), ("b", "B")]))
    renamed = pairs(beam, p) | beam.MapTuple(lambda key, number, names=None: (names[key], number), side)
    return renamed | beam.CombinePerKey(sum)


@program
def side_input_from_a_grouping(beam, p):
    totals = pairs(beam, p) | "Totals" >> beam.CombinePerKey(sum)
    return pairs(beam, p, "Again") | beam.MapTuple(
        lambda key, number, totals=None: (key, number / totals[key]), beam.pvalue.AsDict(totals)
    )


@program
def side_input_for_elements_of_a_grouping(beam, p):
    side = beam.pvalue.AsSingleton(p | "Side" >> beam.Create([100]))
    return pairs(beam, p) | beam.GroupByKey() | beam.MapTuple(lambda key, its, side=None: (key, sum(its) + side), side)


@program
def side_singleton_view(beam, p):
    total = numbers(beam, p) | beam.CombineGlobally(sum).as_singleton_view()
    return numbers(beam, p, "Again") | beam.Map(lambda number, total: (number, total), total)


@program
def side_singleton_view_of_nothing(beam, p):
    total = p | "Nothing" >> beam.Create([]) | beam.CombineGlobally(sum).as_singleton_view()
    return numbers(beam, p) | beam.Map(lambda number, total: (number, total), total)


@program
def side_singleton_view_in_windows(beam, p):
    side = windowed(beam, p, "Side", [(1, 1), (2, 2), (4, 25)], beam.window.FixedWindows(10))
    total = side | beam.CombineGlobally(sum).as_singleton_view()
    main = windowed(beam, p, "Main", [("a", 3), ("b", 13), ("c", 23)], beam.window.FixedWindows(10))
    return main | beam.Map(lambda name, total: (name, total), total)


def scaled_sum(values, factor=1):
    return factor * sum(values)


def scaled_mean(beam):
    class ScaledMean(beam.CombineFn):
        def create_accumulator(self, factor):
            return 0, 0

        def add_input(self, accumulator, element, factor):
            return accumulator[0] + factor * element, accumulator[1] + 1

        def merge_accumulators(self, accumulators, factor):
            sums, counts = zip(*accumulators, strict=True)
            return sum(sums), sum(counts)

        def extract_output(self, accumulator, factor):
            return accumulator[0] / accumulator[1]

    return ScaledMean()


@program
def side_input_of_combine_per_key(beam, p):
    factor = beam.pvalue.AsSingleton(p | "Factor" >> beam.Create([10]))
    return pairs(beam, p) | beam.CombinePerKey(scaled_mean(beam), factor)


@program
def side_input_of_combine_globally(beam, p):
    factor = beam.pvalue.AsSingleton(p | "Factor" >> beam.Create([10]))
    return numbers(beam, p) | beam.CombineGlobally(scaled_mean(beam), factor).without_defaults()


@program
def side_input_of_combine_values(beam, p):
    factor = beam.pvalue.AsSingleton(p | "Factor" >> beam.Create([10]))
    return pairs(beam, p) | beam.GroupByKey() | beam.CombineValues(scaled_mean(beam), factor)


@program
def side_same_windows(beam, p):
    side = windowed(beam, p, "Side", [(1, 1), (2, 4), (4, 12)], beam.window.FixedWindows(10))
    main = windowed(beam, p, "Main", [("a", 2), ("b", 9), ("c", 14), ("d", 25)], beam.window.FixedWindows(10))
    return main | beam.Map(lambda name, side: (name, in_order(side)), beam.pvalue.AsList(side))


@program
def side_larger_windows(beam, p):
    side = windowed(beam, p, "Side", [(1, 1), (2, 34), (4, 61)], beam.window.FixedWindows(60))
    main = windowed(beam, p, "Main", [("a", 2), ("b", 59), ("c", 64), ("d", 125)], beam.window.FixedWindows(10))
    return main | beam.Map(lambda name, side: (name, in_order(side)), beam.pvalue.AsList(side))


@program
def side_smaller_windows(beam, p):
    side = windowed(beam, p, "Side", [(1, 1), (2, 52), (4, 61)], beam.window.FixedWindows(10))
    main = windowed(beam, p, "Main", [("a", 2), ("b", 59), ("c", 64)], beam.window.FixedWindows(60))
    return main | beam.Map(lambda name, side: (name, in_order(side)), beam.pvalue.AsList(side))


@program
def side_global_for_windowed_elements(beam, p):
    main = windowed(beam, p, "Main", [("a", 2), ("b", 59)], beam.window.FixedWindows(10))
    return main | beam.Map(lambda name, side: (name, in_order(side)), beam.pvalue.AsList(numbers(beam, p)))


@program
def side_sliding_main(beam, p):
    side = windowed(beam, p, "Side", [(1, 1), (2, 11), (4, 22)], beam.window.FixedWindows(10))
    main = windowed(beam, p, "Main", [("a", 2), ("b", 19)], beam.window.SlidingWindows(20, 10))
    return main | beam.Map(lambda name, side: (name, in_order(side)), beam.pvalue.AsList(side))


@program
def side_sliding_main_with_a_global_side(beam, p):
    main = windowed(beam, p, "Main", [("a", 2), ("b", 19)], beam.window.SlidingWindows(20, 10))
    mapped = main | beam.Map(lambda name, side: (name, in_order(side)), beam.pvalue.AsList(numbers(beam, p)))
    return mapped | beam.combiners.Count.PerElement()


@program
def side_sliding_side(beam, p):
    side = windowed(beam, p, "Side", [(1, 1), (2, 11), (4, 22)], beam.window.SlidingWindows(20, 10))
    main = windowed(beam, p, "Main", [("a", 2), ("b", 19)], beam.window.FixedWindows(10))
    return main | beam.Map(lambda name, side: (name, in_order(side)), beam.pvalue.AsList(side))


@program
def side_sessions_main(beam, p):
    side = windowed(beam, p, "Side", [(1, 1), (2, 11), (4, 22)], beam.window.FixedWindows(10))
    main = windowed(beam, p, "Main", [(("a", 1), 2), (("a", 2), 6), (("b", 3), 19)], beam.window.Sessions(5))
    grouped = main | beam.GroupByKey()
    return grouped | beam.MapTuple(
        lambda key, its, side=None: (key, in_order(its), in_order(side)), beam.pvalue.AsList(side)
    )


@program
def side_two_in_different_windows(beam, p):
    tens = windowed(beam, p, "Tens", [(1, 1), (2, 11), (4, 22)], beam.window.FixedWindows(10))
    fifties = windowed(beam, p, "Fifties", [(8, 1), (16, 51), (32, 52)], beam.window.FixedWindows(50))
    main = windowed(beam, p, "Main", [("a", 2), ("b", 19), ("c", 55)], beam.window.FixedWindows(10))
    return main | beam.Map(
        lambda name, tens, fifties: (name, in_order(tens), in_order(fifties)),
        beam.pvalue.AsList(tens),
        fifties=beam.pvalue.AsIter(fifties),
    )


def two_kinds(beam, p, *script, window=None):
    """Elements of a stream that are strings, and those that are numbers."""
    both = stream(beam, p, *script) | beam.WindowInto(window or beam.window.FixedWindows(10))
    return (
        both | "Names" >> beam.Filter(lambda value: isinstance(value, str)),
        both | "Numbers" >> beam.Filter(lambda value: isinstance(value, int)),
    )


@streaming
def stream_side_that_comes_later(beam, p):
    main, side = two_kinds(beam, p, 0, [("a", 1)], [("b", 2), (1, 3)], 10, [("c", 14), (2, 14)], 20, [("d", 21)], 40)
    return main | beam.Map(lambda name, side: (name, in_order(side)), beam.pvalue.AsList(side))


@streaming
def stream_side_with_and_before_elements(beam, p):
    main, side = two_kinds(beam, p, 0, [("a", 2), (1, 3)], 9, [("b", 9), (2, 14)], 10, [("c", 11)], 40)
    return main | beam.Map(lambda name, side: (name, in_order(side)), beam.pvalue.AsList(side))


@streaming
def stream_side_singleton_with_default(beam, p):
    main, side = two_kinds(beam, p, 0, [("a", 3), (1, 4)], [("b", 14)], 20, [("c", 25), (2, 25)], 40)
    return main | beam.Map(lambda name, side: (name, side), beam.pvalue.AsSingleton(side, -1))


@streaming
def stream_side_total_of_each_window(beam, p):
    main, side = two_kinds(beam, p, 0, [("a", 3), (1, 4), (2, 5)], 10, [("b", 14), (8, 15)], 40)
    total = side | beam.CombineGlobally(sum).as_singleton_view()
    return main | beam.Map(lambda name, total: (name, total), total)


@streaming
def stream_side_before_a_grouping(beam, p):
    main, side = two_kinds(beam, p, 0, [("a", 3), ("b", 3), (1, 4)], [("a", 5)], 10, [("a", 14), (8, 15)], 20)
    keyed = main | beam.Map(lambda name, side: (name, sum(side)), beam.pvalue.AsList(side))
    return keyed | beam.CombinePerKey(sum)


@streaming
def stream_bounded_side(beam, p):
    side = beam.pvalue.AsDict(p | "Side" >> beam.Create([("a", 1), ("b", 2)]))
    main = stream(beam, p, 0, [("a", 3)], 10, [("b", 14)], 20) | beam.WindowInto(beam.window.FixedWindows(10))
    return main | beam.Map(lambda name, side: (name, side[name]), side)
