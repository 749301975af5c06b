"""Records that come up to five times, together, later and after a restart: each counts once, and ids do not pile up."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from headrace.lowlevel import CallSink, Topology
from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.coders.coder import PLAIN
from headrace.runners.engine.options import RunResult
from tests.faults import mill
from tests.faults.life import Mortal, Outside, dies, live
from tests.faults.tally import Tally
from tests.stores import DictStore

pytestmark = pytest.mark.faults

REACH = 12
"""How many records back a source begins at most, with each delivery and each new connection."""


class Repeats:
    """The mill with a source that keeps ids just as long as it may send records again."""

    def __init__(self, seed: int) -> None:
        self.world = mill.World(seed, size=90)
        self.slack = mill.Source(self.world, reach=REACH).needed_slack()

    def topology(self, sink: Callable[[str], CallSink]) -> Topology:
        source = mill.Source(self.world, reach=REACH)
        source.id_slack = self.slack
        return mill.topology(source, sink)

    def bound(self, position: int, watermark: int) -> int:
        """How many ids have to be known: those of records sent so far that may come again."""
        return sum(visit.time + self.slack >= watermark for visit in self.world.visits[:position])


def ids(store: DictStore) -> tuple[int, int, int]:
    """Ids that a checkpoint keeps; how far the source is in it; the watermark."""
    view = Checkpoint.read(store)
    if view.manifest is None:
        return 0, 0, 0
    position = PLAIN.decode(view.manifest.positions["visits"])
    assert isinstance(position, int)
    kept = sum(len(delta.ids) for delta in view.load("per minute").dump())
    return kept, position, view.manifest.input_watermarks["per minute"]


def check_ids(what: Repeats, store: DictStore, run: Tally) -> None:
    """The checkpoint keeps the ids that it must, and no others."""
    kept, position, watermark = ids(store)
    assert kept == what.bound(position, watermark), f"{kept} ids are kept at record {position}"
    run.note("most ids kept at once", kept)
    assert kept < len(what.world.visits) / 2


@pytest.mark.parametrize("deaths", [0, 3])
def test_each_record_counts_once_however_often_it_comes(tally: Callable[[int], Tally], deaths: int) -> None:
    run = tally(9)
    for seed in run.seeds(6, 300):
        run.plan()
        what, random = Repeats(seed), Random(f"duplicates {seed}")
        outside, store = Outside(), DictStore()
        for life in range(deaths):
            mortal = Mortal(seed + life, random.randrange(250))
            if dies(partial(live, what.topology, outside, store, mortal)) and store.objects:
                check_ids(what, store, run)
        result = live(what.topology, outside, store, Mortal(seed + 7))
        check_ids(what, store, run)
        for sink, expected in what.world.expected().items():
            run.compare(expected, outside.values(sink), sink)
        run.fire(counted(result, len(what.world.visits), run) > 0)


def counted(result: RunResult, records: int, run: Tally) -> int:
    """How many repeats were dropped; with the rest they are all that was read."""
    of = result.counters["per minute"]
    assert of["records"] == records
    assert result.counters["visits"]["records"] == of["records"] + of["duplicates"]
    run.note("repeats dropped", of["duplicates"])
    return of["duplicates"]


def test_ids_kept_for_too_short_a_time_are_seen(tally: Callable[[int], Tally]) -> None:
    """The comparison does see a repeat that comes too late for its id."""
    run = tally(9)
    run.plan()
    what, outside = Repeats(0), Outside()
    what.slack = 1
    with pytest.raises(AssertionError, match="too many"):
        live(what.topology, outside, DictStore(), Mortal(0))
        Tally(9).compare(what.world.expected()["minutes"], outside.values("minutes"))
    run.fire()
