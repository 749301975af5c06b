"""Combining in shards of a key first makes no difference, whatever the windows, triggers, disorder and bundling."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.sdk.combinefns.collecting import ToListCombineFn
from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.combinefns.numeric import SumFn
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.combining.combiner_lifting import LiftedCombine, liftable
from headrace.sdk.operators.combining.hot_key_fanout import Shards, Spread
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.windows import GlobalWindows, TimestampCombiner
from headrace.sdk.windows.window_fn import OUTSIDE_WINDOWS
from headrace.sdk.windows.windowing import Windowing
from tests.depth import examples
from tests.harness import Element, Harness
from tests.properties.groupings.test_grouping import lifted
from tests.properties.scripts import TREES, Script, scripts, windowings


def in_shards(spread: Spread, shards: Shards, elements: list[Element], watermark: int) -> list[Element]:
    """What comes out of a bundle that is spread over shards, each of which combines its own."""
    by_shard: dict[object, list[tuple[object, int]]] = defaultdict(list)
    out: list[Element] = []

    def take(stream: str, batch: Batch) -> None:
        for value, time in batch.rows():
            by_shard[value[0]].append((value, time))

    def produce(stream: str, batch: Batch) -> None:
        assert stream == "shards"
        for value, time in batch.rows():
            key, payload = cast("tuple[object, object]", value)
            out.append((key, payload, time))

    spread.start_bundle()
    pairs = [(key, payload) for key, payload, _ in elements]
    spread.process_batch("in", Batch(pairs, [time for *_, time in elements]), take)
    for its in by_shard.values():
        values, times = zip(*its, strict=True)
        context = SimpleNamespace(watermark=watermark, produce_batch=produce)
        shards.process_batch("spread", Batch(list(values), list(times)), context)
    return out


def combiner(kind: type) -> AnyCombineFn:
    return cast(AnyCombineFn, kind())


def play(
    windowing: Windowing, script: Script, form: GroupingInputForm, prepare=lambda elements, watermark: elements
) -> Harness:
    harness = Harness(Grouping(windowing, combiner(ToListCombineFn), form))
    for elements, watermark, clock in script.bundles:
        harness.feed(prepare(elements, harness.watermark))
        harness.clock(clock)
        harness.advance(watermark)
    harness.advance(MAX_TIMESTAMP)
    assert not any(harness.stored().values()), f"still stored: {harness.stored()}"
    return harness


def outcome(harness: Harness) -> list[object]:
    counters = {name: harness.counters.get(name, 0) for name in ("dropped_late", OUTSIDE_WINDOWS, "records")}
    panes = [(pane.key, sorted(pane.value), str(pane.window), pane.timestamp, pane.info) for pane in harness.panes]
    return [sorted(panes, key=repr), counters]


FANOUTS = st.sampled_from([1, 2, 5, lambda key: 3 if key == "a" else 0])


@settings(max_examples=examples(300, 5_000))
@given(windowings(triggers=TREES), scripts(), FANOUTS)
def test_in_shards_or_not(windowing: Windowing, script: Script, fanout) -> None:
    if windowing.trigger.needs_values:
        return
    spread = Spread(fanout, "spread")
    shards = Shards(windowing, combiner(ToListCombineFn), {"spread": GroupingInputForm.PLAIN}, "shards")
    assert shards.output_form is GroupingInputForm.SHARDED
    sharded = play(windowing, script, GroupingInputForm.SHARDED, lambda its, now: in_shards(spread, shards, its, now))
    assert outcome(sharded) == outcome(play(windowing, script, GroupingInputForm.PLAIN))


@given(windowings(triggers=TREES), scripts(), FANOUTS)
def test_after_combining_before_the_shuffle(windowing: Windowing, script: Script, fanout) -> None:
    if not liftable(windowing):
        return
    lift = LiftedCombine(windowing, combiner(ToListCombineFn))
    spread = Spread(fanout, "spread")
    shards = Shards(windowing, combiner(ToListCombineFn), {"spread": GroupingInputForm.LIFTED}, "shards")
    assert shards.output_form is GroupingInputForm.LIFTED
    sharded = play(
        windowing, script, GroupingInputForm.LIFTED, lambda its, now: in_shards(spread, shards, lifted(lift, its), now)
    )
    assert outcome(sharded) == outcome(play(windowing, script, GroupingInputForm.PLAIN))


@given(st.integers(2, 9), st.integers(0, 60))
def test_a_key_is_spread_evenly(fanout: int, count: int) -> None:
    spread, found = Spread(fanout, "spread"), defaultdict(int)
    spread.start_bundle()
    for part in range(3):
        batch = Batch([("k", part)] * count, [0] * count)
        spread.process_batch(
            "in", batch, lambda stream, out: [found.__setitem__(v[0], found[v[0]] + 1) for v in out.values]
        )
    assert sum(found.values()) == 3 * count
    if count >= fanout:
        assert {key for key in found} == {(shard, "k") for shard in range(fanout)}
        assert max(found.values()) - min(found.values()) <= 1


def test_sums_too():
    # A combiner whose accumulators cannot be told from its values.
    shards = Shards(Windowing(), combiner(SumFn), {"spread": GroupingInputForm.PLAIN}, "shards")
    out = in_shards(Spread(2, "spread"), shards, [("k", number, number) for number in range(10)], 0)
    assert sum(cast("tuple[object, int]", payload)[1] or 0 for _, payload, _ in out) == 45


@pytest.mark.parametrize(
    ("combiner_of_times", "kept"),
    [
        (TimestampCombiner.OUTPUT_AT_EARLIEST, [3, 5, 12]),
        (TimestampCombiner.OUTPUT_AT_LATEST, [3, 5, 15]),
        (TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED, [3, 5, 12, 15]),
        (TimestampCombiner.OUTPUT_AT_EOW, None),
    ],
)
def test_times_travel_as_far_as_they_matter(combiner_of_times, kept):
    # A hold may let the grouping count elements behind the watermark too, so those all go.
    windowing = Windowing.of(GlobalWindows(), timestamp_combiner=combiner_of_times)
    shards = Shards(windowing, combiner(SumFn), {"spread": GroupingInputForm.PLAIN}, "shards")
    out = in_shards(Spread(1, "spread"), shards, [("k", 1, time) for time in (3, 12, 15, 5)], 10)
    times = cast("list[int] | None", cast("tuple[object, ...]", out[-1][1])[4])
    assert (times if times is None else sorted(times)) == kept
