"""Percentile low watermarks against plain recomputation: sorted latenesses, and the recursive definition."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel import BoundedInjector, Computation, Topology, TopologyError
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.watermarks.lateness import NO_LATENESS, RECENT, Lateness, LowWatermark
from headrace.lowlevel.watermarks.propagation import Frontier, InjectorProgress, Propagation
from tests.unit.lowlevel.topology.test_topology import chain, first

PERCENTILES = st.sampled_from([0.1, 1, 25, 50, 75, 90, 99, 99.9])
TIMES = st.one_of(st.integers(0, 100), st.integers(0, 10**13), st.sampled_from([MIN_TIMESTAMP, MAX_TIMESTAMP]))


def latenesses(timestamps, greatest=MIN_TIMESTAMP):
    """Of each record, in order."""
    found = []
    for timestamp in timestamps:
        greatest = max(greatest, timestamp)
        found.append(greatest - timestamp)
    return found


def exact(values, percentile):
    """The least lateness that so many of 100 do not exceed."""
    return sorted(values)[max(0, ceil(len(values) * percentile / 100 - 1e-9) - 1)]


@given(st.lists(TIMES, min_size=1, max_size=200), st.lists(st.integers(0, 200), max_size=5), PERCENTILES)
def test_quantiles_of_latenesses_in_whatever_batches(timestamps, cuts, percentile):
    borders = [0, *sorted(cut % (len(timestamps) + 1) for cut in cuts), len(timestamps)]
    lateness, greatest = NO_LATENESS, MIN_TIMESTAMP
    for begin, end in pairwise(borders):
        lateness = lateness.plus(Lateness.of(timestamps[begin:end], greatest))
        greatest = max([greatest, *timestamps[begin:end]])
    values = latenesses(timestamps)
    assert lateness == Lateness.of(timestamps)
    assert lateness.total == len(timestamps)
    found, wanted = lateness.quantile(percentile), min(exact(values, percentile), 1 << 52)
    assert wanted <= found <= wanted * 9 / 8
    assert sum(min(value, 1 << 52) <= found for value in values) >= len(values) * percentile / 100


def test_what_was_long_ago_is_forgotten():
    late, early = Lateness({100: RECENT}), Lateness({0: RECENT // 4})
    lateness = late
    assert lateness.quantile(99) > 20_000
    for _ in range(20):
        lateness = lateness.followed_by(early)
        assert lateness.total <= 2 * RECENT
    assert lateness.quantile(99) == 0
    assert lateness.followed_by(NO_LATENESS) is lateness
    # As long as there are few, all are recent.
    few = Lateness({3: 5})
    assert few.followed_by(Lateness({3: 1, 4: 2})) == Lateness({3: 6, 4: 2})


class World:
    """A random topology whose consumers choose percentiles, and how far its injectors and intervals are."""

    def __init__(self, seed):
        dice = random.Random(seed)
        self.topology, self.strict = Topology(), Topology()
        self.delays = {"perfect": None, "in": dice.randrange(50, 100), "other": dice.randrange(50, 100)}
        for stream, delay in self.delays.items():
            for topology in (self.topology, self.strict):
                topology.injector(stream, BoundedInjector([], max_delay=delay))
        streams = list(self.delays)
        self.percentile = {}
        for name in [f"s{number}" for number in range(dice.randint(1, 6))]:
            inputs = dict.fromkeys(dice.sample(streams, dice.randint(1, min(3, len(streams)))), first)
            self.percentile[name] = dice.choice([None, None, 50, 90, 99])
            self.topology.computation(name, Computation(), inputs, [name], watermark_percentile=self.percentile[name])
            self.strict.computation(name, Computation(), inputs, [name])
            streams.append(name)
        self.injectors, self.values = {}, {}
        for stream, delay in self.delays.items():
            timestamps = [200 + dice.randrange(100) for _ in range(dice.randrange(40))]
            self.values[stream] = latenesses(timestamps)
            self.injectors[stream] = InjectorProgress(delay=delay).with_delivery(
                max(timestamps, default=MIN_TIMESTAMP), dice.randrange(100), False, Lateness.of(timestamps)
            )
        self.held = {
            name: tuple(dice.choice([MAX_TIMESTAMP, dice.randrange(100, 400)]) for _ in range(10))
            for name in self.percentile
            if dice.random() < 0.5
        }
        self.pending = {name: dice.randrange(150, 400) for name in self.percentile if dice.random() < 0.2}
        self.committed = {name: dice.randrange(250) for name in self.percentile if dice.random() < 0.3}

    def frontier(self):
        holds = {name: min(held) for name, held in self.held.items() if min(held) < MAX_TIMESTAMP}
        by_interval = {name: dict(enumerate(held)) for name, held in self.held.items()}
        return Frontier(self.injectors, holds, self.pending, by_interval)

    def seeded(self, stream, percentile):
        """The watermark of an injector, out of the records themselves."""
        strict = self.injectors[stream].watermark
        if percentile is None or self.delays[stream] is None or not self.values[stream]:
            return strict
        bucketed = _rounded(exact(self.values[stream], percentile))
        return max(strict, self.injectors[stream].greatest - bucketed)

    def watermark(self, name, percentile):
        """The recursive definition, as a consumer of a percentile sees it."""
        if self.percentile[name] is not None:
            percentile = self.percentile[name]
        bounds = [self.pending.get(name, MAX_TIMESTAMP)]
        bounds += [self.seeded(stream, percentile) for stream in self.topology.sources()[name]]
        for sender in self.topology.senders()[name]:
            held = sorted(self.held.get(sender, [MAX_TIMESTAMP] * 10))
            ignored = 0 if percentile is None else len([n for n in range(1, 11) if n * 100 <= 10 * (100 - percentile)])
            bounds += [held[ignored], self.watermark(sender, percentile)]
        return max(min(bounds), self.committed.get(name, MIN_TIMESTAMP))


def _rounded(lateness):
    """The greatest lateness of the same bucket."""
    while lateness >= 16 and _bucket(lateness + 1) == _bucket(lateness):
        lateness += 1
    return lateness


def _bucket(lateness):
    return next(iter(Lateness.of([0], lateness).counts))


@pytest.mark.parametrize("seed", range(150))
def test_each_consumer_has_the_watermark_that_it_chose_and_others_their_own(seed):
    world = World(seed)
    now = world.frontier()
    found = Propagation(world.topology).inputs(now, now, world.committed)
    strict = Propagation(world.strict).inputs(now, now, world.committed)
    senders = world.topology.senders()
    greatest = max(progress.greatest for progress in world.injectors.values())
    for name in world.percentile:
        assert found[name] == world.watermark(name, None), f"seed {seed}, {name}"
        assert found[name] >= strict[name] >= world.committed.get(name, MIN_TIMESTAMP)
        above, ways = {name}, [name]
        for at in ways:
            ways += senders[at] - above
            above |= senders[at]
        if all(world.percentile[other] is None for other in above):
            assert found[name] == strict[name], f"seed {seed}: {name} chose nothing"
        if found[name] > strict[name]:
            assert found[name] <= greatest


def test_on_a_circle_too_the_percentile_counts_one_epoch_behind():
    topology = chain("a", "b", "c", back=[("b", "a")])
    topology.keyed["a"] = replace(topology.keyed["a"], watermark_percentile=90)
    before = Frontier({"in": InjectorProgress(10, 100, 90, Lateness.of([80, 100, 95]))}, {}, {})
    now = Frontier({"in": InjectorProgress(110, 200, 90, Lateness.of([180, 200, 195]))}, {}, {})
    found = Propagation(topology).inputs(now, before, {})
    # Who is on the circle and chose nothing goes by what comes in from outside, strictly.
    assert found == {"a": 95, "b": 10, "c": 10}
    assert Propagation(topology).inputs(now, now, found) == {"a": 195, "b": 110, "c": 110}


def test_nothing_is_measured_where_nobody_asks():
    world = World(1)
    assert not Propagation(world.strict).asked and not Propagation(world.strict).spread
    topology = Topology()
    for stream, delay in (("in", 5), ("perfect", None), ("aside", 5)):
        topology.injector(stream, BoundedInjector([], max_delay=delay))
    topology.computation("a", Computation(), {"in": first, "perfect": first}, ["a"])
    topology.computation("b", Computation(), {"a": first}, ["b"], watermark_percentile=99)
    topology.computation("c", Computation(), {"aside": first, "b": first})
    assert Propagation(topology).asked == {"in", "perfect"}
    assert Propagation(topology).spread == {"a"}


@pytest.mark.parametrize("percentile", [0, 100, -1, 101])
def test_percentiles_that_mean_nothing_are_refused(percentile):
    topology = Topology()
    with pytest.raises(TopologyError, match="'a' cannot have a watermark percentile of"):
        topology.computation("a", Computation(), {"in": first}, watermark_percentile=percentile)


def test_the_end_of_the_input_is_the_end_for_all():
    progress = InjectorProgress(delay=50).with_delivery(100, MIN_TIMESTAMP, False, Lateness.of([90, 100, 95]))
    assert (progress.watermark, progress.low_watermark(LowWatermark(50))) == (50, 100)
    assert progress.with_delivery(100, MIN_TIMESTAMP, True).low_watermark(LowWatermark(50)) == MAX_TIMESTAMP
