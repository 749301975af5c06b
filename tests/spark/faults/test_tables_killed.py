"""Tables of databases and lakes: a driver on Spark that writes to one gets SIGKILL again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.depth import faults
from tests.faults.crashes.tablelives import MODES, Life, Lives, Trial
from tests.faults.crashes.tableworlds import WORLDS, new_world
from tests.faults.tally import Tally
from tests.postgresserver import server_or_skip

pytestmark = [pytest.mark.spark, pytest.mark.faults, pytest.mark.slow]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    yield from server_or_skip()


@pytest.mark.parametrize("name", sorted(WORLDS))
def test_a_driver_on_spark_killed_again_and_again(
    name: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tally: Callable[[int], Tally],
) -> None:
    run = tally(21)
    world = new_world(name, tmp_path / "world", request, monkeypatch)
    random, wanted = Random(name), faults(quick=2, full=10)
    for number in count():
        life = Life(name, str(tmp_path / "world"), MODES[number % len(MODES)], str(tmp_path / str(number)))
        tried = Trial(world, life, Lives(), run)
        tried.begin_anew()
        deaths = 0
        while run.fired < wanted and deaths < 4 and tried.dies_on_spark(random.randint(1, 25)):
            deaths += 1
        # A life that found most of the work done may have ended before its moment came.
        assert not tried.dies_on_spark(None)
        tried.compare(f"on Spark, killed {deaths} times")
        if run.fired == wanted:
            return
