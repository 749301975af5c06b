"""What: type hints that fit, and those that clash; the same ones at both packages.

Annotations are not put off to strings here, as Beam does not read those.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

from tests.parity.corpus import program
from tests.parity.programs.wrong import wrong

T = TypeVar("T")


def text(number: int) -> str:
    return str(number)


def length(word: str) -> int:
    return len(word)


def total(pair: tuple[str, Iterable[int]]) -> int:
    return sum(pair[1])


def total_of_list(pair: tuple[str, list[int]]) -> int:
    return sum(pair[1])


def letters(word: str) -> Iterable[str]:
    return list(word)


def doubled(value: T) -> tuple[T, T]:
    return value, value


def half(number: float) -> float:
    return number / 2


def maybe(number: int | None) -> int:
    return number or 0


def scaled(number: int, factor: int) -> int:
    return number * factor


def described(name: str, number: int) -> str:
    return f"{name}{number}"


def sum_of(numbers: Iterable[int]) -> int:
    return sum(numbers)


def size(values: list[int]) -> int:
    return len(values)


class Flight(NamedTuple):
    carrier: str
    delay: int


def delay(flight: Flight) -> int:
    return flight.delay


@program
def hints_that_fit_along_a_chain(beam, p):
    words = p | beam.Create([1, 22]) | beam.Map(text)
    return words | beam.FlatMap(letters) | beam.Map(length) | beam.Map(half) | "Text" >> beam.Map(str)


@program
def hints_of_groups(beam, p):
    pairs = p | beam.Create([("a", 1), ("a", 2), ("b", 3)])
    return {
        "sums": pairs | beam.GroupByKey() | beam.Map(total),
        "combined": pairs | beam.CombinePerKey(sum_of) | beam.Values() | beam.Map(text),
        "swapped": pairs | beam.KvSwap() | "Keys" >> beam.Keys() | "Text" >> beam.Map(text),
    }


@program
def hints_with_type_variables(beam, p):
    return p | beam.Create(["ab"]) | beam.Map(doubled) | beam.Keys() | beam.Map(length)


@program
def hints_with_optional_and_union(beam, p):
    mixed = p | beam.Create([1, None]) | beam.Map(maybe)
    return mixed | "Text" >> beam.Map(text)


@program
def hints_of_numbers_that_stand_for_others(beam, p):
    return p | beam.Create([True, False]) | beam.Map(text) | beam.Map(length) | beam.Map(half)


@program
def hints_of_empty_collections(beam, p):
    return {
        "no elements": p | "None" >> beam.Create([]) | beam.Map(length),
        "empty lists": p | "Lists" >> beam.Create([[], []]) | beam.Map(size),
    }


@program
def hints_of_a_do_fn(beam, p):
    class Letters(beam.DoFn):
        def process(self, word: str, times: int = 1) -> Iterable[str]:
            yield from word * times

    return p | beam.Create(["ab"]) | beam.ParDo(Letters(), 2) | beam.Map(length)


@program
def hints_by_decorators(beam, p):
    @beam.typehints.with_input_types(str)
    @beam.typehints.with_output_types(beam.typehints.KV[str, int])
    class Sized(beam.DoFn):
        def process(self, word):
            yield word, len(word)

    return p | beam.Create(["ab", "c"]) | beam.ParDo(Sized()) | beam.GroupByKey() | beam.Map(total)


@program
def hints_stated_by_the_transform_count_most(beam, p):
    anything = p | beam.Create([1]) | beam.Map(text).with_output_types(Any)
    return anything | beam.Map(length) | "Even so" >> beam.Map(maybe).with_input_types(float)


@program
def hints_of_a_composite(beam, p):
    class Text(beam.PTransform):
        def expand(self, numbers):
            return numbers | beam.Map(text)

    return p | beam.Create([12]) | Text().with_input_types(int).with_output_types(str) | beam.Map(length)


@program
def hints_of_tuples_over_parameters(beam, p):
    return p | beam.Create([("a", 1)]) | beam.MapTuple(described) | beam.Map(length)


@program
def hints_of_tagged_outputs(beam, p):
    def split(number):
        yield number if number % 2 == 0 else beam.pvalue.TaggedOutput("odd", str(number))

    outputs = p | beam.Create([1, 2]) | beam.FlatMap(split).with_output_types(int).with_outputs("odd", main="even")
    return {"odd": outputs.odd | beam.Map(length), "even": outputs.even | "Text" >> beam.Map(text)}


@program
def hints_of_named_tuples(beam, p):
    flights = p | beam.Create([("UA", 2)]) | beam.MapTuple(Flight).with_output_types(Flight)
    return flights | beam.Map(delay) | beam.Map(text)


@program(flags=("--no_pipeline_type_check",), alone=True)
def hints_that_clash_unchecked(beam, p):
    def shown(value: str) -> str:
        return repr(value)

    return p | beam.Create([1]) | beam.Map(shown)


@program(flags=("--runtime_type_check",), alone=True)
def hints_checked_at_run_time(beam, p):
    return p | beam.Create(["a"]) | beam.Map(length) | beam.Map(text)


CLASHES = {
    "map": lambda beam, p: p | beam.Create([1]) | beam.Map(length),
    "map_after_map": lambda beam, p: p | beam.Create(["a"]) | beam.Map(length) | "Again" >> beam.Map(length),
    "map_after_type": lambda beam, p: p | beam.Create([1]) | beam.Map(str) | beam.Map(text),
    "lists_of_groups": lambda beam, p: p | beam.Create([("a", 1)]) | beam.GroupByKey() | beam.Map(total_of_list),
    "mixed_values": lambda beam, p: p | beam.Create([1, "a"]) | beam.Map(text),
    "optional_values": lambda beam, p: p | beam.Create([1, None]) | beam.Map(text),
    "float_for_int": lambda beam, p: p | beam.Create([1.5]) | beam.Map(text),
    "inside_lists": lambda beam, p: p | beam.Create([[1, "a"]]) | beam.Map(size),
    "filter": lambda beam, p: p | beam.Create([1]) | beam.Filter(length),
    "after_filter": lambda beam, p: p | beam.Create([1]) | beam.Filter(lambda x: x > 0) | beam.Map(length),
    "flat_map_items": lambda beam, p: p | beam.Create(["a"]) | beam.FlatMap(letters) | beam.Map(text),
    "flat_map_of_no_iterable": lambda beam, p: p | beam.Create([1]) | beam.FlatMap(maybe),
    "argument": lambda beam, p: p | beam.Create([1]) | beam.Map(scaled, "x"),
    "flattened": lambda beam, p: (
        (p | "1" >> beam.Create([1]), p | "2" >> beam.Create(["a"])) | beam.Flatten() | beam.Map(text)
    ),
    "no_pairs": lambda beam, p: p | beam.Create([1]) | beam.GroupByKey(),
    "combined_values": lambda beam, p: p | beam.Create([("a", "b")]) | beam.CombinePerKey(sum_of),
    "values": lambda beam, p: p | beam.Create([("a", 1)]) | beam.Values() | beam.Map(length),
    "counted": lambda beam, p: p | beam.Create([1]) | beam.combiners.Count.Globally() | beam.Map(length),
    "stated_input": lambda beam, p: p | beam.Create(["a"]) | beam.Map(length).with_input_types(int),
}
for name, build in CLASHES.items():
    build.__name__ = f"hints_clash_{name}"
    wrong(Exception)(build)


@wrong(Exception, "C")
def hints_clash_composite_output(beam, p):
    class C(beam.PTransform):
        def expand(self, numbers):
            return numbers | beam.Map(text)

    return p | beam.Create([1]) | C().with_output_types(bytes)


@wrong(Exception, "C")
def hints_clash_composite_input(beam, p):
    class C(beam.PTransform):
        def expand(self, words):
            return words | beam.Map(length)

    return p | beam.Create([1]) | C().with_input_types(str)
