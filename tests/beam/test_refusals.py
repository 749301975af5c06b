"""What HeadraceRunner would run otherwise than Beam is refused with the step's name."""

from __future__ import annotations

from collections.abc import Callable

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms import trigger, window

from headrace.runners.beam import HeadraceRunner
from headrace.runners.beam.windowings import UntranslatableError


class Own(trigger.DefaultTrigger):
    """A trigger of a class that Beam does not have."""


class Ranges(beam.RestrictionProvider):
    def initial_restriction(self, element):
        return OffsetRange(0, 2)

    def create_tracker(self, restriction):
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element, restriction):
        return restriction.size()


class Defers(beam.DoFn):
    def process(self, element, tracker=beam.DoFn.RestrictionParam(Ranges())):
        if tracker.try_claim(0):
            yield element
        tracker.defer_remainder()


def own_trigger(pipeline):
    fired = beam.WindowInto(
        window.FixedWindows(5), trigger=Own(), accumulation_mode=trigger.AccumulationMode.DISCARDING
    )
    return pipeline | beam.Create([("a", 1)]) | "Fired" >> fired | beam.GroupByKey()


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (own_trigger, "is of the class Own, which no runner but Beam's in-process one knows"),
    ],
)
def test_before_anything_runs(build: Callable[[beam.Pipeline], object], text: str) -> None:
    pipeline = beam.Pipeline(runner=HeadraceRunner())
    build(pipeline)
    with pytest.raises(UntranslatableError, match=text):
        pipeline.run()


def test_the_rest_of_an_element_is_not_lost_in_silence() -> None:
    pipeline = beam.Pipeline(runner=HeadraceRunner())
    _ = pipeline | beam.Create([1]) | "Later" >> beam.ParDo(Defers())
    with pytest.raises(Exception, match="step 'Later' defers the rest of an element, which the runner cannot do"):
        pipeline.run()
