"""What: element by element. Creating, mapping, filtering, and all that a `DoFn` can ask for and put out."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tests.parity.corpus import program, timed

WORDS = ["to", "be", "or", "not", "to", "be"]
TIMED = [("a", 1), ("b", 9.5), ("c", 10), ("a", 12.25), ("d", 30)]


@program
def create_values_of_many_types(beam, p):
    values = [1, -1, 2**70, 1.5, "text", "é", b"bytes", None, True, (), (1, "x"), ("nested", (1, (2, None)))]
    return p | beam.Create(values)


@program
def create_lists_and_dicts(beam, p):
    return p | beam.Create([[1, 2], {"a": [1, {"b": None}]}, {1, 2}, []])


@program
def create_from_dict(beam, p):
    return p | beam.Create({"a": 1, "b": 2})


@program
def create_from_generator(beam, p):
    return p | beam.Create(number * number for number in range(20))


@program
def create_nothing(beam, p):
    return p | beam.Create([]) | beam.Map(lambda value: (value, 1))


@program
def create_without_reshuffle(beam, p):
    return p | beam.Create([1, 2, 3], reshuffle=False)


@program
def impulse(beam, p):
    return p | beam.Impulse() | beam.FlatMap(lambda nothing: [len(nothing), 1, 2])


@program
def map_with_arguments(beam, p):
    return p | beam.Create([1, 2, 3]) | beam.Map(lambda x, y, z=0: (x, y, z), 10, z=20)


@program
def map_built_in_functions(beam, p):
    words = p | beam.Create(WORDS)
    lengths = words | beam.Map(len)
    return {"len": lengths, "upper": words | beam.Map(str.upper), "pow": lengths | beam.Map(pow, 2)}


@program
def map_callables_of_every_kind(beam, p):
    class Adder:
        def __init__(self, plus):
            self.plus = plus

        def __call__(self, number):
            return number + self.plus

        def minus(self, number, times=1):
            return number - self.plus * times

        @staticmethod
        def double(number):
            return 2 * number

    numbers, adder = p | beam.Create([1, 2, 3]), Adder(10)
    return {
        "type": numbers | "Type" >> beam.Map(str),
        "object": numbers | "Object" >> beam.Map(adder),
        "method": numbers | "Method" >> beam.Map(adder.minus, times=2),
        "static": numbers | "Static" >> beam.Map(Adder.double),
        "partial": numbers | "Partial" >> beam.Map(partial(max, 2)),
        "keyword": numbers | "Keyword" >> beam.Map(lambda x, *, scale: x * scale, scale=3),
        "rest": numbers | "Rest" >> beam.Map(lambda *args, **kwargs: (args, sorted(kwargs.items())), 7, last=8),
    }


@program
def flat_map_callables_of_every_kind(beam, p):
    lines = p | beam.Create(["to be", "or not"])
    return {
        "split": lines | "Split" >> beam.FlatMap(str.split),
        "set": lines | "Set" >> beam.FlatMap(lambda line: set(line)),
        "filter": lines | "Known" >> beam.Filter({"to be"}.__contains__),
    }


@program
def map_with_type_hints(beam, p):
    def halve(number: int) -> float:
        return number / 2

    class Texts(beam.DoFn):
        def process(self, element: float) -> Iterable[str]:
            yield str(element)

    numbers = p | beam.Create([1, 2]) | beam.Map(lambda x: x + 1).with_output_types(int)
    return numbers | beam.Map(halve).with_input_types(int) | beam.ParDo(Texts())


@program
def map_to_none(beam, p):
    return p | beam.Create([1, 2]) | beam.Map(lambda x: None)


@program
def map_tuple(beam, p):
    return (
        p | beam.Create([(1, 2), (3, 4)]) | beam.MapTuple(lambda x, y, scale=1, plus=0: (x * scale, y + plus), plus=5)
    )


@program
def map_tuple_with_window(beam, p):
    pairs = timed(beam, p, [(("a", 1), 3), (("b", 2), 13)]) | beam.WindowInto(beam.window.FixedWindows(10))
    return pairs | beam.MapTuple(lambda key, number, window=beam.DoFn.WindowParam: (key, number, window))


@program
def flat_map_iterables(beam, p):
    numbers = p | beam.Create([0, 1, 3])
    return {
        "list": numbers | "List" >> beam.FlatMap(lambda x: [x] * x),
        "range": numbers | "Range" >> beam.FlatMap(lambda x: range(x)),
        "tuple": numbers | "Tuple" >> beam.FlatMap(lambda x: (x, x)),
        "dict": numbers | "Dict" >> beam.FlatMap(lambda x: {x: 1, -x: 2}),
        "generator": numbers | "Generator" >> beam.FlatMap(lambda x: (y * y for y in range(x))),
        "arguments": numbers | "Arguments" >> beam.FlatMap(lambda x, low, high=0: [low, x, high], 1, high=3),
    }


@program
def flat_map_by_itself(beam, p):
    return p | beam.Create([[1, 2], [], [3]]) | beam.FlatMap()


@program
def flat_map_tuple(beam, p):
    return p | beam.Create([("a", 2), ("b", 0)]) | beam.FlatMapTuple(lambda key, number: [key] * number)


@program
def filter_with_arguments(beam, p):
    numbers = p | beam.Create(range(10))
    return {
        "above": numbers | beam.Filter(lambda x, low, high=100: low < x < high, 3, high=8),
        "truthy": numbers | "T" >> beam.Filter(lambda x: x % 3),
        "none": numbers | "N" >> beam.Filter(lambda x: None),
    }


@program
def filter_on_timestamp_and_window(beam, p):
    values = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(10))
    return {
        "timestamp": values | "T" >> beam.Filter(lambda x, timestamp=beam.DoFn.TimestampParam: timestamp > 9),
        "window": values | "W" >> beam.Filter(lambda x, window=beam.DoFn.WindowParam: window.start >= 10),
    }


@program
def map_with_parameters(beam, p):
    values = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(10))
    return {
        "timestamp": values | "T" >> beam.Map(lambda x, timestamp=beam.DoFn.TimestampParam: (x, timestamp)),
        "window": values | "W" >> beam.Map(lambda x, window=beam.DoFn.WindowParam: (x, window, window.max_timestamp())),
        "pane": values | "P" >> beam.Map(lambda x, pane=beam.DoFn.PaneInfoParam: (x, pane)),
        "flat": values | "F" >> beam.FlatMap(lambda x, window=beam.DoFn.WindowParam: [x, window]),
    }


@program
def do_fn_with_every_parameter(beam, p):
    class Everything(beam.DoFn):
        def process(
            self,
            element,
            factor,
            timestamp=beam.DoFn.TimestampParam,
            window=beam.DoFn.WindowParam,
            pane=beam.DoFn.PaneInfoParam,
            plus=0,
        ):
            yield element * factor + plus, timestamp, window, pane

    return (
        timed(beam, p, [(1, 5), (2, 15)])
        | beam.WindowInto(beam.window.FixedWindows(10))
        | beam.ParDo(Everything(), 3, plus=1)
    )


@program
def do_fn_element_param(beam, p):
    class Swapped(beam.DoFn):
        def process(self, timestamp=beam.DoFn.TimestampParam, element=beam.DoFn.ElementParam):
            yield element, timestamp

    return timed(beam, p, TIMED) | beam.ParDo(Swapped())


@program
def do_fn_that_returns_lists_and_none(beam, p):
    class Odd(beam.DoFn):
        def process(self, element):
            if element % 2:
                return [element]
            return None

    return p | beam.Create(range(6)) | beam.ParDo(Odd())


@program
def par_do_of_a_function(beam, p):
    return (
        p | beam.Create(["a b", "c"]) | beam.ParDo(lambda line, prefix: [prefix + word for word in line.split()], "-")
    )


@program
def do_fn_with_fields_and_setup(beam, p):
    class Scale(beam.DoFn):
        def __init__(self, factor):
            self.factor = factor

        def setup(self):
            self.table = {number: number * self.factor for number in range(10)}

        def process(self, element):
            yield self.table[element]

    return p | beam.Create([1, 2, 3]) | beam.ParDo(Scale(7))


@program
def do_fn_start_and_finish_bundle(beam, p):
    class Sum(beam.DoFn):
        def start_bundle(self):
            self.total = 0

        def process(self, element):
            self.total += element

        def finish_bundle(self):
            window = beam.window.GlobalWindow()
            yield beam.transforms.window.WindowedValue(("sum", self.total), window.max_timestamp(), [window])

    # How elements are bundled is the runner's choice, the sum over all bundles is not.
    return p | beam.Create(range(50)) | beam.ParDo(Sum()) | beam.CombinePerKey(sum)


@program
def do_fn_finish_bundle_into_windows(beam, p):
    class PerWindow(beam.DoFn):
        def start_bundle(self):
            self.totals = {}

        def process(self, element, window=beam.DoFn.WindowParam):
            self.totals[window] = self.totals.get(window, 0) + element

        def finish_bundle(self):
            for window, total in self.totals.items():
                yield beam.transforms.window.WindowedValue(("sum", total), window.start, [window])

    numbers = timed(beam, p, [(number, number) for number in range(40)])
    return (
        numbers
        | beam.WindowInto(beam.window.SlidingWindows(20, 10))
        | beam.ParDo(PerWindow())
        | beam.CombinePerKey(sum)
    )


@program
def tagged_outputs(beam, p):
    def split(number):
        yield number
        yield beam.pvalue.TaggedOutput("odd" if number % 2 else "even", number * 10)

    main, odd, even = p | beam.Create(range(6)) | beam.FlatMap(split).with_outputs("odd", "even", main="all")
    return {"all": main, "odd": odd, "even": even}


@program
def tagged_outputs_by_name(beam, p):
    class Split(beam.DoFn):
        def process(self, number):
            yield beam.pvalue.TaggedOutput("low" if number < 3 else "high", number)

    outputs = p | beam.Create(range(6)) | beam.ParDo(Split()).with_outputs("low", "high")
    return {"low": outputs.low, "high": outputs["high"]}


@program
def tagged_outputs_of_unknown_tags(beam, p):
    split = beam.FlatMap(lambda number: [beam.pvalue.TaggedOutput(f"tag{number % 2}", number), number])
    outputs = p | beam.Create(range(6)) | split.with_outputs()
    return {"zero": outputs.tag0, "one": outputs.tag1, "main": outputs[None]}


@program
def tagged_outputs_nobody_reads(beam, p):
    split = beam.FlatMap(lambda number: [beam.pvalue.TaggedOutput("dropped", number), number + 1])
    return (p | beam.Create(range(3)) | split.with_outputs("dropped", main="kept")).kept


@program
def tagged_outputs_with_timestamps(beam, p):
    def split(number):
        yield beam.pvalue.TaggedOutput("timed", beam.window.TimestampedValue(number, number * 10))
        yield beam.window.TimestampedValue(number, number * 7)

    outputs = timed(beam, p, [(1, 1), (2, 2), (3, 3)]) | beam.WindowInto(beam.window.FixedWindows(10))
    outputs = outputs | beam.FlatMap(split).with_outputs("timed", main="main")
    return {"timed": outputs.timed, "main": outputs.main}


@program
def tagged_outputs_grouped_apart(beam, p):
    split = beam.MapTuple(lambda key, number: beam.pvalue.TaggedOutput("odd" if number % 2 else "even", (key, number)))
    outputs = p | beam.Create([("a", 1), ("a", 2), ("b", 3), ("a", 5)]) | split.with_outputs("odd", "even")
    return {"odd": outputs.odd | beam.CombinePerKey(sum), "even": outputs.even | "E" >> beam.CombinePerKey(sum)}


@program
def tuples_with_further_arguments_behind_those_of_the_engine(beam, p):
    pairs = timed(beam, p, [((1, 2), 5), ((3, 4), 15)]) | beam.WindowInto(beam.window.FixedWindows(10))
    side = beam.pvalue.AsList(timed(beam, p, [(7, 5)], "Side"))

    def told(a, b, time=beam.DoFn.TimestampParam, factor=1, window=beam.DoFn.WindowParam, more=()):
        return a, b, time.micros, factor, window.start.micros, tuple(more)

    return {
        "one": pairs | "One" >> beam.MapTuple(told, 5),
        "both": pairs | "Both" >> beam.MapTuple(told, 5, (6,)),
        "side": pairs | "Sided" >> beam.MapTuple(told, 5, side),
        "flat": pairs
        | "Flat" >> beam.FlatMapTuple(lambda a, b, time=beam.DoFn.TimestampParam, factor=1: [(a, factor)], 5),
    }


@program
def timestamped_values_of_a_stated_type(beam, p):
    return p | beam.Create(["a"]) | beam.Map(lambda value: beam.window.TimestampedValue[str](value, 5))
