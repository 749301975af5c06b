from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.coder import encode_key, row_of
from headrace.lowlevel.sequencer import (
    SPACE,
    Mismatch,
    attempt_token,
    interval_of,
    intervals_of,
    mismatched,
    split_evenly,
)

counts = st.one_of(st.integers(1, 300), st.integers(1, 2**31))
small_counts = st.integers(1, 300)
rows = st.binary(min_size=16, max_size=16)


@given(small_counts)
def test_intervals_cover_the_space_without_overlap(count: int) -> None:
    intervals = split_evenly(count)
    assert [interval.index for interval in intervals] == list(range(count))
    assert intervals[0].start == 0
    assert intervals[-1].stop == SPACE
    assert all(one.stop == other.start for one, other in pairwise(intervals))
    sizes = {interval.stop - interval.start for interval in intervals}
    assert max(sizes) - min(sizes) <= 1


@given(rows, small_counts)
def test_a_row_is_in_the_interval_that_it_is_said_to_be_in(row: bytes, count: int) -> None:
    interval = split_evenly(count)[interval_of(row, count)]
    assert interval.start <= int.from_bytes(row[:8], "big") < interval.stop


@given(small_counts.flatmap(lambda count: st.tuples(st.just(count), st.integers(0, count - 1))))
def test_the_ends_of_an_interval(case: tuple[int, int]) -> None:
    count, index = case
    interval = split_evenly(count)[index]
    for place in (interval.start, interval.stop - 1):
        assert interval_of(place.to_bytes(8, "big") + bytes(8), count) == index


@given(st.lists(rows), counts)
def test_many_rows_at_once(many: list[bytes], count: int) -> None:
    assert intervals_of(many, count) == [interval_of(row, count) for row in many]


def test_keys_are_spread_evenly() -> None:
    found = intervals_of([row_of(encode_key(number)) for number in range(10_000)], 8)
    assert all(1100 < found.count(index) < 1400 for index in range(8))


@pytest.mark.parametrize("count", [0, -1])
def test_no_intervals_at_all(count: int) -> None:
    with pytest.raises(ValueError, match=f"cannot be split into {count} intervals; give 1 or more"):
        split_evenly(count)


def test_tokens() -> None:
    assert attempt_token(b"\xff" * 8) == "ff" * 8
    with pytest.raises(ValueError, match="7 random bytes could be given twice; give 8 or more"):
        attempt_token(bytes(7))


def test_attempts_that_fit_together() -> None:
    made = {(0, 0): "a", (0, 1): "b", (1, 0): "c"}
    assert mismatched({(0, 0): {"a"}, (0, 1): {"b"}}, made) == ()


def test_attempts_that_do_not() -> None:
    made = {(0, 0): "a", (0, 1): "b"}
    consumed = {(0, 0): {"x"}, (0, 1): {"b", "x"}, (0, 2): {"z"}, (0, 3): set()}
    assert mismatched(consumed, made) == (
        Mismatch(0, 0, "a", ("x",)),
        Mismatch(0, 1, "b", ("b", "x")),
        Mismatch(0, 2, None, ("z",)),
    )
    assert str(mismatched(consumed, made)[2]) == (
        "level 0, interval 2: no attempt is to be committed, but productions of z were used"
    )
