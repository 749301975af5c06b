"""Which epochs are run in one task: decided by what was measured, without a clock of its own."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.injector import MemorySplit
from headrace.lowlevel.record import Batch
from headrace.runners.spark.extent import MOST_RECORDS, Extent


class OfUnknownSize:
    def read(self) -> Iterator[Batch]:
        return iter(())


def records(count: int) -> list[MemorySplit]:
    return [MemorySplit(Batch([0] * count, [0] * count))]


def test_the_first_epoch_is_spread_unless_it_is_known_to_be_small() -> None:
    assert Extent(1, 2).is_one(records(10))
    assert not Extent(1, 2).is_one(records(2_000))
    assert not Extent(1, 2).is_one([OfUnknownSize()])
    assert not Extent(1, 2, is_allowed=False).is_one([])


def test_a_large_epoch_is_spread_whatever_went_before() -> None:
    extent = Extent(3, 2)
    for _ in range(5):
        extent.took(0.05, busy=0.005, stages=1)
    assert extent.is_one([OfUnknownSize()])
    assert not extent.is_one(records(MOST_RECORDS + 1))
    assert extent.is_one(records(MOST_RECORDS))


def test_one_slow_epoch_changes_nothing_two_do() -> None:
    extent = Extent(1, 2)
    extent.took(0.05, busy=0.005, stages=1)
    extent.took(1.05, busy=1.0, stages=1)
    assert extent.is_one([])
    extent.took(1.05, busy=1.0, stages=1)
    assert not extent.is_one([])


def test_one_that_was_too_much_keeps_off_for_some_epochs() -> None:
    extent = Extent(1, 2)
    extent.took(0.05, busy=0.005, stages=1)
    extent.was_too_much()
    assert [extent.is_one([]) for _ in range(10)] == [False] * 8 + [True] * 2


@given(
    stage=st.floats(0.005, 1.0),
    work=st.floats(0.001, 10.0),
    levels=st.integers(0, 8),
    width=st.integers(1, 64),
    start=st.booleans(),
)
def test_it_settles_on_what_is_quicker(stage: float, work: float, levels: int, width: int, start: bool) -> None:
    """On a machine where a stage always takes as long, for work that is always the same."""
    extent = Extent(levels, width)
    one, spread = stage + work, (levels + 1) * stage + work / width
    extent.took(one if start else spread, work, 1 if start else levels + 1)
    for _ in range(60):
        is_one = extent.is_one([])
        extent.took(one if is_one else spread, work, 1 if is_one else levels + 1)
    if work < 0.5 and abs(one - spread) > 0.02 * stage:
        assert extent.is_one([]) == (one < spread)
    if work >= 0.5:
        assert not extent.is_one([]), "what is long may become longer, and others can work beside it"
