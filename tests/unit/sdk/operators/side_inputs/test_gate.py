"""The gate before a step with side inputs: who waits, what holds the watermark, what is freed when."""

from __future__ import annotations

import pytest

from headrace.lowlevel.coders.coder import encode_key
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.processing.worker import Worker
from headrace.lowlevel.records.record import KeyRecords
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.time import MAX_TIMESTAMP, SECOND
from headrace.lowlevel.topology.nodes import Keyed
from headrace.sdk.model.panes import PaneInfoTiming, pane_info
from headrace.sdk.operators.side_inputs.gate import Gate, SideArgument
from headrace.sdk.operators.side_inputs.gate_inputs import SideView, SideWatermark
from headrace.sdk.operators.side_inputs.window_mapping import SideWindows
from headrace.sdk.windows.window_namespace import WindowNamespaces
from headrace.sdk.windows.windowing import Windowing
from headrace.transforms import window

FIXED = window.FixedWindows(10)


class Bench:
    """One gate over side inputs in windows of 10 s, without a runner."""

    def __init__(self, main: Windowing | None = None, sides: int = 1, takes_back: bool = False) -> None:
        side = Windowing(FIXED)
        self.side = WindowNamespaces(side)
        arguments = [SideArgument(f"side input {number}", number, list) for number in range(sides)]
        streams = {f"side {number}": number for number in range(sides)}
        gate = Gate("Look", [SideWindows(side, main or side)] * sides, streams, arguments, "ready", takes_back)
        self.place = Keyed("gate", gate, dict.fromkeys(["main", *streams]), frozenset(["ready"]))
        self.store, self.watermark, self.hold = MemoryStateStore(), 0, None

    def run(self, *elements, views=(), reached=None, watermark=None, retraction=False, side=0, pane=None):
        """One bundle, with what one side input says; what is let go, as (value, values of each side input)."""
        out = []
        messages = [self._view(retraction, *view) for view in views]
        messages += [SideWatermark(reached * SECOND)] if reached is not None else []
        main = [("s", (value, FIXED.assign_all((second * SECOND,), (None,))[0], pane)) for value, second in elements]
        parts = [
            KeyRecords("main", main, [second * SECOND for _, second in elements]),
            KeyRecords(f"side {side}", [("s", message) for message in messages], [MAX_TIMESTAMP] * len(messages)),
        ]
        after = self.watermark if watermark is None else watermark * SECOND
        worker = Worker(self.place, self.store, lambda stream, batch: out.extend(batch.values))
        commit = worker.run(Bundle({b"s" * 16: (encode_key("s"), parts)}, self.watermark, after))
        self.store.apply(commit.delta)
        self.watermark, self.hold = after, commit.hold and commit.hold.timestamp // SECOND
        self.counters = commit.counters
        return [(value, *map(tuple, sides)) for value, _, _, sides in out]

    def _view(self, retraction, start, *its):
        frame = self.side.of_interval(start * SECOND, (start + 10) * SECOND)
        return SideView.of(frame.code, list(its), pane_info(True, False, PaneInfoTiming.ON_TIME, 0, 0, retraction))

    @property
    def cells(self):
        return self.store.count()["cells"]


def test_a_view_goes_when_no_element_can_look_at_it_any_more():
    bench = Bench(main=Windowing.of(FIXED, allowed_lateness=5))
    bench.run(views=[(0, 1), (10, 2)])
    assert bench.cells == 4
    bench.run(watermark=14)
    assert bench.cells == 4 and bench.run(("late", 3)) == [("late", (1,))]
    bench.run(watermark=15)
    assert bench.cells == 2 and bench.run(("lost", 3)) == [] and bench.counters["dropped_late"] == 1
    bench.run(watermark=25)
    assert bench.store.count() == {"keys": 0, "cells": 0, "marks": 0, "ids": 0, "segments": 0}


def test_a_view_stays_for_elements_that_wait_and_goes_with_them():
    bench = Bench()
    assert bench.run(("a", 3), ("b", 13)) == [] and bench.hold == 3
    assert bench.run(watermark=100) == [] and bench.hold == 3
    assert bench.run(views=[(0, 1)]) == [("a", (1,))] and bench.hold == 13
    assert bench.run(views=[(20, 9)]) == [], "nobody looks at this window"
    assert bench.run(reached=20) == [("b", ())] and bench.hold is None
    bench.watermark = MAX_TIMESTAMP
    bench.run(reached=30)
    assert bench.store.count() == {"keys": 0, "cells": 0, "marks": 0, "ids": 0, "segments": 0}


def test_what_is_known_of_one_side_input_stays_for_elements_that_wait_for_another():
    bench = Bench(sides=2)
    bench.run(("a", 3), ("b", 13), views=[(0, 1)], reached=20)
    bench.run(watermark=1_000_000_000)
    bench.watermark = MAX_TIMESTAMP
    bench.run()
    bench.run(reached=0, side=1)
    assert bench.run(views=[(0, 2)], side=1) == [("a", (1,), (2,))]
    assert bench.run(reached=20, side=1) == [("b", (), ())]
    assert bench.store.count() == {"keys": 0, "cells": 0, "marks": 0, "ids": 0, "segments": 0}


def test_late_elements_wait_without_holding():
    bench = Bench(main=Windowing.of(FIXED, allowed_lateness=20))
    bench.run(watermark=12)
    assert bench.run(("late", 3)) == [] and bench.hold is None
    assert bench.run(("in time", 13)) == [] and bench.hold == 13
    assert sorted(bench.run(reached=20)) == [("in time", ()), ("late", ())]


def test_a_view_that_is_taken_back_is_empty_until_the_next():
    bench = Bench()
    assert bench.run(("a", 1), views=[(0, 1)]) == [("a", (1,))]
    assert bench.run(("b", 1), views=[(0, 1)], retraction=True) == [("b", ())]
    assert bench.run(("c", 1), views=[(0, 2)]) == [("c", (2,))]


def test_elements_of_another_format_are_refused(monkeypatch):
    bench = Bench()
    bench.run(("a", 3))
    monkeypatch.setattr("headrace.sdk.operators.side_inputs.gate_state.FORMAT_VERSION", 2)
    with pytest.raises(StepError, match=r"wait in \[0.0, 10.0\) has format 1, this release reads 2"):
        bench.run(reached=10)


def test_several_bundles_wait_in_order():
    bench = Bench()
    for number in range(3):
        bench.run((number, 3), (number + 10, 3))
    assert [value for value, _ in bench.run((9, 3), views=[(0,)])] == [0, 10, 1, 11, 2, 12, 9]


RETRACTION = pane_info(True, True, PaneInfoTiming.UNKNOWN, 0, 0, is_retraction=True)
EMPTY = {"keys": 0, "cells": 0, "marks": 0, "ids": 0, "segments": 0}


def test_a_retraction_is_processed_with_what_its_element_has_seen():
    bench = Bench(main=Windowing.of(FIXED, allowed_lateness=5), sides=2, takes_back=True)
    bench.run(views=[(0, 7)], side=1)
    row = {"id": 1}
    assert bench.run((row, 3), ("other", 4), views=[(0, 1)]) == [(row, (1,), (7,)), ("other", (1,), (7,))]
    assert bench.run((row, 3), views=[(0, 2)]) == [(row, (2,), (7,))]
    bench.run(views=[(0, 3)])
    back = {"pane": RETRACTION}
    assert [bench.run((row, 3), **back) for _ in range(2)] == [[(row, (1,), (7,))], [(row, (2,), (7,))]]
    assert bench.run((row, 3), **back) == [(row, (3,), (7,))], "nobody knows what this one has seen"
    assert bench.run(("other", 4), ("other", 4), views=[(0, 4)], **back)[0] == ("other", (1,), (7,))
    assert bench.cells == 4, "nothing is kept but the newest views"
    bench.run(("other", 5))
    bench.run(views=[(0, 5)])
    assert bench.cells > 4
    bench.run(watermark=15)
    assert bench.store.count() == EMPTY


def test_a_retraction_of_an_element_that_saw_nothing_sees_nothing():
    bench = Bench(takes_back=True)
    assert bench.run(("a", 3), reached=10) == [("a", ())]
    bench.run(views=[(0, 1)])
    assert bench.run(("a", 3), pane=RETRACTION) == [("a", ())]
