"""What HeadraceRunner would run otherwise than Beam is refused with the step's name."""

from __future__ import annotations

from collections.abc import Callable

import apache_beam as beam
import pytest
from apache_beam.transforms import trigger, window

from headrace.runners.beam import HeadraceRunner
from headrace.runners.beam.windowings import UntranslatableError


class Own(trigger.DefaultTrigger):
    """A trigger of a class that Beam does not have."""


def own_trigger(pipeline):
    fired = beam.WindowInto(
        window.FixedWindows(5), trigger=Own(), accumulation_mode=trigger.AccumulationMode.DISCARDING
    )
    return pipeline | beam.Create([("a", 1)]) | "Fired" >> fired | beam.GroupByKey()


def nothing_makes_it(pipeline):
    lost = pipeline | beam.Create([1])
    del pipeline.transforms_stack[0].parts[:]
    lost.producer.parent = lost.producer = None
    return lost | "Reader" >> beam.Map(str)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (nothing_makes_it, "step 'Reader' reads .*, which no step before it makes"),
        (own_trigger, "is of the class Own, which no runner but Beam's in-process one knows"),
    ],
)
def test_before_anything_runs(build: Callable[[beam.Pipeline], object], text: str) -> None:
    pipeline = beam.Pipeline(runner=HeadraceRunner())
    build(pipeline)
    with pytest.raises(UntranslatableError, match=text):
        pipeline.run()
