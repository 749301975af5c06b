"""Which epochs are run in one task: decided by what was measured, without a clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.injectors.injector import MemorySplit, Split
from headrace.lowlevel.records.record import Batch
from headrace.runners.spark.jobs.stage_policy import LEAST_LIMIT, StageExtent


class OfUnknownSize:
    def read(self) -> Iterator[Batch]:
        return iter(())


def records(count: int) -> list[MemorySplit]:
    return [MemorySplit(Batch([0] * count, [0] * count))]


def epochs(extent: StageExtent, count: int, one: float, spread: float, work: float, share: float = 1.0) -> list[bool]:
    """Run epochs that take so many seconds either way; `work` spread, times `share` in one task."""
    ways = []
    for _ in range(count):
        ways.append(extent.choose_one_task([OfUnknownSize()]))
        extent.took(one if ways[-1] else spread, share * work if ways[-1] else work, ways[-1])
        extent.read(50_000)
    return ways


def test_the_first_epoch_is_spread_unless_it_is_known_not_to_be_large() -> None:
    assert StageExtent(1, 2).choose_one_task(records(10))
    assert StageExtent(1, 2).choose_one_task(records(50_000))
    assert not StageExtent(1, 2).choose_one_task(records(200_000))
    assert not StageExtent(1, 2).choose_one_task([OfUnknownSize()])
    assert not StageExtent(1, 2, is_allowed=False).choose_one_task([])


def test_many_records_of_little_work_are_for_one_task() -> None:
    """As figures of sums by columns are: two stages for 0.2 seconds of work that alone takes 0.07."""
    ways = epochs(StageExtent(1, 2), 120, one=0.10, spread=0.19, work=0.2, share=0.35)
    assert not ways[0]
    assert ways[6:].count(False) < 6, "it is tried soon, and then is the way to go but for a few trials"


def test_trials_and_what_stays_as_it_is_are_foreseen() -> None:
    extent = StageExtent(1, 2)
    foreseen, ways = [], []
    for _ in range(120):
        foreseen.append(extent.foresees_one_task())
        ways += epochs(extent, 1, one=0.10, spread=0.19, work=0.2, share=0.35)
    assert sum(before != after for before, after in zip(foreseen, ways, strict=True)) < 5, (
        "whenever a trial is thought of"
    )
    assert foreseen.count(True) > 100


def test_one_that_is_known_to_be_much_larger_is_spread_at_once() -> None:
    extent = StageExtent(1, 2)
    for _ in range(5):
        assert extent.choose_one_task(records(1_000))
        extent.took(0.05, busy=0.02, is_one=True)
        extent.read(1_000)
    assert extent.choose_one_task([OfUnknownSize()])
    assert not extent.choose_one_task(records(50_000))


@pytest.mark.parametrize(
    ("before", "splits", "limit"),
    [
        ([], [OfUnknownSize()], LEAST_LIMIT),
        ([50_000, 10], [OfUnknownSize()], 200_000),
        ([50_000], records(300_000), 300_000),
        ([50_000] + [1] * 16, [OfUnknownSize()], LEAST_LIMIT),
    ],
)
def test_one_task_reads_a_few_times_what_came_before_or_what_is_announced(
    before: list[int], splits: Sequence[Split], limit: int
) -> None:
    extent = StageExtent(1, 2)
    for count in before:
        extent.read(count)
    assert extent.limit(splits) == limit


def test_one_slow_epoch_changes_nothing_three_do() -> None:
    extent = StageExtent(1, 2)
    extent.took(0.05, busy=0.005, is_one=True)
    for _ in range(2):
        extent.took(1.05, busy=1.0, is_one=True)
        assert extent.choose_one_task([])
    extent.took(1.05, busy=1.0, is_one=True)
    assert not extent.choose_one_task([])


def test_one_that_was_too_much_keeps_off_for_some_epochs() -> None:
    extent = StageExtent(1, 2)
    extent.took(0.05, busy=0.005, is_one=True)
    extent.avoid_one_task()
    assert [extent.choose_one_task([]) for _ in range(10)] == [False] * 8 + [True] * 2


def test_an_epoch_of_next_to_nothing_stays_in_one_task() -> None:
    extent = StageExtent(1, 2)
    assert extent.choose_one_task(records(10))
    for _ in range(20):
        extent.took(0.05, busy=0.005, is_one=True)
        extent.read(10)
        assert extent.choose_one_task(records(10))


def test_a_task_that_stays_is_not_given_up_for_what_a_job_cannot_spare() -> None:
    """A trial of the other way ends the task that stays, and a job of two stages takes 60 ms besides its work."""
    extent = StageExtent(1, 2)
    for _ in range(40):
        assert extent.choose_one_task([])
        extent.took(0.045, busy=0.04, is_one=True)


@given(
    besides=st.floats(0.001, 0.05),
    stage=st.floats(0.02, 0.3),
    work=st.floats(0.001, 2.0),
    share=st.floats(0.4, 1.2),
    levels=st.integers(1, 8),
    width=st.integers(1, 64),
    begin=st.sampled_from([lambda extent: extent.choose_one_task([]), lambda extent: extent.took(3.0, 2.0, True)]),
)
def test_it_settles_on_what_is_quicker(
    besides: float,
    stage: float,
    work: float,
    share: float,
    levels: int,
    width: int,
    begin: Callable[[StageExtent], object],
) -> None:
    """Where stages and one task always take as long, for work that is always the same, whatever was at first."""
    extent = StageExtent(levels, width)
    begin(extent)
    one, spread = besides + share * work, (levels + 1) * stage + work / width
    ways = epochs(extent, 400, one, spread, work, share)[200:]
    if share * work >= 1.1:
        assert ways.count(True) < 5, "what is long may become longer, and others can work beside it"
    elif share * work < 0.9 and abs(one - spread) > 0.25 * max(one, spread):
        assert ways.count(one < spread) > 0.9 * len(ways)


def test_a_wrong_estimate_heals() -> None:
    """What is spread at first takes so long that the other way seems better for ever; and the other way round."""
    extent = StageExtent(1, 2)
    extent.took(9.0, busy=1.0, is_one=False)
    extent.took(9.0, busy=0.3, is_one=False)
    assert epochs(extent, 200, one=0.43, spread=0.22, work=0.4)[100:].count(True) < 10
    extent = StageExtent(1, 2)
    extent.took(0.5, busy=0.9, is_one=False)
    extent.took(0.5, busy=0.9, is_one=False)
    assert epochs(extent, 200, one=0.2, spread=0.5, work=0.9, share=0.4)[100:].count(False) < 10
