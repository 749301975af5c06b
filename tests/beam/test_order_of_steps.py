"""Steps that stand in Beam's tree before what they read, or inside of a step that is taken whole, as programs that copy
graphs leave them."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from headrace.runners.beam import HeadraceRunner


def reversed_tree(pipeline: beam.Pipeline) -> None:
    numbers, factor = pipeline | "Numbers" >> beam.Create([1, 2]), pipeline | "Factor" >> beam.Create([10])
    scaled = numbers | beam.Map(lambda number, by: number * by, beam.pvalue.AsSingleton(factor))
    pairs = {"scaled": scaled | beam.Map(lambda n: (n, 0)), "too": numbers | "Pair" >> beam.Map(lambda n: (n * 10, 1))}
    assert_that(pairs | beam.CoGroupByKey() | beam.Keys(), equal_to([10, 20]))
    pipeline.transforms_stack[0].parts[:] = reversed(pipeline.transforms_stack[0].parts)


def inside_of_create(pipeline: beam.Pipeline) -> None:
    numbers = pipeline | "Numbers" >> beam.Create([1, 2])
    [create] = pipeline.transforms_stack[0].parts
    pipeline.transforms_stack.append(create)
    inner = numbers | "Inner" >> beam.Map(lambda number: number * 100)
    pipeline.transforms_stack.pop()
    assert_that(inner, equal_to([100, 200]))


@pytest.mark.parametrize("build", [reversed_tree, inside_of_create])
def test_the_order_of_steps_does_not_matter(build) -> None:
    pipeline = beam.Pipeline(HeadraceRunner("LocalRunner"))
    build(pipeline)
    pipeline.run().wait_until_finish()
