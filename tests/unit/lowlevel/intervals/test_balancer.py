"""The balancer against simulated load: it ends unevenness that lasts, and leaves everything else alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.intervals.balancer import BalancePolicy, Load, LoadBalancer
from headrace.lowlevel.intervals.interval_map import SPACE, IntervalMap, key_position
from headrace.lowlevel.intervals.sequencer import Sequencer
from tests.depth import examples

POLICY = BalancePolicy("records", least=100, patience=3, rest=4)
Weights = Mapping[int, int]
"""Place of a key -> its records in an epoch."""


class Simulation:
    """A level whose keys bring so many records an epoch."""

    def __init__(self, tasks: int, policy: BalancePolicy = POLICY) -> None:
        self.tasks, self.policy = tasks, policy
        self.balancer = LoadBalancer(policy)
        self.intervals = IntervalMap.evenly(tasks)
        self.changes = 0
        self.epoch = 0

    def run(self, epochs: int, weights: Callable[[int], Weights]) -> None:
        for _ in range(epochs):
            self.epoch += 1
            loads = self.loads(weights(self.epoch))
            after = self.balancer.balanced(1, self.intervals, loads, self.tasks, Sequencer(1, self.epoch))
            self.changes += after != self.intervals
            self.intervals = after

    def loads(self, weights: Weights) -> dict[int, Load]:
        hashes: dict[int, list[int]] = {}
        for position, records in weights.items():
            hashes.setdefault(self.intervals.of(position.to_bytes(8, "big")).number, []).extend([position] * records)
        sampled = self.balancer.sampled(1)
        return {
            number: Load(
                len(found), key_positions=tuple(sorted(found)[:: max(1, len(found) // 64)]) * (number in sampled)
            )
            for number, found in hashes.items()
        }

    def spent(self, weights: Weights) -> list[int]:
        spent = [0] * self.tasks
        for place, records in weights.items():
            spent[self.intervals.of(place.to_bytes(8, "big")).owner] += records
        return spent


def keys(random: Random, count: int, low: int = 0, high: int = SPACE) -> list[int]:
    return [random.randrange(low, high) for _ in range(count)]


@given(st.integers(0, 2**32), st.integers(2, 6))
def test_skew_that_stays_is_evened_out_once_and_for_all(seed: int, tasks: int) -> None:
    random = Random(seed)
    crowded = {place: 10 for place in keys(random, 200, 0, SPACE // 16)}
    simulation = Simulation(tasks)
    simulation.run(60 * tasks, lambda epoch: crowded)
    spent = simulation.spent(crowded)
    assert max(spent) <= POLICY.tolerance * sum(spent) / tasks, "the skew is still there"
    settled = simulation.changes
    assert settled > 0
    simulation.run(100, lambda epoch: crowded)
    assert simulation.changes == settled, "it goes on changing although nothing else does"


@given(st.integers(0, 2**32), st.integers(1, 6))
def test_load_that_only_trembles_changes_nothing(seed: int, tasks: int) -> None:
    random = Random(seed)
    places = [(2 * index + 1) * SPACE // (2 * 64 * tasks) for index in range(64 * tasks)]
    simulation = Simulation(tasks)
    simulation.run(60, lambda epoch: {place: random.randrange(16, 25) for place in places})
    assert simulation.changes == 0


def test_one_epoch_of_unevenness_changes_nothing() -> None:
    even = {(2 * index + 1) * SPACE // 8: 100 for index in range(4)}
    simulation = Simulation(2)
    simulation.run(40, lambda epoch: {SPACE // 8: 4000} if epoch % 10 == 0 else even)
    assert simulation.changes == 0


def test_load_that_wanders_is_followed_and_what_it_left_is_merged() -> None:
    random = Random(3)
    simulation = Simulation(3)
    most = 0
    for corner in range(6):
        low = corner * SPACE // 6
        crowded = {place: 10 for place in keys(random, 300, low, low + SPACE // 40)}
        simulation.run(150, lambda epoch, crowded=crowded: crowded)
        spent = simulation.spent(crowded)
        assert max(spent) <= POLICY.tolerance * sum(spent) / 3, f"corner {corner}"
        most = max(most, len(simulation.intervals))
    assert most <= 10, "intervals that are no longer needed pile up"


def test_a_hot_key_is_not_divided_and_does_not_make_intervals_without_end() -> None:
    weights = {place: 10 for place in keys(Random(5), 100)} | {SPACE // 3: 9000}
    simulation = Simulation(2)
    simulation.run(200, lambda epoch: weights)
    assert len(simulation.intervals) <= 8
    assert min(simulation.spent(weights)) <= 1000
    # What the task of the hot key has to do besides is not worth a change.
    assert max(simulation.spent(weights)) <= 9000 / (1 - POLICY.gain)


@pytest.mark.parametrize("tasks", [1, 2])
def test_little_load_and_single_tasks_are_left_alone(tasks: int) -> None:
    simulation = Simulation(tasks)
    simulation.run(50, lambda epoch: {1: 99 if tasks == 2 else 10_000})
    assert simulation.changes == 0


def test_intervals_whose_task_is_gone_get_another() -> None:
    simulation = Simulation(4)
    simulation.tasks = 2
    simulation.run(1, lambda epoch: {(2 * index + 1) * SPACE // 8: 100 for index in range(4)})
    assert [len(simulation.intervals.owned(task)) for task in range(2)] == [2, 2]


def test_state_that_has_become_too_large_is_cut_whatever_it_costs() -> None:
    balancer = LoadBalancer(BalancePolicy("records", largest_bytes=1000))
    intervals = IntervalMap.evenly(2)
    for epoch in range(1, 90):
        sizes = {one.number: Load(1, bytes=6000 * (one.stop - one.start) // SPACE) for one in intervals}
        intervals = balancer.balanced(1, intervals, sizes, 2, Sequencer(1, epoch))
    assert [(one.stop - one.start) * 8 for one in intervals] == [SPACE] * 8
    assert {key_position(one.start.to_bytes(8, "big")) for one in intervals} == {one.start for one in intervals}


def test_random_load_keeps_every_rule() -> None:
    """Whatever comes, the map stays a map, has not too many intervals, and changes keep their distance."""
    for seed in range(examples(20, 500)):
        random = Random(seed)
        simulation, last = Simulation(3), -100
        for epoch in range(120):
            before = simulation.changes
            crowd = {place: random.randrange(1, 60) for place in keys(random, random.randrange(40))}
            simulation.run(1, lambda _, crowd=crowd: crowd)
            if simulation.changes > before:
                assert epoch - last >= POLICY.rest, f"seed {seed}"
                last = epoch
            assert len(simulation.intervals) <= 3 * POLICY.most, f"seed {seed}"
