"""Records of one key and stream, as parallel sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.lowlevel.time import MIN_TIMESTAMP


class KeyRecords(NamedTuple):
    """Some records of one key and stream, in order."""

    stream: str
    values: Sequence[object]
    timestamps: Sequence[int]
    """Event times in microseconds UTC, as many as values."""
    ids: Sequence[bytes] | None = None
    """Unique ids, as many as values; None where no redelivery can happen."""
    oldest: int = MIN_TIMESTAMP
    """Lower bound of the timestamps, microseconds UTC."""


Keys = dict[bytes, tuple[bytes, list[KeyRecords]]]
"""16-byte hash of a key -> (encoded key, records of the key)."""


def count_late(timestamps: Sequence[int], watermark: int) -> int:
    """How many records are behind the watermark (paper §4.5).

    >>> count_late([1, 5, 3], watermark=4)
    2
    """
    return sum(map(watermark.__gt__, timestamps)) if watermark > MIN_TIMESTAMP else 0
