"""Types that are stated by decorators, methods and annotations, and how they are asked for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from typing import Any, Literal

import pytest

import headrace as beam
from headrace.pvalue import TaggedOutput
from headrace.typehints import TypeCheckError, with_input_types, with_output_types
from headrace.typehints.decorators import IOTypeHints, WithTypeHints, get_type_hints, no_annotations


class Plain(WithTypeHints):
    pass


@with_input_types(int, str)
@with_output_types(int, errors=str)
class Decorated(WithTypeHints):
    pass


class Computed(Decorated):
    def default_type_hints(self):
        return IOTypeHints(((float,), {}), None, [])


def test_an_object_states_types() -> None:
    assert Plain().get_type_hints() == IOTypeHints.empty()
    decorated = Decorated().get_type_hints()
    assert decorated.input_types == ((int, str), {})
    assert decorated.output_types == ((int,), {"errors": str})
    assert get_type_hints(Decorated) == decorated
    computed = Computed().get_type_hints()
    assert computed.input_types == ((float,), {})
    assert computed.output_types == ((int,), {"errors": str})


def test_what_an_instance_states_comes_first_and_stays_with_it() -> None:
    made = Computed().with_input_types(bytes, key=str).with_output_types(str)
    assert made.get_type_hints() == IOTypeHints(((bytes,), {"key": str}), ((str,), {}), [])
    assert Computed().get_type_hints().input_types == ((float,), {})
    assert get_type_hints(print) == IOTypeHints.empty()


def test_steps_tell_types() -> None:
    class Words(beam.DoFn):
        def process(self, line: str) -> Iterable[str | TaggedOutput[Literal["size"], int]]:
            yield line

    hints = beam.ParDo(Words()).get_type_hints()
    assert hints.input_types == ((str,), {})
    assert hints.tagged_output_types() == {"size": int}
    assert beam.Map(_length).get_type_hints().output_types == ((int,), {})
    assert beam.Map(_length).with_output_types(float).get_type_hints().simple_output_type("") is float
    assert beam.FlatMap(str.split).get_type_hints() == IOTypeHints.empty()

    class Composite(beam.PTransform):
        def expand(self, words: beam.PCollection[str]) -> beam.PCollection[int]:
            return words | beam.Map(_length)

    assert Composite().get_type_hints() == IOTypeHints(((str,), {}), ((int,), {}), [])
    assert Composite().with_input_types(bytes).get_type_hints().input_types == ((bytes,), {})


def _length(word: str) -> int:
    return len(word)


def test_annotations_of_functions() -> None:
    def scale(number: int, *factors: float, text, **more: str):
        return number

    assert IOTypeHints.from_callable(scale) == IOTypeHints(((int, float), {"text": Any, "more": str}), ((Any,), {}), [])
    assert IOTypeHints.from_callable(lambda number: number) is None
    assert IOTypeHints.from_callable(no_annotations(_untold)) is None
    assert not IOTypeHints.empty().has_simple_output_type()
    assert IOTypeHints.empty().with_output_types(int).has_simple_output_type()


def _untold(number: int) -> str:
    return number  # type: ignore[return-value]  # wrong on purpose


def test_types_that_a_do_fn_states_are_checked() -> None:
    class Anything(beam.DoFn):
        def process(self, element):
            yield element

    class Numbers(Anything):
        def default_type_hints(self):
            return IOTypeHints.empty().with_input_types(int).with_output_types(str)

    pipeline = beam.Pipeline("LocalRunner")
    words = pipeline | beam.Create(["a"])
    for wrong in (Anything().with_input_types(int), Numbers()):
        with pytest.raises(TypeCheckError, match="takes int"):
            words | type(wrong).__name__ >> beam.ParDo(wrong)
    numbers = pipeline | "One" >> beam.Create([1])
    assert (numbers | "Right" >> beam.ParDo(Numbers())).element_type is str

    class Sum(beam.CombineFn):
        def create_accumulator(self):
            return 0

        def add_input(self, accumulator, element):
            return accumulator + element

        def merge_accumulators(self, accumulators):
            return sum(accumulators)

        def extract_output(self, accumulator):
            return accumulator

    with pytest.raises(TypeCheckError, match="takes int"):
        words | "Sum" >> beam.CombineGlobally(Sum().with_input_types(int).with_output_types(int))


def test_no_annotations_are_not_checked() -> None:
    words = beam.Pipeline("LocalRunner") | beam.Create(["a"])
    assert (words | "Untold" >> beam.Map(no_annotations(_untold))).element_type is Any


def test_annotations_can_be_disabled() -> None:
    # In a process of its own, as there is no way back.
    code = """
import headrace as beam
from headrace.typehints.decorators import disable_type_annotations
def half(number: int) -> int: return number
words = beam.Pipeline("LocalRunner") | beam.Create(["a"])
disable_type_annotations()
print((words | beam.Map(half)).element_type)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "typing.Any\n"


@pytest.mark.parametrize("wrong", [int, (str, int), (Literal["a", "b"], int), (Literal[1], int), (Literal["a"],)])
def test_a_type_of_a_tagged_output_has_one_tag(wrong: Any) -> None:
    with pytest.raises(TypeError, match="the Literal of one tag and a type"):
        TaggedOutput[wrong]


def test_composites_with_a_dict_of_new_collections() -> None:
    words = beam.Pipeline("LocalRunner") | beam.Create(["a"])

    @with_output_types(bytes)
    class Both(beam.PTransform):
        def expand(self, words):
            return {"a": words | "A" >> beam.Map(_length), "b": words | "B" >> beam.Map(str)}

    both = words | Both()
    assert (both["a"].element_type, both["b"].element_type) == (int, str), "inner steps know better"
