"""The Zeitgeist example under a driver that crashes at steps all along its run: the same anomalies and counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.zeitgeist import topology
from examples.zeitgeist_world import World
from headrace.lowlevel import Topology
from headrace.runners.engine.options import RunOptions, RunResult
from headrace.runners.local import Crash, LocalRunner
from tests.depth import examples
from tests.faults.crashes.test_crash_at_every_step import Outside
from tests.schedulers import RandomScheduler

pytestmark = pytest.mark.faults

WORLD = World(queries_each=4, day=36, late=0.02)
"""Small: only that results do not change is tested here."""
STEP = 30
STRIDE = examples(20, 1)


def made(outside: Outside) -> Topology:
    """The example, with sinks that refuse a repeated delivery which differs."""
    whole = topology(WORLD, lambda _, rows: None, STEP)
    whole.sinks["anomalies"] = ("anomalies", outside.take("anomalies"))
    whole.sink("windows", "window counts", outside.take("windows"))
    return whole


def attempt(outside: Outside, checkpoint: Path, scheduler: RandomScheduler) -> RunResult | None:
    """One life of a driver; None if it crashed."""
    runner = LocalRunner(scheduler=scheduler, intervals=2, parallelism=2)
    try:
        return runner.run_topology(made(outside), RunOptions(checkpoint=str(checkpoint)))
    except Crash:
        return None


def test_a_crash_at_steps_all_along_the_run_changes_nothing(tmp_path: Path) -> None:
    expected, undisturbed = Outside(), RandomScheduler(0)
    result = attempt(expected, tmp_path / "reference", undisturbed)
    assert result is not None
    assert len(expected.values("anomalies")) > 5
    assert result.counters["queries counter"]["dropped_late"] > 5
    crashes = range(1 + STRIDE // 2, undisturbed.steps + 1, STRIDE)
    for step in crashes:
        outside, place = Outside(), tmp_path / f"at-{step}"
        assert attempt(outside, place, RandomScheduler(step, crash_at=step)) is None, "the fault did not fire"
        again = attempt(outside, place, RandomScheduler(step + 1))
        assert again is not None
        for sink in ("anomalies", "windows"):
            assert outside.values(sink) == expected.values(sink), f"{sink} after a crash at step {step}"
        assert again.counters == result.counters, f"crash at step {step}"
    assert len(crashes) >= 8


@settings(max_examples=examples(3, 200))
@given(st.lists(st.integers(1, 120), min_size=2, max_size=4), st.integers(0, 2**32))
def test_crashes_in_several_lives_change_nothing(tmp_path_factory: object, crashes: list[int], seed: int) -> None:
    folder = tmp_path_factory.mktemp("lives")
    expected, outside = Outside(), Outside()
    result = attempt(expected, folder / "reference", RandomScheduler(seed))
    fired = 0
    for life, step in enumerate(crashes):
        fired += attempt(outside, folder / "checkpoint", RandomScheduler(seed + life, crash_at=step)) is None
    again = attempt(outside, folder / "checkpoint", RandomScheduler(seed))
    assert fired >= 1
    assert result is not None and again is not None and again.counters == result.counters
    assert outside.values("anomalies") == expected.values("anomalies")
    assert outside.values("windows") == expected.values("windows")
