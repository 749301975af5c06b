"""Approximate counts and quantiles: what is refused, what is not loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

import headrace as beam
from headrace.lowlevel import StepError
from headrace.transforms.stats import ApproximateQuantilesCombineFn
from tests.unit.collected import values


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either a size or an error, got size=None and error=None"),
        ({"size": 16, "error": 0.1}, "either a size or an error, got size=16 and error=0.1"),
        ({"size": 15}, "a size from 16 to"),
        ({"size": 1 << 27}, "a size from 16 to"),
        ({"size": 16.0}, "a size from 16 to .* got 16.0"),
        ({"error": 0.009}, "an error from 0.01 to 0.5, got 0.009"),
        ({"error": 0.51}, "an error from 0.01 to 0.5, got 0.51"),
    ],
)
def test_sizes_and_errors_that_do_not_fit(arguments, message):
    for transform in (beam.ApproximateUnique.Globally, beam.ApproximateUnique.PerKey):
        with pytest.raises(ValueError, match=message):
            transform(**arguments)


def test_values_that_cannot_be_told_apart():
    with pytest.raises(StepError, match=r"key <object object .*> of type object cannot be encoded"):
        values(lambda p: p | beam.Create([object()]) | beam.ApproximateUnique.Globally(size=16))


def test_quantiles_that_do_not_fit():
    with pytest.raises(ValueError, match="num_quantiles is 1; give 2"):
        beam.ApproximateQuantiles.Globally(1)
    with pytest.raises(ValueError, match="epsilon is 1; give a share"):
        ApproximateQuantilesCombineFn.create(5, epsilon=1)
    with pytest.raises(StepError, match=r"value 'a' has the weight -1; a weight must be 0 or more"):
        values(lambda p: p | beam.Create([("a", -1)]) | beam.ApproximateQuantiles.Globally(3, weighted=True))


def test_sketches_are_loaded_only_by_programs_that_use_them():
    code = "import sys, headrace; assert 'datasketches' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
