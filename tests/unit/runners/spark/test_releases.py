"""Spark's hash of an integer, undone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.runners.spark.releases import unhashed

INTEGERS = st.integers(-(1 << 31), (1 << 31) - 1)


def hashed(number: int) -> int:
    """Spark's `Murmur3_x86_32.hashInt` with the seed 42, as it is written there."""

    def times(one: int, other: int) -> int:
        return one * other & 0xFFFFFFFF

    def rotated(one: int, bits: int) -> int:
        return (one << bits | one >> 32 - bits) & 0xFFFFFFFF

    mixed = times(rotated(times(number & 0xFFFFFFFF, 0xCC9E2D51), 15), 0x1B873593)
    found = times(rotated(42 ^ mixed, 13), 5) + 0xE6546B64 & 0xFFFFFFFF
    found ^= 4
    found = times(found ^ found >> 16, 0x85EBCA6B)
    found = times(found ^ found >> 13, 0xC2B2AE35)
    found ^= found >> 16
    return found - (1 << 32) if found >> 31 else found


@given(INTEGERS)
def test_the_hash_of_what_is_unhashed(number: int) -> None:
    assert hashed(unhashed(number)) == number
    assert unhashed(hashed(number)) == number


@given(st.integers(1, 10_000), st.data())
def test_each_partition_is_the_remainder_of_a_hash(partitions: int, data: st.DataObject) -> None:
    partition = data.draw(st.integers(0, partitions - 1))
    assert hashed(unhashed(partition)) % partitions == partition
