from __future__ import annotations

import pickle
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.intervals.interval_map import SPACE, Interval, IntervalMap
from headrace.lowlevel.intervals.sequencer import Sequencer

counts = st.integers(1, 300)
rows = st.binary(min_size=16, max_size=16)
NOW = Sequencer(2, 9)


@given(counts)
def test_intervals_cover_the_space_without_overlap(count: int) -> None:
    intervals = IntervalMap.evenly(count).intervals
    assert [(one.number, one.owner) for one in intervals] == [(index, index) for index in range(count)]
    assert intervals[0].start == 0
    assert intervals[-1].stop == SPACE
    assert all(one.stop == other.start for one, other in pairwise(intervals))
    sizes = {interval.stop - interval.start for interval in intervals}
    assert max(sizes) - min(sizes) <= 1


@given(rows, counts)
def test_a_row_is_in_the_interval_that_it_is_said_to_be_in(row: bytes, count: int) -> None:
    interval = IntervalMap.evenly(count).of(row)
    assert interval.start <= int.from_bytes(row[:8], "big") < interval.stop


@given(counts.flatmap(lambda count: st.tuples(st.just(count), st.integers(0, count - 1))))
def test_the_ends_of_an_interval(case: tuple[int, int]) -> None:
    count, number = case
    intervals = IntervalMap.evenly(count)
    interval = intervals[number]
    for place in (interval.start, interval.stop - 1):
        assert intervals.of(place.to_bytes(8, "big") + bytes(8)) == interval


@given(counts, st.lists(rows, max_size=5))
def test_many_rows_are_where_each_is(count: int, some: list[bytes]) -> None:
    """Also those just where an interval begins, where the balancer cuts."""
    intervals = IntervalMap.evenly(count)
    edges = [place for one in intervals for place in (one.start, one.stop - 1)]
    all_rows = [place.to_bytes(8, "big") + bytes(8) for place in edges] + some
    assert intervals.indices_of(b"".join(all_rows)).tolist() == [intervals.index_of(row) for row in all_rows]


def test_keys_are_spread_evenly() -> None:
    intervals = IntervalMap.evenly(8)
    found = [intervals.of(key_hash_of(encode_key(number))).number for number in range(10_000)]
    assert all(1100 < found.count(number) < 1400 for number in range(8))


@pytest.mark.parametrize("count", [0, -1])
def test_no_intervals_at_all(count: int) -> None:
    with pytest.raises(ValueError, match=f"cannot be split into {count} intervals; give 1 or more"):
        IntervalMap.evenly(count)


def test_a_split_a_merge_and_a_move_have_new_sequencers() -> None:
    halves = IntervalMap.evenly(2, Sequencer(1, 1))
    cut = halves.split(0, 5, owner=1, sequencer=NOW)
    assert [one[:4] for one in cut] == [(2, 0, 5, 0), (3, 5, SPACE // 2, 1), (1, SPACE // 2, SPACE, 1)]
    assert [one.sequencer for one in cut] == [NOW, NOW, Sequencer(1, 1)]
    joined = cut.merge(3, owner=0, sequencer=NOW)
    assert [one[:4] for one in joined] == [(2, 0, 5, 0), (4, 5, SPACE, 0)]
    moved = halves.move(1, owner=0, sequencer=NOW)
    assert [(one.number, one.owner, one.sequencer) for one in moved] == [(0, 0, Sequencer(1, 1)), (1, 0, NOW)]
    assert [one.sequencer for one in moved.taken_over(Sequencer(3, 1))] == [Sequencer(3, 1)] * 2
    assert pickle.loads(pickle.dumps(joined)) == joined


@pytest.mark.parametrize("at", [0, SPACE // 2, SPACE])
def test_a_cut_must_lie_inside(at: int) -> None:
    with pytest.raises(ValueError, match=f"interval 0 cannot be split at {at}; give a position between 0 and"):
        IntervalMap.evenly(2).split(0, at, owner=0, sequencer=NOW)


def test_the_last_interval_has_nothing_behind_it() -> None:
    with pytest.raises(ValueError, match="interval 1 is the last; merge the interval before it"):
        IntervalMap.evenly(2).merge(1, owner=0, sequencer=NOW)


@pytest.mark.parametrize(
    "intervals",
    [
        (),
        (Interval(0, 0, 5),),
        (Interval(0, 0, 5), Interval(1, 6, SPACE)),
        (Interval(0, 0, 5), Interval(1, 4, SPACE)),
        (Interval(0, 0, 5), Interval(0, 5, SPACE)),
        (Interval(0, 0, SPACE), Interval(1, SPACE, SPACE)),
    ],
)
def test_what_is_no_map(intervals: tuple[Interval, ...]) -> None:
    with pytest.raises(ValueError, match="is no map of the key space"):
        IntervalMap(intervals)


@pytest.mark.parametrize("seed", range(20))
def test_as_runs_a_map_is_small_and_comes_back_whatever_has_become_of_it(seed):
    dice = random.Random(seed)
    even = IntervalMap.evenly(dice.choice([1, 2, 3, 7, 2000]), Sequencer(1, 1), first=dice.randrange(5))
    assert len(pickle.dumps(even)) < 300
    changed = even
    for epoch in range(dice.randrange(12)):
        interval, now = dice.choice(changed.intervals), Sequencer(1, 2 + epoch)
        owner = dice.randrange(9)
        if dice.random() < 0.6:
            changed = changed.split(interval.number, dice.randrange(interval.start + 1, interval.stop), owner, now)
        elif dice.random() < 0.5 or interval.stop == SPACE:
            changed = changed.move(interval.number, owner, now)
        else:
            changed = changed.merge(interval.number, owner, now)
    found = pickle.loads(pickle.dumps(changed))
    assert found == changed
    assert len(pickle.dumps(changed)) < 300 + 12 * 300
    for interval in changed:
        assert found[interval.number] == interval
        assert interval in found.owned(interval.owner)
    assert found.numbers.tolist() == [interval.number for interval in changed]
