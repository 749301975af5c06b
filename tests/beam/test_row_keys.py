"""Keys that are dataclasses or named tuples keep their class, also in workers, which know no schemas of the program."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import NamedTuple

import apache_beam as beam
import pytest
from apache_beam.coders.typecoders import registry
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY
from apache_beam.typehints.schemas import named_tuple_from_schema, schema_from_element_type

from headrace.runners.beam import HeadraceRunner
from headrace.runners.beam.run.task_context import pickled_row_types, register_row_types


def row_types() -> list[type]:
    """A class of each kind, that no module has."""

    @dataclass(frozen=True)
    class Team:
        number: int
        name: str

    class Place(NamedTuple):
        number: int
        name: str

    registry.register_row(Team)
    registry.register_row(Place)
    return [Team, Place]


@pytest.mark.parametrize("kind", row_types(), ids=["dataclass", "named tuple"])
def test_grouped_keys_have_the_class_of_the_program(kind: type, runner: HeadraceRunner) -> None:
    def pairs(value: int) -> list[tuple[object, int]]:
        return [(kind(number, "a"), value) for number in range(3)]

    with beam.Pipeline(runner=runner) as pipeline:
        grouped = (
            pipeline
            | beam.Create([1, 2])
            | beam.FlatMap(pairs).with_output_types(tuple[kind, int])
            | beam.GroupByKey()
            | beam.MapTuple(lambda key, values: (isinstance(key, kind), key.number, sorted(values)))
        )
        assert_that(grouped, equal_to([(True, number, [1, 2]) for number in range(3)]))


def test_a_class_that_cannot_be_sent_is_left_out() -> None:
    [kind, _] = row_types()
    kind.lock = threading.Lock()
    number = schema_from_element_type(kind).id
    assert number in SCHEMA_REGISTRY.by_id and number not in pickled_row_types()


def test_a_generated_class_gives_way() -> None:
    [kind, _] = row_types()
    schema = schema_from_element_type(kind)
    sent = pickled_row_types()
    del SCHEMA_REGISTRY.by_id[schema.id]
    generated = named_tuple_from_schema(schema)
    assert generated is not kind and schema.id not in pickled_row_types()
    register_row_types(sent)
    assert named_tuple_from_schema(schema) is kind
