"""Keys, coders and rows of a program reach the workers and come back."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as beam
from headrace.coders import registry
from headrace.lowlevel import CallSink
from headrace.runners.spark import SparkRunner
from tests.unit.keytypes import ROW, Colour, Place, Point, PointCoder, Team

pytestmark = pytest.mark.spark


def test_keys_of_many_types(spark) -> None:
    keys = [Place("Rome", 1), ("Rome", 1), Colour.RED, Team("ajax"), ROW, Point(1, 2), frozenset({Point(3, 4)}), ["a"]]
    before, rows = dict(registry._registered), []
    registry.register_coder(Point, PointCoder)
    try:
        with beam.Pipeline(SparkRunner(spark, intervals=2)) as p:
            pairs = p | beam.Create([(key, 1) for key in keys] * 3).with_output_types(Any)
            summed = pairs | beam.CombinePerKey(sum)
            summed | "Keep" >> beam.io.Write(CallSink(lambda epoch, its: rows.extend(value for value, _ in its)))
    finally:
        registry._registered = before
    assert sorted(map(repr, rows)) == sorted(repr((key, 3)) for key in keys)
