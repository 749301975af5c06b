"""Type hints: what follows from them, what clashes while a pipeline is built, and what is checked while it runs."""

# ruff: noqa: UP007, UP045 - every way to write a type is tried

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NewType, Optional, Protocol, TypedDict, TypeVar, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as beam
from headrace.lowlevel import StepError
from headrace.options.pipeline_options import PipelineOptions
from headrace.sdk.model.special_outputs import TaggedOutput, TimestampedValue
from headrace.sdk.typehints.consistency import conforms, is_consistent_with, match, substituted, type_of
from headrace.sdk.typehints.hints import element, item, normal, pair, type_name, union
from headrace.typehints import KV, TypeCheckError, with_input_types, with_output_types
from headrace.typehints.row_type import RowTypeConstraint
from tests.unit.collected import values

T = TypeVar("T")
S = TypeVar("S")
UserId = NewType("UserId", int)


class Base: ...


class Derived(Base): ...


class Speaks(Protocol):
    def speak(self) -> str: ...


class Settings(TypedDict):
    name: str


class Flight(NamedTuple):
    carrier: str
    delay: int


@dataclass
class Person:
    name: str
    age: int


ROW = RowTypeConstraint.from_fields([("name", str), ("age", int)])
FITS = [
    (int, int),
    (bool, int),
    (int, float),
    (Any, str),
    (str, Any),
    (object, int),
    (T, int),
    (int, T),
    (Derived, Base),
    (int, Optional[int]),
    (None, Optional[int]),
    (Union[int, str], Union[str, int, None]),
    (list[int], Iterable[int]),
    (list[int], Sequence[int]),
    (list[bool], list[int]),
    (list, list[int]),
    (list[int], list),
    (list[Any], list[int]),
    (tuple[int, str], tuple[int, Any]),
    (tuple[int, int], tuple[int, ...]),
    (tuple[int, ...], tuple[int, int]),
    (tuple[int, int], Iterable[int]),
    (tuple, tuple[int, str]),
    (dict[str, int], Mapping[str, int]),
    (dict[str, int], Iterable[str]),
    (Generator[int, None, None], Iterable[int]),
    (Iterator[int], Iterable[int]),
    (str, Iterable[str]),
    (str, Sequence[str]),
    (KV[str, int], tuple[str, int]),
    (UserId, int),
    (int, UserId),
    (Literal[1, 2], int),
    (Settings, dict),
    (Flight, tuple[str, int]),
    (Flight, tuple),
    (Flight, ROW.from_fields([("carrier", str)])),
    (Person, ROW),
    (ROW, beam.Row),
    (beam.Row, ROW),
    (ROW, tuple[str, int]),
    (int, Speaks),
    (type(len), Callable[[int], int]),
    (type[int], type),
    (frozenset[int], frozenset[float]),
    (int, (int, str)[0]),
]
CLASHES = [
    (int, str),
    (float, int),
    (int, bool),
    (Base, Derived),
    (Optional[int], int),
    (Union[int, str], int),
    (int, None),
    (list[str], list[int]),
    (list[int], tuple[int, int]),
    (list[int], Iterable[str]),
    (Iterable[int], list[int]),
    (list[list[str]], list[list[int]]),
    (tuple[int, str], tuple[str, int]),
    (tuple[int], tuple[int, int]),
    (tuple[int, str], tuple[int, ...]),
    (tuple[str, ...], tuple[int, int]),
    (tuple[int, str], Iterable[int]),
    (dict[str, int], dict[str, str]),
    (dict[str, int], Mapping[int, int]),
    (dict[str, int], Iterable[int]),
    (Generator[int, None, None], Iterable[str]),
    (str, Iterable[int]),
    (KV[str, int], KV[str, str]),
    (Flight, tuple[str, str]),
    (Flight, ROW),
    (Person, ROW.from_fields([("name", int)])),
    (int, ROW),
    (ROW, int),
    (ROW, tuple[str, str]),
    (set[int], frozenset[int]),
    (Literal["a"], int),
    (int, Callable[[int], int]),
    (list[int], ROW),
]


@pytest.mark.parametrize(("given", "wanted"), FITS, ids=str)
def test_types_that_fit(given, wanted):
    assert is_consistent_with(given, wanted)


@pytest.mark.parametrize(("given", "wanted"), CLASHES, ids=str)
def test_types_that_clash(given, wanted):
    assert not is_consistent_with(given, wanted)


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
elements = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner, max_size=3)
        | st.builds(lambda a, b: beam.Row(a=a, b=b), inner, inner)
    ),
    max_leaves=8,
)


@given(elements, elements)
def test_values_are_of_their_own_type(one, other):
    kind = type_of(one)
    assert conforms(one, kind)
    assert is_consistent_with(kind, kind)
    assert conforms(one, union([kind, type_of(other)]))
    assert is_consistent_with(kind, union([kind, type_of(other)]))
    # A hint of rows may stand for named tuples, which a row itself is not.
    if is_consistent_with(type_of(other), kind) and "Row(" not in type_name(type_of(other)):
        assert conforms(other, kind)
    assert normal(normal(kind)) == normal(kind)


@pytest.mark.parametrize(
    ("value", "hint", "fits"),
    [
        (1, int, True),
        (True, int, True),
        (1, str, False),
        (1, float, True),
        ([1, "a"], list[int], False),
        ({"a": [1]}, dict[str, list[int]], True),
        ({"a": ["b"]}, dict[str, list[int]], False),
        ((1, "a"), tuple[int, str], True),
        ((1, "a", 2), tuple[int, str], False),
        ((1, 2, 3), tuple[int, ...], True),
        (iter([1, "a"]), Iterable[int], True),
        ("abc", Iterable[str], True),
        (beam.Row(name="a", age=1), ROW, True),
        (beam.Row(name="a", age="b"), ROW, False),
        (beam.Row(name="a"), ROW, False),
        (Person("a", 1), ROW, True),
        (None, Optional[int], True),
        (len, Callable[..., int], True),
    ],
)
def test_values_of_types(value, hint, fits):
    assert conforms(value, hint) == fits


def test_type_variables():
    assert match(tuple[T, list[S]], tuple[int, list[str]]) == {T: int, S: str}
    assert match(tuple[T, T], tuple[int, str]) == {T: Union[int, str]}
    assert match(Iterable[T], list[int]) == {T: int}
    assert match(T | None, int | None) == {T: int}
    assert match(T, Any) == {T: Any}
    assert substituted(dict[T, list[S]], {T: int}) == dict[int, list[Any]]
    assert substituted(T | str, {T: int}) == Union[int, str]


def test_parts_of_types():
    assert pair(KV[str, int]) == (str, int)
    assert pair(Any) == pair(tuple) == pair(list[int]) == (Any, Any)
    assert pair(int) is None and pair(tuple[int, int, int]) is None
    assert pair(Union[tuple[str, int], tuple[str, str]]) == (str, Union[int, str])
    assert item(list[int]) is int and item(dict[str, int]) is str and item(str) is str
    assert item(Optional[list[int]]) is int and item(int) is None and item(None) is Any
    assert element(TimestampedValue[int]) is int
    assert element(Union[int, TaggedOutput]) is int
    assert type_name(normal(Optional[dict[str, tuple[int, ...]]])) == "dict[str, tuple[int, ...]] | None"


def pipeline(*flags: str) -> beam.Pipeline:
    return beam.Pipeline("LocalRunner", options=PipelineOptions(list(flags)))


def length(word: str) -> int:
    return len(word)


def message(build: Callable[[beam.Pipeline], object]) -> str:
    with pytest.raises(TypeCheckError) as caught:
        build(pipeline())
    return str(caught.value)


def test_a_clash_names_both_types_and_both_steps():
    said = message(lambda p: p | "Numbers" >> beam.Create([1]) | "Lengths" >> beam.Map(length))
    assert said.startswith("step 'Lengths' takes str, but step 'Numbers' puts out int; change one of them, state")
    assert "--no_pipeline_type_check" in said
    said = message(lambda p: p | beam.Create([("a", 1)]) | "Group" >> beam.GroupByKey() | beam.MapTuple(pairs_of_lists))
    assert "step 'MapTuple(pairs_of_lists)' takes tuple[str, list[int]]" in said
    assert "step 'Group' puts out tuple[str, Iterable[int]]" in said
    said = message(lambda p: p | beam.Create([1]) | "Group" >> beam.GroupByKey())
    assert "step 'Group' takes tuple[K, V], but step 'Create' puts out int" in said
    said = message(lambda p: p | beam.Create([1]) | Lengths())
    assert "step 'Lengths' takes str, but step 'Create' puts out int" in said
    said = message(lambda p: p | beam.Create(["a"]) | Lengths().with_output_types(bytes))
    assert "step 'Lengths' is said to put out bytes, but step 'Lengths/Map(length)'" in said
    assert "which makes its output, puts out int" in said


def pairs_of_lists(key: str, numbers: list[int]) -> int:
    return len(numbers)


class Lengths(beam.PTransform):
    def expand(self, words: beam.PCollection[str]) -> beam.PCollection[int]:
        return words | beam.Map(length)


def test_arguments_are_checked_too():
    def scale(number: int, factor: float, *, name: str = "") -> float:
        return number * factor

    assert "its parameter 'factor' takes float, but it is given 'x', which is str" in message(
        lambda p: p | beam.Create([1]) | beam.Map(scale, "x")
    )
    assert "its parameter 'name' takes str, but it is given 1, which is int" in message(
        lambda p: p | beam.Create([1]) | beam.Map(scale, 2.0, name=1)
    )
    assert (pipeline() | beam.Create([1]) | beam.Map(scale, 2, name="a")).element_type is float


def test_a_result_that_is_no_iterable_of_outputs():
    assert "its function gives int, which is no iterable of outputs; return a list of them, or use Map" in message(
        lambda p: p | beam.Create(["a"]) | beam.FlatMap(length)
    )


def test_types_follow_through_steps():
    def pairs(value: T) -> Iterator[tuple[T, int]]:
        yield value, 1

    words = pipeline() | beam.Create(["a"])
    ones = words | beam.FlatMap(pairs)
    counted = ones | beam.CombinePerKey(sum)
    assert ones.element_type == counted.element_type == tuple[str, int]
    assert (ones | beam.GroupByKey()).element_type == tuple[str, Iterable[int]]
    assert (ones | beam.Values()).element_type is int
    assert (ones | beam.Keys()).element_type is str
    assert (ones | beam.KvSwap()).element_type == tuple[int, str]
    assert (ones | beam.combiners.Count.PerKey()).element_type == tuple[str, int]
    assert (ones | beam.combiners.ToList()).element_type == list[tuple[str, int]]
    assert (ones | "Max" >> beam.CombinePerKey(max)).element_type == tuple[str, int]
    assert (words | beam.Map(str.upper)).element_type is Any
    assert (words | "Len" >> beam.Map(len)).element_type is int
    assert (words | "Set" >> beam.Map(set)).element_type is set
    assert (words | beam.Filter(len)).element_type is str
    assert (words | beam.WindowInto(beam.window.FixedWindows(10))).element_type is str
    assert ((words, ones) | beam.Flatten()).element_type == Union[str, tuple[str, int]]
    joined = {"a": ones, "b": ones | beam.KvSwap("Swap")} | beam.CoGroupByKey()
    assert pair(joined.element_type)[0] == Union[str, int]
    assert ((ones, ones) | "Both" >> beam.CoGroupByKey()).element_type == tuple[
        str, tuple[Iterable[int], Iterable[int]]
    ]
    assert (words | Lengths()).element_type is int


def test_methods_partial_functions_and_callables_state_themselves_too():
    class Parser:
        def parse(self, line: str) -> list[int]:
            return [len(line)]

        def __call__(self, line: str) -> int:
            return len(line)

    lines = pipeline() | beam.Create(["a"])
    assert (lines | beam.Map(Parser().parse)).element_type == list[int]
    assert (lines | beam.FlatMap(Parser().parse)).element_type is int
    assert (lines | "Call" >> beam.Map(Parser())).element_type is int
    assert (lines | "Partial" >> beam.Map(functools.partial(Parser.parse, Parser()))).element_type == list[int]
    assert (lines | "Tuple" >> beam.Map(lambda line: Flight(line, 1)).with_output_types(Flight)).element_type is Flight


def test_what_cannot_be_resolved_says_nothing():
    def strange(word: NoSuchName) -> AnotherOne:  # noqa: F821  # names that nothing defines are what is tested
        return word

    assert (pipeline() | beam.Create([1]) | beam.Map(strange)).element_type is Any


def test_outputs_with_tags_have_types_of_their_own():
    outputs = pipeline() | beam.Create(["a"]) | beam.ParDo(Parse()).with_outputs("bad", "other", main="good")
    assert (outputs.good.element_type, outputs.bad.element_type, outputs.other.element_type) == (int, str, Any)


@beam.typehints.with_output_types(int, bad=str)
class Parse(beam.DoFn):
    def process(self, word):
        yield len(word)


def test_unchecked():
    numbers = pipeline("--no_pipeline_type_check") | beam.Create([1])
    assert (numbers | beam.Map(length)).element_type is int


def checked(step: beam.PTransform, data: Sequence[object]) -> list[object]:
    rows: list[object] = []
    from headrace.lowlevel import CallSink

    with pipeline("--runtime_type_check") as p:
        made = p | beam.Create(data).with_output_types(Any) | "Step" >> step
        made | beam.io.Write(CallSink(lambda epoch, its: rows.extend(value for value, _ in its)))
    return rows


class Repeat(beam.DoFn):
    def process(self, word: str, times: int = 2) -> Iterable[str]:
        yield from [word] * times if word != "x" else [1]


def test_elements_are_checked_while_a_pipeline_runs():
    assert checked(beam.Map(length), ["a"]) == [1]
    assert checked(beam.ParDo(Repeat(), times=1), ["a"]) == ["a"]
    assert checked(beam.MapTuple(lambda a, b: a), [(1, 2)]) == [1]
    assert checked(beam.Filter(length), ["a", ""]) == ["a"]
    for step, data, said in [
        (beam.Map(length), ["a", 1], "the step takes str, but came 1, which is int"),
        (beam.ParDo(Repeat()), ["a", "x"], "the step puts out str, but it put out 1, which is int"),
        (beam.MapTuple(pairs_of_lists), [("a", ["b"])], "takes tuple[str, list[int]], but came ('a', ['b'])"),
        (beam.Map(lambda n: str(n)).with_output_types(int), [1], "the step puts out int, but it put out '1'"),
        (beam.Filter(length), [["a"]], "the step takes str"),
    ]:
        with pytest.raises(StepError) as caught:
            checked(step, data)
        assert caught.value.step == "Step" and said in caught.value.cause


def test_without_the_option_nothing_is_checked_while_it_runs():
    assert values(lambda p: p | beam.Create([1, ["a"]]).with_output_types(Any) | beam.Map(returns_anything)) == [
        1,
        ["a"],
    ]


def test_a_result_that_is_no_iterable_is_told_alike_with_the_option_and_without():
    def told(*flags):
        with pytest.raises(StepError) as caught, pipeline(*flags) as p:
            p | beam.Create([1]) | "Step" >> beam.FlatMap(lambda number: number)
        return str(caught.value)

    assert told() == told("--runtime_type_check")
    assert "step 'Step' raised at 1" in told() and "returned a value of type int" in told() and "yield it" in told()


def test_a_combining_function_states_the_iterable_that_it_takes():
    @with_input_types(Iterable[int])
    @with_output_types(int)
    def total(numbers):
        return sum(numbers)

    assert values(lambda p: p | beam.Create([1, 2]) | beam.CombineGlobally(total)) == [3]
    assert beam.CombineGlobally(total).input_type() is int and beam.CombineGlobally(total).infer_output_type(int) is int
    with pytest.raises(TypeCheckError, match=r"takes int, but step 'Create' puts out str"):
        beam.Pipeline("LocalRunner") | beam.Create(["a"]) | beam.CombineGlobally(total)


def returns_anything(value: str) -> bytes:
    return value


def test_beams_names():
    for name in ("Any", "Collection", "Dict", "FrozenSet", "Generator", "Iterable", "Iterator", "KV", "List"):
        assert hasattr(beam.typehints, name)
    assert isinstance(beam.typehints.Dict[str, int], object) and normal(beam.typehints.Dict[str, int]) == dict[str, int]
    assert normal(beam.typehints.Tuple[int, ...]) == types.GenericAlias(tuple, (int, ...))
