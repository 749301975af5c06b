"""What every row of an epoch carries is made into bytes once, and of these again once a process."""

from __future__ import annotations

from dataclasses import replace

from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.intervals.sequencer import Sequencer
from headrace.lowlevel.watermarks.propagation import Frontier
from headrace.runners.engine.messages import Control, EpochSpec, Sender, pack, unpack


def spec(epoch: int) -> EpochSpec:
    intervals = {1: IntervalMap.evenly(3, Sequencer(1, 1))}
    return EpochSpec(epoch, 1, 5, 3, intervals, Frontier({}, {}, {}), {"in": (4, False)}, {"count": 3})


def test_rows_of_an_epoch_share_what_they_say_of_it() -> None:
    first, second = (Control(spec(7), Sender(0, index, "token")) for index in (0, 1))
    found = [unpack(pack(control)) for control in (first, second)]
    assert found == [first, second]
    assert found[0].spec is found[1].spec


def test_a_changed_copy_is_not_taken_for_the_old_one() -> None:
    old = spec(7)
    pack(old)
    new = replace(old, epoch=8)
    assert unpack(pack(new)) == new != old
    assert unpack(pack(unpack(pack(new)))) == new
