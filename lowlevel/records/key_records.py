"""What a bundle brings for one key: records of one stream, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.lowlevel.time import MIN_TIMESTAMP


class Part(NamedTuple):
    """Some records of one key and stream, in order."""

    stream: str
    values: Sequence[object]
    timestamps: Sequence[int]
    ids: Sequence[bytes] | None = None
    oldest: int = MIN_TIMESTAMP
    """No record is older."""


def count_late(timestamps: Sequence[int], watermark: int) -> int:
    """How many records are behind the watermark (paper §4.5).

    >>> count_late([1, 5, 3], watermark=4)
    2
    """
    return sum(map(watermark.__gt__, timestamps)) if watermark > MIN_TIMESTAMP else 0
