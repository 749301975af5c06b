"""Tables of databases and lakes: the process that writes to one gets SIGKILL, at every moment and at any time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.depth import faults
from tests.faults.crashes.tablelives import MODES, Life, Lives, Trial, lives, spread
from tests.faults.crashes.tableworlds import WORLDS, new_world
from tests.faults.tally import Tally
from tests.postgresserver import server_or_skip

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    yield from server_or_skip()


@pytest.fixture(scope="module")
def processes() -> Iterator[Lives]:
    with lives() as made:
        yield made


@pytest.fixture(params=sorted(WORLDS))
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return new_world(request.param, tmp_path / "world", request, monkeypatch)


def trial(world: Any, mode: str, place: Path, processes: Lives, run: Tally) -> Trial:
    return Trial(world, Life(world.name, str(place / "world"), mode, str(place / "checkpoint")), processes, run)


@pytest.mark.parametrize("mode", MODES)
def test_a_process_killed_at_each_moment(
    world: Any, mode: str, tmp_path: Path, processes: Lives, tally: Callable[[int], Tally]
) -> None:
    run = tally(21)
    tried = trial(world, mode, tmp_path, processes, run)
    moments = tried.undisturbed()
    assert {"plan", "commit", "committed", "deliver", "delivered"} < set(moments)
    assert len(set(moments)) >= 10
    for moment in spread(moments, faults(quick=2, full=1000), Random(f"{world.name} {mode}")):
        tried.begin_anew()
        assert tried.dies(dies_at=moment), f"the fault did not fire at moment {moment}, {moments[moment - 1]}"
        assert not tried.dies()
        tried.compare(f"killed at moment {moment}, {moments[moment - 1]}")


@pytest.mark.parametrize("mode", MODES[:1] + [pytest.param(mode, marks=pytest.mark.slow) for mode in MODES[1:]])
def test_a_process_killed_at_any_time_again_and_again(
    world: Any, mode: str, tmp_path: Path, processes: Lives, tally: Callable[[int], Tally]
) -> None:
    run = tally(21)
    tried = trial(world, mode, tmp_path, processes, run)
    # The first life takes longer than others.
    tried.undisturbed()
    tried.begin_anew()
    started = time.monotonic()
    tried.undisturbed()
    length = time.monotonic() - started
    for seed in run.seeds(quick=1, full=20):
        random, kills = Random(f"{world.name} {mode} {seed}"), 1
        tried.begin_anew()
        seconds = random.uniform(0.05, 0.8) * length
        while not tried.dies(seconds=seconds):
            tried.begin_anew()
            seconds /= 2
        while kills < 5 and tried.dies(seconds=random.uniform(0.05, 0.8) * length):
            kills += 1
        if kills == 5:
            assert not tried.dies()
        tried.compare(f"killed {kills} times at any time")
