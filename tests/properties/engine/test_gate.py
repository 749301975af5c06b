"""Gates under random elements, panes, watermarks and bundles: every element goes once, with the view of its time."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.time import MAX_TIMESTAMP, SECOND
from tests.unit.sdk.operators.side_inputs.test_gate import Bench

WINDOWS = 3
element = st.tuples(st.just("element"), st.integers(0, 10 * WINDOWS - 1))
pane = st.tuples(st.just("pane"), st.integers(0, WINDOWS - 1))
reached = st.tuples(st.just("reached"), st.integers(0, 10 * WINDOWS + 5))
watermark = st.tuples(st.just("watermark"), st.integers(0, 10 * WINDOWS + 5))
bundles = st.lists(st.lists(st.one_of(element, pane, reached, watermark), max_size=4), max_size=12)


class Model:
    """What must come out, worked out from scratch with everything kept for ever."""

    def __init__(self) -> None:
        self.views: dict[int, tuple[int, ...]] = {}
        self.reached = self.watermark = -1
        self.waiting: list[tuple[int, int, bool]] = []
        """Number, second, and whether it was in time when it came."""
        self.dropped = 0

    def run(self, elements, views, reached, watermark):
        """A bundle; what is let go, as (number, values) by number."""
        self.views.update(views)
        self.reached = max(self.reached, reached)
        for number, second in elements:
            if second // 10 * 10 + 10 <= self.watermark:
                self.dropped += 1
            else:
                self.waiting.append((number, second, second >= self.watermark))
        self.watermark = max(self.watermark, watermark)
        ready = [item for item in self.waiting if self._knows(item[1] // 10)]
        self.waiting = [item for item in self.waiting if item not in ready]
        return sorted((number, self.views.get(second // 10, ())) for number, second, _ in ready)

    def _knows(self, window):
        return window in self.views or window * 10 + 10 <= self.reached

    @property
    def hold(self):
        """Where the output watermark has to wait, for elements that were in time."""
        return min((second for _, second, in_time in self.waiting if in_time), default=None)


@given(bundles)
def test_as_worked_out_from_scratch(script):
    bench, model = Bench(), Model()
    numbers = iter(range(1_000))
    counters: Counter[str] = Counter()
    sent = kept = 0
    for bundle in script:
        told = [value for kind, value in bundle if kind == "reached"]
        moves = [value for kind, value in bundle if kind == "watermark" and value * SECOND >= bench.watermark]
        elements = [(next(numbers), value) for kind, value in bundle if kind == "element"]
        views = {value: (next(numbers),) for kind, value in bundle if kind == "pane"}
        furthest = max([*told, model.reached])
        came = bench.run(
            *elements,
            views=[(window * 10, *its) for window, its in views.items()],
            reached=furthest if told else None,
            watermark=max(moves, default=None),
        )
        counters.update(bench.counters)
        assert sorted(came) == model.run(elements, views, furthest, max(moves, default=-1))
        assert counters["dropped_late"] == model.dropped
        sent, kept = sent + len(elements), kept + len(came)
        assert sent == kept + len(model.waiting) + model.dropped
        assert bench.hold == model.hold
    came = bench.run(reached=1_000)
    assert sorted(number for number, _ in came) == sorted(number for number, _, _ in model.waiting)
    bench.run(watermark=MAX_TIMESTAMP // SECOND)
    bench.watermark = MAX_TIMESTAMP
    bench.run(reached=1_001)
    assert bench.store.count() == {"keys": 0, "cells": 0, "marks": 0, "ids": 0, "segments": 0}
