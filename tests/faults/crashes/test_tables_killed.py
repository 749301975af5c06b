"""Tables of databases and lakes: the process that writes to one gets SIGKILL, at every moment and at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.crashes.tablelives import MODES, Life, Lives, Trial, lives
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
    trial(world, mode, tmp_path, processes, tally(21)).killed_at_each_moment()


@pytest.mark.parametrize("mode", MODES[:1] + [pytest.param(mode, marks=pytest.mark.slow) for mode in MODES[1:]])
def test_a_process_killed_at_any_time_again_and_again(
    world: Any, mode: str, tmp_path: Path, processes: Lives, tally: Callable[[int], Tally]
) -> None:
    trial(world, mode, tmp_path, processes, tally(21)).killed_at_any_time()
