"""Batches: how many elements, which windows, and what is learnt from time."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace.lowlevel import TopologyError
from headrace.sdk.transforms.util.batch_elements import BatchLimits, BatchSize
from headrace.testing.test_stream import TestStream as Stream
from headrace.transforms import trigger, window
from headrace.transforms.trigger import AccumulationMode
from tests.unit.collected import collect, values


def sizes(count, **options):
    return [len(batch) for batch in values(lambda p: p | beam.Create(range(count)) | beam.BatchElements(**options))]


def test_batches_are_full_but_for_the_last():
    assert sorted(sizes(20, min_batch_size=6, max_batch_size=6)) == [2, 6, 6, 6]


def test_batches_grow_while_nothing_is_known_of_their_time():
    assert sorted(sizes(40)) == [1, 2, 4, 8, 9, 16]
    assert max(sizes(500, clock=lambda: 0.0)) == 64


def test_a_batch_is_at_the_end_of_its_window():
    stamped = [window.TimestampedValue(number, number) for number in (1, 2, 11, 3)]

    def build(p):
        windowed = p | beam.Create(stamped) | beam.WindowInto(window.FixedWindows(10))
        return windowed | beam.BatchElements(3, 3) | beam.Map(lambda batch, w=beam.DoFn.WindowParam: (batch, w.end_us))

    assert sorted(collect(build)) == [(([1, 2, 3], 10_000_000), 9_999_999), (([11], 20_000_000), 19_999_999)]


def test_batches_of_too_many_windows_do_not_pile_up():
    stamped = [window.TimestampedValue(number, number) for number in range(50)]
    rows = values(
        lambda p: p | beam.Create(stamped) | beam.WindowInto(window.FixedWindows(1)) | beam.BatchElements(9, 9)
    )
    assert sorted(rows) == [[number] for number in range(50)]


def test_elements_count_for_their_size():
    rows = values(
        lambda p: p | beam.Create(["aaa", "b", "cc", "dddddd", "e"]) | beam.BatchElements(4, 4, element_size_fn=len)
    )
    assert sorted(map(tuple, rows)) == [("aaa", "b"), ("cc",), ("dddddd",), ("e",)]


def test_batches_across_bundles():
    stream = Stream().add_elements([1, 2]).add_elements([3, 4, 5]).add_elements([6]).advance_watermark_to_infinity()
    rows = values(lambda p: p | stream | beam.BatchElements(4, 4, max_batch_duration_secs=1000))
    assert sorted(map(sorted, rows)) == [[1, 2, 3, 4], [5, 6]]


def test_batches_that_have_waited_long_enough():
    stream = Stream().add_elements([1]).advance_processing_time(11).add_elements([2]).advance_watermark_to_infinity()
    rows = values(lambda p: p | stream | beam.BatchElements(4, 4, max_batch_duration_secs=10))
    assert sorted(rows) == [[1], [2]]


def test_batches_of_like_lengths():
    texts = ["a", "bb", "c" * 20, "d" * 30, "e"]
    stream = Stream().add_elements(texts).advance_watermark_to_infinity()
    options = {"max_batch_duration_secs": 10, "length_fn": len, "bucket_boundaries": [10]}
    rows = values(lambda p: p | stream | beam.BatchElements(9, 9, **options))
    assert sorted(map(len, rows)) == [2, 3]


def test_metrics_of_batches():
    with beam.Pipeline("LocalRunner") as pipeline:
        pipeline | beam.Create(range(20)) | beam.BatchElements(6, 6)
    named = beam.metrics.MetricsFilter().with_name("batch_size")
    (sizes,) = pipeline.result.metrics().query(named)["distributions"]
    assert (sizes.result.count, sizes.result.sum, sizes.result.max) == (4, 20, 6)


def test_retractions_are_refused():
    pipeline = beam.Pipeline("LocalRunner")
    early = trigger.AfterWatermark(early=trigger.AfterCount(1))
    mode = AccumulationMode.ACCUMULATING_AND_RETRACTING
    pairs = pipeline | beam.Create([("k", 1)]) | beam.WindowInto(window.FixedWindows(5), early, mode)
    pairs | beam.CombinePerKey(sum) | beam.BatchElements() | beam.Map(print)
    with pytest.raises(TopologyError, match="may have retractions"):
        pipeline.run()


def test_a_guard_does_not_hide_that_a_step_gathers():
    class Gather(beam.DoFn):
        def process(self, element):
            return []

        def finish_bundle(self):
            return []

    pipeline = beam.Pipeline("LocalRunner")
    early = trigger.AfterWatermark(early=trigger.AfterCount(1))
    mode = AccumulationMode.ACCUMULATING_AND_RETRACTING
    pairs = pipeline | beam.Create([("k", 1)]) | beam.WindowInto(window.FixedWindows(5), early, mode)
    good, _ = pairs | beam.CombinePerKey(sum) | beam.ParDo(Gather()).with_exception_handling()
    good | beam.Map(print)
    with pytest.raises(TopologyError, match="may have retractions"):
        pipeline.run()


class TestBatchSize:
    """A clock that says what a batch of a size takes: fixed + each * size."""

    def learnt(self, limits, fixed, each, rounds=60):
        now = 0.0
        size = BatchSize(limits, lambda: now)
        chosen = []
        for _ in range(rounds):
            chosen.append(size.next())
            size.begins(chosen[-1])
            now += fixed + each * chosen[-1]
        return chosen[rounds // 2 :]

    def test_overhead(self):
        # A twentieth of the time is fixed where elements take 19 times as long: 19 * 0.1 / 0.01.
        chosen = self.learnt(BatchLimits(duration=None, variance=0), 0.1, 0.01)
        assert all(abs(size - 190) <= 2 for size in chosen)

    def test_duration(self):
        assert all(
            abs(size - 100) <= 1 for size in self.learnt(BatchLimits(overhead=None, duration=1, variance=0), 5, 0.01)
        )

    def test_duration_in_all(self):
        limits = BatchLimits(overhead=None, duration=None, duration_in_all=2, variance=0)
        assert all(abs(size - 150) <= 1 for size in self.learnt(limits, 0.5, 0.01))

    def test_sizes_vary_around_the_best(self):
        chosen = self.learnt(BatchLimits(overhead=None, duration=1, variance=0.25), 5, 0.01, 200)
        assert 74 <= min(chosen) < 80
        assert 120 < max(chosen) <= 126

    def test_bounds(self):
        assert set(self.learnt(BatchLimits(3, 7, variance=0), 100, 1e-9)) == {7}
        assert set(self.learnt(BatchLimits(3, 7, overhead=None, duration=1e-3), 1, 10)) == {3}

    def test_nothing_is_learnt_from_the_time_between_bundles(self):
        size = BatchSize(BatchLimits(), lambda: 0.0)
        assert size.begins(3) is None
        size.ends()
        assert size.begins(3) is None
        assert size.begins(4) == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_batch_size": 9, "max_batch_size": 3}, "min_batch_size is 9 and max_batch_size 3"),
        ({"min_batch_size": 0}, "min_batch_size is 0"),
        ({"target_batch_overhead": 1.5}, "target_batch_overhead is 1.5; give a share"),
        ({"target_batch_duration_secs": 0}, "target_batch_duration_secs is 0; give more"),
        ({"target_batch_duration_secs_including_fixed_cost": -1}, "including_fixed_cost is -1"),
        ({"target_batch_overhead": None, "target_batch_duration_secs": None}, "give a target_batch_overhead"),
        ({"bucket_boundaries": [1]}, "without a length_fn"),
        ({"bucket_boundaries": [3, 1], "length_fn": len}, "give numbers above 0 in order"),
        ({"bucket_boundaries": [], "length_fn": len}, "give numbers above 0 in order"),
    ],
)
def test_what_does_not_fit_together(options, message):
    with pytest.raises(ValueError, match=message):
        beam.BatchElements(**options)
