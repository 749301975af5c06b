"""Fan-out of hot keys in whole pipelines: same panes, and only where it can be the same."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace.sdk.operators.combining.hot_key_fanout import Shards
from headrace.testing.test_stream import TestStream as Stream
from headrace.transforms import trigger, window
from headrace.transforms.trigger import AccumulationMode
from tests.unit.collected import collect

EARLY = trigger.AfterWatermark(early=trigger.AfterCount(3), late=trigger.AfterCount(1))
STAMPED = window.TimestampCombiner.OUTPUT_AT_EARLIEST


def events(p):
    stream = Stream().advance_watermark_to(0)
    for begin, watermark in ((0, 8), (7, 15), (31, 39), (12, 60)):
        pairs = [("hot", begin + number) for number in range(6)] + [(("cold", 1), begin)]
        stream = stream.add_elements([window.TimestampedValue(pair, begin + at) for at, pair in enumerate(pairs)])
        stream = stream.advance_watermark_to(watermark)
    return p | stream.advance_watermark_to_infinity()


def panes(fanout, windowing):
    def seen(result, where=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam):
        return result, where, pane

    def build(p):
        return events(p) | windowing() | beam.CombinePerKey(sum).with_hot_key_fanout(fanout) | beam.Map(seen)

    return sorted(collect(build), key=repr)


@pytest.mark.parametrize("fanout", [2, 7, lambda key: 3 if key == "hot" else 1])
@pytest.mark.parametrize("mode", [AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING_AND_RETRACTING])
@pytest.mark.parametrize("window_fn", [window.Sessions(4), window.FixedWindows(10), window.SlidingWindows(10, 4)])
@pytest.mark.parametrize("stamps", [None, STAMPED])
def test_the_same_panes_at_the_same_times(window_fn, mode, stamps, fanout):
    def windowing():
        return beam.WindowInto(
            window_fn, EARLY, accumulation_mode=mode, timestamp_combiner=stamps, allowed_lateness=100
        )

    assert panes(fanout, windowing) == panes(None, windowing) != []


def sharded(transform, windowing=None):
    pipeline = beam.Pipeline("LocalRunner")
    pairs = pipeline | beam.Create([("k", 1)]) | beam.WindowInto(windowing or window.FixedWindows(10))
    pairs | "combine" >> transform | "print" >> beam.Map(print)
    return any(isinstance(place.computation, Shards) for place in pipeline.topology().keyed.values())


def test_a_fan_out_of_one_is_none():
    assert sharded(beam.CombinePerKey(sum).with_hot_key_fanout(2))
    assert sharded(beam.CombinePerKey(sum).with_hot_key_fanout(lambda key: 1))
    for fanout in (None, 0, 1):
        assert not sharded(beam.CombinePerKey(sum).with_hot_key_fanout(fanout))


def test_retractions_go_the_direct_way():
    pipeline = beam.Pipeline("LocalRunner")
    early = trigger.AfterWatermark(early=trigger.AfterCount(1))
    mode = AccumulationMode.ACCUMULATING_AND_RETRACTING
    pairs = pipeline | beam.Create([("k", 1)]) | beam.WindowInto(window.FixedWindows(10), early, mode)
    once = pairs | "once" >> beam.CombinePerKey(sum)
    twice = once | beam.CombinePerKey(sum).with_hot_key_fanout(2)
    twice | beam.Map(lambda pair, pane=beam.DoFn.PaneInfoParam: print(pair, pane))
    assert not any(isinstance(place.computation, Shards) for place in pipeline.topology().keyed.values())


def test_labels_and_what_is_no_fan_out():
    assert beam.CombinePerKey(sum).with_hot_key_fanout(3).label == "CombinePerKey(sum, fanout=3)"
    assert beam.CombineGlobally(sum).with_fanout(3).label == "CombineGlobally(sum, fanout=3)"
    for wrong in ("3", 2.0, True):
        with pytest.raises(TypeError, match=r"CombinePerKey\(sum\): a fan-out is a number or a function of the key"):
            beam.CombinePerKey(sum).with_hot_key_fanout(wrong)


def test_the_transform_itself_stays_as_it_is():
    per_key, of_all = beam.CombinePerKey(sum), beam.CombineGlobally(sum)
    assert per_key.with_hot_key_fanout(3) is not per_key
    assert per_key.fanout is None
    assert of_all.with_fanout(3).without_defaults().fanout == 3
    assert of_all.fanout is None
    assert of_all.has_defaults
