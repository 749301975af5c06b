"""What travels: records, and the columns of a batch of them (MillWheel paper §3: key, value, timestamp)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel.time import MIN_TIMESTAMP

_Tuple = TypeVar("_Tuple", bound=tuple[object, ...])


class Record(NamedTuple):
    """One (key, value, timestamp) triple as a computation sees it.

    A named tuple rather than a dataclass: one is made for every record, and this is the quickest value that
    cannot be changed.

    >>> Record("britney", 1, 5_000_000)
    Record(key='britney', value=1, timestamp=5000000, id=None)
    """

    key: object
    """What the consumer's key extractor made of the value."""
    value: object
    timestamp: int
    """Event time in microseconds UTC."""
    id: bytes | None = None
    """The unique id under which a redelivery is recognised; None where the engine itself excludes repeats."""


@dataclass(slots=True)
class Batch:
    """Records of one stream as parallel columns; the unit in which inline computations and sinks work.

    >>> batch = Batch([1, 2], [10, 20])
    >>> len(batch), list(batch.rows())
    (2, [(1, 10), (2, 20)])
    """

    values: Sequence[object] = field(default_factory=list)
    timestamps: Sequence[int] = field(default_factory=list)
    """Event times in microseconds UTC, one a value."""
    ids: Sequence[bytes] | None = None
    """Unique ids, one a value, or None where no redelivery can happen."""

    def __len__(self) -> int:
        return len(self.values)

    def rows(self) -> Iterator[tuple[object, int]]:
        """Pairs of value and timestamp."""
        return zip(self.values, self.timestamps, strict=True)

    def instants(self) -> Sequence[int] | NDArray[np.int64]:
        """The event times in whatever form is at hand."""
        return self.timestamps

    def greatest(self) -> int:
        """The greatest timestamp; there must be a record."""
        return max(self.timestamps)

    def count_before(self, watermark: int) -> int:
        """How many records are behind the watermark (paper §4.5)."""
        return sum(map(watermark.__gt__, self.timestamps)) if watermark > MIN_TIMESTAMP else 0

    def parts(self) -> Sequence[Batch]:
        """The batches that it is put together of."""
        return [self]


new_tuple: Callable[[type[_Tuple], Iterable[object]], _Tuple] = cast("Any", tuple.__new__)
"""Makes a named tuple of all its fields, in half the time of the class's own constructor, which is Python."""


Emit = Callable[[str, Batch], None]
"""Hands a batch to the stream of that name."""
KeyExtractor = Callable[..., object]
"""From a value to its key; chosen by the consumer for each input stream (paper §4.2)."""
