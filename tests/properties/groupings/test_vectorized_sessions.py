"""Sessions by columns put out what sessions key by key do, counters and all; they leave nothing behind."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import headrace as beam
from headrace.lowlevel import CallSink
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.vectorized import segment_store
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.compiler.compiler import compile_pipeline
from headrace.sdk.operators.vectorized.sessions import ColumnSessions
from headrace.testing.test_stream import TestStream
from headrace.transforms.window import Sessions, TimestampedValue
from tests.depth import examples

GAP = 10
KEYS = st.sampled_from(["a", "b", "\ud800", 1, True, ("a", 1), (1, 2), 2**70])
VALUES = st.one_of(st.integers(-5, 5), st.sampled_from([2**62, -(2**63), 2**70]), st.floats(-4, 4).map(round))
COMBINERS = {
    "sum": sum,
    "count": beam.combiners.CountCombineFn(),
    "greatest": max,
    "mean": beam.combiners.MeanCombineFn(),
}


@st.composite
def scripts(draw: st.DrawFn, keys=KEYS, values=VALUES) -> list[object]:
    """Bundles of elements (key, value, second), and seconds that the watermark moves to."""
    script: list[object] = []
    watermark = 0
    for _ in range(draw(st.integers(1, 6))):
        elements = st.tuples(keys, values, st.integers(max(0, watermark - 15), watermark + 60))
        script.append(draw(st.lists(elements, min_size=1, max_size=8)))
        watermark += draw(st.integers(1, 40))
        script.append(watermark)
    return script


def play(script: list[object], combine: object, by_columns: bool):
    """Panes, counters of the grouping, and what is left in its state."""
    stream = TestStream()
    for step in script:
        if isinstance(step, int):
            stream = stream.advance_watermark_to(step)
        else:
            stream = stream.add_elements([TimestampedValue((key, value), at) for key, value, at in step])
    rows: list[object] = []
    pipeline = beam.Pipeline("LocalRunner")
    windowed = pipeline | stream.advance_watermark_to_infinity() | beam.WindowInto(Sessions(GAP))
    panes = windowed | "Group" >> beam.CombinePerKey(combine) | beam.Map(_shown)
    _ = panes | beam.io.Write(CallSink(lambda epoch, its: rows.extend(row for row, _ in its)))
    if by_columns:
        topology = compile_pipeline(pipeline)
        assert isinstance(topology.keyed["Group"].computation, ColumnSessions)
    else:
        with mock.patch("headrace.sdk.compiler.execution_strategy.obstacle", lambda *_, **__: "the test"):
            topology = compile_pipeline(pipeline)
    result = LocalRunner().run_topology(topology, RunOptions())
    counters = {name: result.counters["Group"].get(name, 0) for name in ("records", "dropped_late", "late")}
    return Counter(map(repr, rows)), counters


def _shown(
    pair: object,
    window=beam.DoFn.WindowParam,
    timestamp=beam.DoFn.TimestampParam,
    pane=beam.DoFn.PaneInfoParam,
) -> object:
    return pair, window, timestamp, pane


@settings(max_examples=examples(50, 5_000))
@pytest.mark.parametrize("combine", COMBINERS.values(), ids=COMBINERS)
@given(script=scripts())
@example(script=[[("a", 1, 0), ("a", 2, 20)], 5, [("a", 4, 9), ("a", 8, 12)], 40, [("a", 16, 45)], 60])
@example(script=[[("a", 1, 0)], 5, [("a", 2, 8)], 12, [("a", 4, 16)], 20, [("a", 8, 24)], 90])
def test_by_columns_and_key_by_key_are_the_same(combine, script):
    assert play(script, combine, by_columns=True) == play(script, combine, by_columns=False)


@settings(max_examples=examples(50, 5_000))
@given(script=scripts(keys=st.sampled_from("abc"), values=st.integers(0, 9)))
def test_many_small_segments_become_one(script):
    with mock.patch.object(segment_store, "MANY", 2), mock.patch.object(segment_store, "SMALL", 2):
        assert play(script, sum, by_columns=True) == play(script, sum, by_columns=False)


@settings(max_examples=examples(50, 5_000))
@given(script=scripts(), seed=st.randoms())
def test_the_order_within_a_bundle_makes_no_difference(script, seed):
    shuffled = [step if isinstance(step, int) else seed.sample(step, len(step)) for step in script]
    assert play(shuffled, sum, by_columns=True) == play(script, sum, by_columns=True)


def test_sessions_that_are_over_leave_nothing():
    copies: list[MemoryStateStore] = []
    made = MemoryStateStore.__init__

    def init(self: MemoryStateStore) -> None:
        made(self)
        copies.append(self)

    script = [[("a", 1, 0), ("b", 1, 5)], 3, [("a", 2, 8)], 30, [("a", 1, 40)], 41]
    with mock.patch.object(MemoryStateStore, "__init__", init):
        play(script, sum, by_columns=True)
    assert copies
    assert all(count == 0 for copy in copies for count in copy.count().values())
