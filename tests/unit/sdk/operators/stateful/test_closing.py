"""A key and window of a DoFn: when it closes nothing is left, whichever timer sees to that."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace.transforms.userstate import BagStateSpec, on_timer
from headrace.transforms.window import FixedWindows
from tests.unit.sdk.userstate.test_timers import EVENT, StateParam, TimerParam, do, told


class Keeping(beam.DoFn):
    """Keeps what comes in a bag, and does to its timer what comes with it."""

    BAG = BagStateSpec("bag")

    def process(self, pair, bag=StateParam(BAG), event=TimerParam(EVENT)):
        value, *commands = pair[1]
        if value is not None:
            bag.add(value)
        for method, *arguments in commands:
            getattr(event, method)(*arguments)

    @on_timer(EVENT)
    def on_event(self, bag=StateParam(BAG), event=TimerParam(EVENT), time=beam.DoFn.TimestampParam):
        yield float(time), sorted(bag.read())
        if time < 8:
            event.set(9)


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ([], [((10.0, [1]), 10.0)]),
        ([do(2)], [((10.0, [1, 2]), 10.0)]),
        ([do(2, ("set", 10))], [((10.0, [1, 2]), 10.0)]),
        ([do(2, ("clear",))], []),
        ([do(None, ("clear",))], []),
        ([do(None, ("clear",), ("set", 10))], [((10.0, [1]), 10.0)]),
        ([do(None, ("set", 6))], [((6.0, [1]), 6.0), ((9.0, [1]), 9.0)]),
        ([do(None, ("set", 10, "tag"), ("clear",))], [((10.0, [1]), 10.0)]),
        ([do(None, ("set", 10, "tag"), ("set", 9, "tag"), ("clear",))], [((9.0, [1]), 9.0)]),
        ([do(2, ("set", 10, "", 9))], [((10.0, [1, 2]), 9.0)]),
    ],
)
def test_a_timer_at_the_closing_of_its_window_sees_to_it_that_nothing_is_left_whatever_becomes_of_it(later, expected):
    assert told(Keeping(), [do(1, ("set", 10))], 3, later, 5, windows=FixedWindows(10)) == expected
