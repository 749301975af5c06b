"""What a DoFn of Beam's may do, and how mistakes in one are answered: as with Beam's own runner."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.worker.operations import InefficientExecutionWarning
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import userstate, window
from apache_beam.typehints import TypeCheckError
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from headrace.runners.beam import HeadraceRunner


class Halved(beam.DoFn):
    """Takes and gives batches, and is told their window."""

    def process_batch(self, batch, at=beam.DoFn.WindowParam):
        yield batch // 2 + int(at.max_timestamp().micros < 10_000_000)

    def infer_output_type(self, input_type):
        return input_type


class Lists(beam.DoFn):
    """Takes batches that are lists, and gives elements."""

    @beam.DoFn.yields_elements
    def process_batch(self, batch):
        yield sum(batch)


class Repeated(beam.DoFn):
    """Takes elements and gives batches."""

    @beam.DoFn.yields_batches
    def process(self, number):
        yield np.full(number, number)

    def infer_output_type(self, input_type):
        return input_type


# Beam does not understand annotations that are text, as they are in this module.
Halved.process_batch.__annotations__.update({"batch": np.ndarray, "return": Iterator[np.ndarray]})
Lists.process_batch.__annotations__.update({"batch": list[np.int64], "return": Iterator[np.int64]})
Repeated.process.__annotations__.update({"number": np.int64, "return": Iterator[np.ndarray]})


def numbers(pipeline, count=4):
    return pipeline | beam.Create(range(count)) | beam.Map(np.int64).with_output_types(np.int64)


def test_batches_have_one_window_each() -> None:
    with beam.Pipeline(runner=HeadraceRunner()) as pipeline:
        timed = numbers(pipeline) | "Time" >> beam.Map(
            lambda number: window.TimestampedValue(number, 4 * int(number))
        ).with_output_types(np.int64)
        halves = timed | beam.WindowInto(window.FixedWindows(10)) | beam.ParDo(Halved())
        assert_that(halves, equal_to([1, 1, 2, 1]))


def test_more_elements_than_a_batch_has() -> None:
    with beam.Pipeline(runner=HeadraceRunner()) as pipeline:
        sums = numbers(pipeline, 10_000) | beam.ParDo(Lists()) | beam.CombineGlobally(sum)
        assert_that(sums, equal_to([sum(range(10_000))]))


def test_batches_of_another_type() -> None:
    with (
        pytest.warns(InefficientExecutionWarning, match=r"(?s)Lists.*NumpyArray.*List"),
        beam.Pipeline(runner=HeadraceRunner()) as pipeline,
    ):
        repeated = numbers(pipeline) | beam.ParDo(Repeated())
        sums = repeated | beam.ParDo(Lists()) | beam.CombineGlobally(sum)
        assert_that(repeated, equal_to([1, 2, 2, 3, 3, 3]), label="Repeated")
        assert_that(sums, equal_to([14]), label="Sums")


class Undeclared(beam.DoFn):
    def process(self, number, at=beam.DoFn.WindowedValueParam):
        yield beam.pvalue.TaggedOutput("nobody", number)
        yield number


def test_outputs_that_nothing_reads_are_dropped() -> None:
    with beam.Pipeline(runner=HeadraceRunner()) as pipeline:
        assert_that(pipeline | beam.Create([1, 2]) | beam.ParDo(Undeclared()), equal_to([1, 2]))


class Text(beam.DoFn):
    def process(self, number):
        return "text"


class Early(beam.DoFn):
    def start_bundle(self):
        return ["early"]

    def process(self, number):
        yield number


@pytest.mark.parametrize(
    ("step", "kind", "text"),
    [
        (lambda: beam.ParDo(Text()), TypeError, "Returning a str from a ParDo or FlatMap is not allowed"),
        (lambda: beam.ParDo(Early()), RuntimeError, "Start Bundle should not output any elements"),
        (lambda: beam.FlatMap(lambda number: number), TypeError, "'int' object is not iterable"),
        (lambda: beam.MapTuple(lambda left, right: left), TypeError, "after \\*"),
        (lambda: beam.Map(lambda number: [][number]), IndexError, "list index out of range"),
    ],
)
def test_mistakes_are_of_the_class_that_beam_raises(
    step: Callable[[], beam.PTransform], kind: type[Exception], text: str
) -> None:
    pipeline = beam.Pipeline(runner=HeadraceRunner())
    _ = pipeline | beam.Create([1]) | "Wrong" >> step()
    with pytest.raises(kind, match=rf"{text}.*\[while running 'Wrong'\]"):
        pipeline.run()


def test_types_that_are_checked_while_it_runs() -> None:
    options = PipelineOptions(performance_runtime_type_check=True)
    pipeline = beam.Pipeline(runner=HeadraceRunner(), options=options)
    _ = pipeline | beam.Create([1]) | beam.Map(lambda number: str(number)).with_output_types(int)
    with pytest.raises(TypeCheckError, match="Runtime type violation detected"):
        pipeline.run()


def test_values_with_windows_of_their_own() -> None:
    value = WindowedValue("a", Timestamp(3), [window.IntervalWindow(0, 5)])
    with beam.Pipeline(runner=HeadraceRunner()) as pipeline:
        created = pipeline | beam.Create([value, "b"])
        told = created | beam.Map(lambda value, at=beam.DoFn.WindowParam: (value, str(at)))
        assert_that(told, equal_to([("a", "[0.0, 5.0)"), ("b", "GlobalWindow")]))


class Point:
    """A key of a class that has a coder."""

    def __init__(self, x):
        self.x = x


class PointCoder(beam.coders.Coder):
    def encode(self, value):
        return str(value.x).encode()

    def decode(self, encoded):
        return Point(int(encoded))

    def is_deterministic(self):
        return True


class Counted(beam.DoFn):
    COUNT = userstate.CombiningValueStateSpec("count", sum)

    def process(self, pair, count=beam.DoFn.StateParam(COUNT)):
        count.add(1)
        yield pair[0].x, count.read()


def test_keys_of_stateful_steps_are_equal_if_their_coder_says_so() -> None:
    beam.coders.registry.register_coder(Point, PointCoder)
    with beam.Pipeline(runner=HeadraceRunner()) as pipeline:
        pairs = pipeline | beam.Create([1, 2, 1])
        keyed = pairs | beam.Map(lambda x: (Point(x), x)).with_output_types(tuple[Point, int])
        assert_that(keyed | beam.ParDo(Counted()), equal_to([(1, 1), (1, 2), (2, 1)]))
