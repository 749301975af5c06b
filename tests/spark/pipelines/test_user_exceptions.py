"""What a step raises in a worker of Spark is raised in the driver as the class that it is of."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace.lowlevel import StepError
from headrace.runners.spark import SparkRunner
from tests.unit.lowlevel.test_user_exceptions import Odd

pytestmark = pytest.mark.spark


def test_a_class_of_a_module_and_one_that_only_the_program_has(spark) -> None:
    class Within(LookupError):
        """Known to the worker only as the driver has sent it."""

    for kind, made in ((Odd, lambda: Odd(5, "that")), (Within, lambda: Within("there"))):

        def fail(element, made=made):
            raise made()

        with pytest.raises(kind) as told, beam.Pipeline(SparkRunner(spark, intervals=2)) as pipeline:
            pipeline | beam.Create([("red", 5)]) | "Divide" >> beam.Map(fail)
        error = told.value
        assert isinstance(error, StepError) and type(error.__cause__) is kind
        assert str(error).startswith("step 'Divide' raised at ('red', 5); nothing of this epoch is committed\n")
