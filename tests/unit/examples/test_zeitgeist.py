"""The Zeitgeist example on the local runner: found = planted, no false alarms, every record accounted for."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from examples import zeitgeist_replay
from examples.zeitgeist import STEP, topology
from examples.zeitgeist_check import WITHIN, Verdict, judged
from examples.zeitgeist_counts import WindowCount
from examples.zeitgeist_detectors import Anomaly
from examples.zeitgeist_model import ModelCalculator, Prediction
from examples.zeitgeist_replay import watermark
from examples.zeitgeist_world import HELD_BACK, OUTAGE, REGIONS, START, Search, World, everywhere
from headrace.lowlevel import CallSink, ManualInjector, Topology
from headrace.lowlevel.time import SECOND
from headrace.runners.engine.options import EpochProgress, RunOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.pipeline.runner_choice import Runner
from tests.depth import examples
from tests.schedulers import RandomScheduler

pytestmark = pytest.mark.slow

FEW = World(queries_each=20)
"""Of the default seed, with fewer queries."""
TINY = World(queries_each=5, day=60)
"""Too small for its anomalies to be meant, but with everything in it."""


class Run:
    """One run of the example, and everything that went over its streams."""

    def __init__(self, world: World, step: int = STEP, runner: Runner | None = None) -> None:
        self.world = world
        self.anomalies: list[Anomaly] = []
        self.windows: list[WindowCount] = []
        self.progress: list[EpochProgress] = []
        made = topology(world, lambda epoch, rows: self.anomalies.extend(value for value, _ in rows), step)
        made.sink("windows", "window counts", CallSink(lambda _, rows: self.windows.extend(value for value, _ in rows)))
        options = RunOptions(progress=self.progress.append)
        self.result = (runner or LocalRunner(intervals=2)).run_topology(made, options)

    @property
    def verdict(self) -> Verdict:
        return judged(self.world.planted, self.anomalies)


@pytest.fixture(scope="module")
def shipped() -> Run:
    return Run(World())


def test_exactly_what_was_planted_is_found(shipped: Run) -> None:
    assert len(shipped.world.planted) == 65  # 8 spikes, 6 dips, and a region with its 50 queries
    assert shipped.verdict.missed == []
    assert shipped.verdict.false_alarms == []
    assert all(found and found.second - planted.start < WITHIN for planted, found in shipped.verdict.pairs)


def test_a_region_that_is_held_back_waits_and_a_region_cut_off_dips(shipped: Run) -> None:
    dips = {anomaly.subject for anomaly in shipped.anomalies if anomaly.kind == "dip"}
    assert dips >= {everywhere(OUTAGE), *shipped.world.queries[OUTAGE]}
    assert everywhere(HELD_BACK) not in dips
    since, until = shipped.world.offline
    during = [epoch.watermark for epoch in shipped.progress if since * SECOND < epoch.clock <= until * SECOND]
    assert len(during) > 1 and set(during) == {(since - zeitgeist_replay.MAX_DELAY) * SECOND}


def test_without_waiting_the_held_back_region_would_dip(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watermark is what makes the difference: with one that goes by the clock alone, there are false alarms."""
    monkeypatch.setattr(zeitgeist_replay, "watermark", lambda world, _, now: watermark(world, "", now))
    run = Run(World(queries_each=6))
    false = {anomaly.subject for anomaly in run.verdict.false_alarms if anomaly.kind == "dip"}
    assert everywhere(HELD_BACK) in false
    assert run.result.counters["queries counter"]["dropped_late"] > 100


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_other_worlds(seed: int) -> None:
    """Everything is found in every world; the bound for false alarms is one in a world."""
    run = Run(replace(FEW, seed=seed))
    assert run.verdict.missed == []
    assert len(run.verdict.false_alarms) <= 1, run.verdict.false_alarms


@pytest.mark.parametrize("step", [7, STEP])
def test_every_record_is_counted_once_or_dropped_late_and_counted(step: int) -> None:
    run = Run(replace(TINY, late=0.02), step)
    kept, dropped = recount(run.world, step)
    by_query, by_region = run.result.counters["queries counter"], run.result.counters["regions counter"]
    assert dropped > 20
    for counters in (by_query, by_region):
        assert counters["records"] == counters["counted"] + counters["dropped_late"]
        assert counters["dropped_late"] == dropped
    assert Counter({(window.subject, window.second): window.count for window in run.windows}) == kept
    assert len({(window.subject, window.second) for window in run.windows}) == len(run.windows)


def recount(world: World, step: int) -> tuple[Counter[tuple[str, int]], int]:
    """The counts by subject and second, and how many records come after their second, without the engine."""
    kept: Counter[tuple[str, int]] = Counter()
    dropped = 0
    for region in REGIONS:
        arrivals = world.arrivals(region)
        for query, searched, arrived in zip(*(column.tolist() for column in arrivals), strict=True):
            epoch_start = arrived // SECOND - (arrived // SECOND - START) % step
            known = min(watermark(world, each, epoch_start) for each in REGIONS)
            second = searched // SECOND
            if (second + 1) * SECOND <= known:
                dropped += 1
            else:
                kept[world.queries[region][query], second] += 1
                kept[everywhere(region), second] += 1
    return kept, dropped


def test_how_the_stream_is_cut_into_epochs_makes_no_difference() -> None:
    world = replace(TINY, late=0)
    expected = Run(world)
    assert len(expected.anomalies) > 10
    for seed, step in enumerate([11, 3, 1000][: examples(1, 3)]):
        runner = LocalRunner(scheduler=RandomScheduler(seed), intervals=3, parallelism=2)
        other = Run(world, step, runner)
        assert sorted(other.anomalies) == sorted(expected.anomalies), f"step {step}, seed {seed}"
        assert sorted(other.windows) == sorted(expected.windows), f"step {step}, seed {seed}"


def test_a_query_that_nobody_searches_for_any_more_is_forgotten() -> None:
    day = 12
    injector, silent = ManualInjector(), ManualInjector()
    injector.records(*((Search("cat", "Egypt"), (START + second) * SECOND) for second in range(4 * day)))
    for each in (injector, silent):
        each.watermark((START + 9 * day) * SECOND)
    made = topology(World(), lambda _, rows: None)
    for stream in made.injectors:
        made.injectors[stream] = silent
    made.injectors["searches in Egypt"] = injector
    runner = LocalRunner()
    runner.run_topology(_with_day(made, day))
    stored = {name: store.count() for (name, _), store in runner.stores.items()}
    assert not any(count for counts in stored.values() for count in counts.values()), stored


def _with_day(made: Topology, day: int) -> Topology:
    for name, place in made.keyed.items():
        if "counter" not in name:
            made.keyed[name] = replace(place, computation=type(place.computation)(day))
    return made


def test_the_model_follows_the_season_and_does_not_believe_a_spike() -> None:
    """Three days with a busy and a quiet part, then a spike: what is predicted for the day after it."""
    day, parts = 120, range(48)
    rates = [20 if part % 12 == 5 else 2 for part in parts]
    rates[36 + 3] = 200
    windows = [WindowCount("cat", second, rates[second // 10]) for second in range(4 * day)]
    predictions: list[Prediction] = []
    made = Topology()
    injector = ManualInjector().records(*((window, window.second * SECOND) for window in windows))
    made.injector("window counts", injector.watermark(4 * day * SECOND))
    made.computation("model", ModelCalculator(day), {"window counts": lambda window: window.subject}, ["model updates"])
    made.sink("out", "model updates", CallSink(lambda _, rows: predictions.extend(value for value, _ in rows)))
    LocalRunner().run_topology(made)
    fifth_day = {(each.start - 4 * day) // 10: each.rate for each in predictions if 4 * day <= each.start < 5 * day}
    assert fifth_day.keys() == set(range(12))
    assert fifth_day[5] == pytest.approx(20)
    assert 2 < fifth_day[3] < 3
    assert {round(rate, 5) for part, rate in fifth_day.items() if part not in (3, 5)} == {2.0}


def test_the_program_prints_what_it_found() -> None:
    command = [sys.executable, "-m", "examples.zeitgeist", "--runner=LocalRunner", "--queries=20"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "20 of its 20 queries" in ran.stdout
    assert "35 of 35 events found within 45 s, 0 false alarms" in ran.stdout
    assert "[all of Egypt]" in ran.stdout
