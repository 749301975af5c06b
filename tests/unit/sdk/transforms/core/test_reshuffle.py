"""A shuffle in whole pipelines: everything of an element is kept, and it really goes elsewhere."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace.lowlevel import CallSink, StepError
from headrace.sdk.operators.grouping.reshuffle import Shuffle
from headrace.testing.test_stream import TestStream as Stream
from headrace.transforms import trigger, window
from headrace.transforms.trigger import AccumulationMode
from headrace.transforms.util import ReshufflePerKey
from tests.unit.collected import collect, values

SHUFFLES = [beam.Reshuffle, ReshufflePerKey, lambda: beam.Reshuffle(2)]


def retracting(p):
    """Panes, each taken back by the next."""
    stream = Stream().advance_watermark_to(0)
    for number in range(4):
        stream = stream.add_elements([window.TimestampedValue(("k", 1), 2 * number)])
    early = trigger.AfterWatermark(early=trigger.AfterCount(1))
    mode = AccumulationMode.ACCUMULATING_AND_RETRACTING
    windowed = p | stream.advance_watermark_to_infinity() | beam.WindowInto(window.FixedWindows(5), early, mode)
    return windowed | "Sum" >> beam.CombinePerKey(sum)


def seen(element, when=beam.DoFn.TimestampParam, where=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam):
    return element, when, where, pane


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_windows_timestamps_and_panes_are_kept(shuffle):
    kept = collect(lambda p: retracting(p) | shuffle() | beam.Map(seen))
    direct = collect(lambda p: retracting(p) | beam.Map(seen))
    assert sorted(kept, key=repr) == sorted(direct, key=repr)
    assert any(pane.is_retraction for (*_, pane), _ in kept)


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_retractions_are_taken_out_behind_it(shuffle):
    def total(p):
        return retracting(p) | shuffle() | beam.CombinePerKey(sum) | beam.Map(seen)

    def last(rows):
        return max((pane.index, element) for (element, _, _, pane), _ in rows if not pane.is_retraction)

    assert last(collect(total)) == last(collect(lambda p: retracting(p) | beam.CombinePerKey(sum) | beam.Map(seen)))


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_windows_that_a_step_chose_are_kept(shuffle):
    class Choose(beam.DoFn):
        def process(self, pair):
            yield pair
            yield window.WindowedValue(pair, 7, [window.IntervalWindow(100, 107)])

    def build(p):
        windowed = p | beam.Create([("k", 1)]) | beam.WindowInto(window.FixedWindows(5))
        return windowed | beam.ParDo(Choose()) | shuffle() | beam.Map(seen)

    windows = [str(where) for (_, _, where, _), _ in collect(build)]
    assert "[100.0, 107.0)" in windows
    assert len(windows) == 2


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_elements_go_through_a_keyed_computation_without_state(shuffle):
    pipeline = beam.Pipeline("LocalRunner")
    pipeline | beam.Create([("k", 1)]) | "shuffle" >> shuffle() | beam.Map(print)
    assert isinstance(pipeline.topology().keyed["shuffle"].computation, Shuffle)
    rows = values(lambda p: p | beam.Create([(str(n % 3), n) for n in range(100)]) | shuffle())
    assert sorted(rows) == sorted((str(n % 3), n) for n in range(100))


def test_elements_leave_in_the_epoch_in_which_they_came():
    stream = Stream().add_elements([1, 2]).add_elements([3]).advance_watermark_to_infinity()
    came: list[tuple[int, list[object]]] = []
    with beam.Pipeline("LocalRunner") as pipeline:
        sink = CallSink(lambda epoch, rows: came.append((epoch, sorted(value for value, _ in rows))))
        pipeline | stream | beam.Reshuffle() | beam.io.Write(sink)
    first, second = [(epoch, rows) for epoch, rows in came if rows]
    assert (first[1], second[1]) == ([1, 2], [3])
    assert second[0] == first[0] + 1


def test_what_is_no_pair_has_no_key():
    with pytest.raises(StepError, match=r"(?s)ReshufflePerKey.* takes pairs \(key, value\), got 3"):
        values(lambda p: p | beam.Create([3]) | ReshufflePerKey())
    with pytest.raises(TypeError, match="Reshuffle was applied to"):
        beam.Reshuffle().expand(3)


@pytest.mark.parametrize("buckets", [0, -1, 2.5, "3", True])
def test_buckets_that_are_no_number(buckets):
    with pytest.raises(ValueError, match="num_buckets must be a whole number greater than 0"):
        beam.Reshuffle(buckets)
