"""Raw computations by columns do what the same ones do record by record, whatever comes, and wherever it is cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.time import MIN_TIMESTAMP
from tests.properties.computation_strategies import (
    BySums,
    BySumsOfColumns,
    Element,
    OneByOne,
    OneByOneOfColumns,
    Running,
    Step,
)

KEYS = st.sampled_from(["anna", "boris", "carla", "", "ö"]) | st.integers(0, 3) | st.tuples(st.integers(0, 2))
ELEMENTS = st.lists(st.tuples(KEYS, st.integers(-5, 20), st.integers(-30, 120)), max_size=30)
STEPS = st.lists(
    st.tuples(ELEMENTS, st.integers(0, 40), st.booleans(), st.integers(1, 3), st.sampled_from([0, 0, 1, 2, 5])),
    max_size=8,
)
"""Elements, how far the watermark goes on, whether they come as columns, in how many batches, and how many intervals
there are from then on (0: as many as before)."""


def run(way: type, steps: list[tuple[list[Element], int, bool, int, int]]) -> Running:
    running = Running(way)
    watermark = MIN_TIMESTAMP
    for elements, onward, as_columns, batches, intervals in steps:
        watermark = onward if watermark == MIN_TIMESTAMP else watermark + onward
        running.step(Step(elements, watermark, as_columns), batches)
        if intervals:
            running.cut(IntervalMap.evenly(intervals))
    running.end()
    return running


@given(STEPS)
def test_sums_and_late_records(steps: list[tuple[list[Element], int, bool, int, int]]) -> None:
    one, other = run(BySums, steps), run(BySumsOfColumns, steps)
    assert one.told() == other.told()
    assert one.holds == other.holds
    assert one.counters == other.counters


@given(STEPS)
def test_timers_that_stay_apart(steps: list[tuple[list[Element], int, bool, int, int]]) -> None:
    one, other = run(OneByOne, steps), run(OneByOneOfColumns, steps)
    assert one.told() == other.told()
    assert not other.stored()
    # Record by record, timers of a key and time are one.
    assert other.counters["timers"] == other.counters["records"] == one.counters["records"]
