"""The simulation of large clusters says what its costs imply, and always the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.driver_scale import driver_seconds
from benchmarks.simulation import WORKERS, Costs, simulate
from headrace.runners.engine.driver.running_topology import MANY_TASKS

COSTS = Costs(0.03, 0.0, 0.01, 0.01, 1e-6, 1e-5, 0.0, 0.0, 0.0)


def test_with_nothing_that_grows_with_the_workers_latency_is_the_same() -> None:
    found = [simulate(COSTS, workers, 100.0) for workers in WORKERS]
    assert found == [found[0]] * len(WORKERS)
    # The rest of an epoch that runs, and one more.
    assert found[0].median == pytest.approx(1.5 * found[0].epoch, rel=0.02)
    assert found[0].epoch == pytest.approx(0.05, rel=0.05)


def test_what_each_worker_costs_the_driver_shows() -> None:
    slow = replace(COSTS, report=1e-4)
    few, many = simulate(slow, 20, 100.0), simulate(slow, 2000, 100.0)
    assert many.epoch - few.epoch == pytest.approx(1980 * 1e-4, rel=0.05)


def test_only_few_workers_tell_each_other_how_far_they_are() -> None:
    telling = replace(COSTS, sent=1e-4, got=1e-4)
    few, many = MANY_TASKS // 2, 2 * MANY_TASKS
    assert simulate(telling, few, 100.0).epoch - simulate(COSTS, few, 100.0).epoch == pytest.approx(2e-4 * few, rel=0.1)
    assert simulate(telling, many, 100.0) == simulate(COSTS, many, 100.0)
    told = replace(COSTS, sent_if_many=1e-4)
    assert simulate(told, many, 100.0).epoch > simulate(COSTS, many, 100.0).epoch


def test_mishaps_hurt_the_tail_of_a_large_cluster_first() -> None:
    without, small, large = (
        simulate(COSTS, workers, 100.0, chance) for workers, chance in ((20, 0), (20, 1e-5), (2000, 1e-5))
    )
    assert small.median == pytest.approx(without.median, rel=0.1)
    assert large.high > without.high + 0.5
    assert large.median < without.median * 2


def test_a_seed_gives_the_same_again() -> None:
    noisy = replace(COSTS, factors=(0.8, 1.0, 1.1, 2.0))
    assert simulate(noisy, 50, 100.0, 1e-4) == simulate(noisy, 50, 100.0, 1e-4)
    assert simulate(noisy, 50, 100.0, 1e-4, seed=1) != simulate(noisy, 50, 100.0, 1e-4, seed=2)


@pytest.mark.parametrize("tasks", [3, MANY_TASKS])
def test_the_driver_takes_made_reports_for_those_of_tasks(tasks: int) -> None:
    seconds = driver_seconds(tasks, computations=2, levels=2, epochs=4)
    assert len(seconds) == 4 and all(each > 0 for each in seconds)
