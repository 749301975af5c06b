"""Metrics of Beam's classes: what user code reports comes back as Beam's own runner gives it, and exactly once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.metrics.cells import BoundedTrieData
from apache_beam.metrics.metric import Lineage, MetricsFilter
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.worker.statesampler import get_current_tracker
from apache_beam.utils.histogram import BucketType, LinearBucket
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.metric import TypedMetricName
from headrace.lowlevel.metric_cells import MOST_PATHS, BoundedTrieCell
from headrace.runners.beam import HeadraceRunner
from headrace.runners.beam.run.metrics import BeamMetricResults

KINDS = ["counters", "distributions", "gauges", "string_sets", "bounded_tries"]


class Reporting(beam.DoFn):
    """A DoFn that Beam's own `DoFnRunner` runs."""

    def __init__(self):
        self.counter = Metrics.counter("own", "counter")
        self.distribution = Metrics.distribution(self.__class__, "distribution")

    def start_bundle(self):
        Metrics.gauge("own", "started").set(7)

    def process(self, number, window=beam.DoFn.WindowParam):
        self.counter.inc()
        self.counter.inc(2)
        self.distribution.update(number)
        Metrics.string_set("own", "odd").add(str(number % 2))
        Metrics.bounded_trie("own", "trie").add(("numbers", str(number)))
        yield number


class Plain(beam.DoFn):
    """A DoFn that the engine's loop calls."""

    def process(self, number):
        Metrics.counter("own", "plain").inc(number)
        yield number % 2, number


def mapped(number):
    Metrics.counter("own", "mapped").inc()
    return number


class Last(beam.DoFn):
    """A stateful DoFn."""

    SUM = beam.transforms.userstate.CombiningValueStateSpec("sum", sum)

    def process(self, pair, total=beam.DoFn.StateParam(SUM)):
        Metrics.counter("own", "stateful").dec()
        total.add(pair[1])


def build(pipeline):
    numbers = pipeline | beam.Create(range(6)) | "Mapped" >> beam.Map(mapped) | "Reporting" >> beam.ParDo(Reporting())
    return numbers | "Plain" >> beam.ParDo(Plain()) | "Last" >> beam.ParDo(Last())


def reported(runner: object, wanted: MetricsFilter | None = None) -> dict[str, list[tuple[object, ...]]]:
    pipeline = beam.Pipeline(runner=runner)
    build(pipeline)
    result = pipeline.run()
    result.wait_until_finish()
    found = result.metrics().query(wanted)
    rows = {}
    for kind in KINDS:
        # The time of a gauge is that of the run.
        value = (lambda each: each.committed.value) if kind == "gauges" else (lambda each: each.committed)
        assert all(each.attempted == each.committed for each in found[kind])
        rows[kind] = sorted(
            ((each.key.step, each.key.metric.namespace, each.key.metric.name, value(each)) for each in found[kind]),
            key=lambda row: row[:3],
        )
    return rows


def test_as_beam(runner: HeadraceRunner) -> None:
    expected = reported(FnApiRunner())
    assert [len(expected[kind]) for kind in KINDS] == [4, 1, 1, 1, 1]
    assert reported(runner) == expected


def test_filters() -> None:
    wanted = MetricsFilter().with_step("Plain").with_namespace("own")
    assert reported(HeadraceRunner(), wanted)["counters"] == [("Plain", "own", "plain", 15)]


def test_the_engines_own_metrics_are_given_where_a_filter_names_them() -> None:
    with beam.Pipeline(runner=HeadraceRunner()) as pipeline:
        build(pipeline)
    metrics = pipeline.result.metrics()
    names = {each.key.metric.name for each in metrics.query(MetricsFilter().with_namespace("headrace"))["counters"]}
    assert "records_in" in names
    assert all(each.key.metric.namespace != "headrace" for each in metrics.query()["counters"])


class Measures(beam.DoFn):
    def __init__(self, buckets):
        self._histogram = Metrics.histogram("own", "sizes", buckets)

    def process(self, number):
        self._histogram.update(number)
        yield number


def test_histograms(runner: HeadraceRunner) -> None:
    with beam.Pipeline(runner=runner) as pipeline:
        _ = pipeline | beam.Create([-1, 0, 1, 5, 9, 10, 11]) | beam.ParDo(Measures(LinearBucket(0, 5, 2)))
    [found] = pipeline.result.metrics().query()["histograms"]
    histogram = found.committed.data.histogram
    assert (histogram.total_count(), histogram._num_bot_records, histogram._num_top_records) == (7, 1, 2)
    assert [histogram._buckets[position] for position in (0, 1)] == [2, 2]


class Primes(BucketType):
    """Buckets of the user's own."""


def test_histograms_with_buckets_of_the_users_own_are_refused() -> None:
    pipeline = beam.Pipeline(runner=HeadraceRunner())
    _ = pipeline | beam.Create([1]) | beam.ParDo(Measures(Primes()))
    with pytest.raises(TypeError, match="'sizes' has buckets of the class Primes, which the runner cannot add up"):
        pipeline.run()


def test_files_that_were_written_are_the_lineage(tmp_path: Path) -> None:
    def sinks(runner: object) -> set[str]:
        with beam.Pipeline(runner=runner) as pipeline:
            _ = pipeline | beam.Create(["to be"]) | beam.io.WriteToText(str(tmp_path / "out"))
        return Lineage.query(pipeline.result.metrics(), Lineage.SINK)

    expected = sinks(FnApiRunner())
    assert expected and sinks(HeadraceRunner()) == expected


class Fails(beam.DoFn):
    """Fails for the first time, which a file remembers."""

    def __init__(self, path: str):
        self._path = path

    def process(self, number):
        Metrics.counter("own", "attempts").inc()
        if number == 3 and not Path(self._path).exists():
            Path(self._path).touch()
            raise ValueError("once")
        yield number


def test_attempts_that_are_not_committed_count_nothing(tmp_path: Path) -> None:
    options = beam.options.pipeline_options.PipelineOptions([f"--checkpoint={tmp_path / 'checkpoint'}"])

    def run() -> Callable[..., object]:
        pipeline = beam.Pipeline(runner=HeadraceRunner(), options=options)
        _ = pipeline | beam.Create(range(6)) | beam.ParDo(Fails(str(tmp_path / "failed")))
        return pipeline.run()

    with pytest.raises(ValueError, match="once"):
        run()
    [found] = run().metrics().query()["counters"]
    assert found.committed == 6


def test_the_threads_of_the_program_keep_their_tracker() -> None:
    before = get_current_tracker()
    reported(HeadraceRunner())
    assert get_current_tracker() is before


def test_metrics_of_a_function_with_a_time_limit_come_from_its_thread() -> None:
    def slow(number):
        Metrics.counter("own", "slow").inc()
        return number

    with beam.Pipeline(runner=HeadraceRunner()) as pipeline:
        _ = pipeline | beam.Create(range(3)) | beam.Map(slow).with_exception_handling(timeout=60)
    assert [each.committed for each in pipeline.result.metrics().query()["counters"]] == [3]


def tries_agree(first: Sequence[Sequence[str]], second: Sequence[Sequence[str]]) -> bool:
    ours, theirs = [], []
    for paths in (first, second):
        cell, data = BoundedTrieCell(), BoundedTrieData(bound=MOST_PATHS)
        for path in paths:
            cell.update(path, 0)
            data.add(tuple(path))
        ours.append(cell)
        theirs.append(data)
    metric = TypedMetricName("bounded_trie", "own", "paths")
    [found] = BeamMetricResults({"Step": {metric: ours[0].plus(ours[1])}}).query()["bounded_tries"]
    return found.committed == theirs[0].combine(theirs[1])


PATHS = st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4))


@given(PATHS, PATHS)
def test_bounded_tries_as_beam(first: list[list[str]], second: list[list[str]]) -> None:
    assert tries_agree(first, second)


@pytest.mark.parametrize("count", [90, 400])
def test_bounded_tries_past_the_bound_as_beam(count: int) -> None:
    numbers = Random(count)
    first, second = ([[str(numbers.randrange(12)) for _ in range(3)] for _ in range(count)] for _ in range(2))
    assert tries_agree(first, second)
