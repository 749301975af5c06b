"""Members of enumerations in productions that a commit has, where a member is inserted before the program goes on."""

from __future__ import annotations

import sys
from contextlib import suppress
from enum import Enum
from types import ModuleType

import pytest

from headrace.lowlevel import BoundedInjector, CallSink, Computation, SendSink, Topology
from headrace.lowlevel.records.record import Batch
from headrace.runners.engine.background_calls import PlainCall
from headrace.runners.engine.clock import ManualClock
from headrace.runners.engine.options import RunOptions
from headrace.runners.engine.productions import Stragglers, straggler
from headrace.runners.local import Crash, LocalRunner, Scheduler

MODULE = "edited_enumeration"
MEMBERS = ["RED", "BLUE"]


def edit(*members: str) -> type[Enum]:
    """The enumeration, which has other members from now on."""
    colour = Enum("Colour", list(members), module=MODULE, qualname="Colour")
    sys.modules[MODULE].Colour = colour
    return colour


@pytest.fixture(autouse=True)
def _module(tmp_path, monkeypatch):
    module = ModuleType(MODULE)
    module.__file__ = str(tmp_path / f"{MODULE}.py")
    monkeypatch.setitem(sys.modules, MODULE, module)


class Rounds(Computation):
    """Sends a value round the circle five times."""

    def process_record(self, record, context):
        value, rounds = record.value
        if rounds == 5:
            context.produce("done", value.name)
        else:
            context.produce("more", (value, rounds + 1))


class Dies(Scheduler):
    """Stops the driver after the second epoch."""

    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == ("delivered", 2):
            raise Crash("as planned")


def key(value: object) -> object:
    return None


@pytest.mark.parametrize("intervals", [1, 3])
def test_what_is_under_way_on_a_circle(tmp_path, intervals):
    def run(scheduler: Scheduler, count: int, colour: type[Enum]) -> list[object]:
        topology, rows = Topology(), []
        topology.injector("in", BoundedInjector([((colour["BLUE"], 0), 5)]))
        topology.computation("rounds", Rounds(), {"in": key, "more": key}, ["more", "done"])
        topology.sink("out", "done", CallSink(lambda epoch, more: rows.extend(value for value, _ in more)))
        with suppress(Crash):
            LocalRunner(intervals=count, scheduler=scheduler).run_topology(topology, RunOptions(str(tmp_path / "c")))
        return rows

    assert run(Dies(), 1, edit(*MEMBERS)) == []
    assert run(Scheduler(), intervals, edit("RED", "GREEN", "BLUE")) == ["BLUE"]


def test_rows_that_a_sink_has_not_acknowledged():
    released: list[object] = []
    topology = Topology()
    topology.injector("in", BoundedInjector([]))
    topology.sink("service", "in", SendSink(lambda epoch, rows: released.extend(rows)))
    item = straggler("service", Batch([edit(*MEMBERS)["BLUE"]], [7]), epoch=3, interval=1, token="t")
    blue = edit("RED", "GREEN", "BLUE")["BLUE"]
    stragglers = Stragglers(topology, lambda release: PlainCall(release, ManualClock()), delay=10)
    stragglers.take([item], due=0)
    stragglers.release_due(0)
    assert released == [(blue, 7)]
