"""Records, and batches of them as parallel sequences (MillWheel paper §3: key, value, timestamp)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel.stored_names import stored_as
from headrace.lowlevel.time import MIN_TIMESTAMP

_Tuple = TypeVar("_Tuple", bound=tuple[object, ...])


@stored_as("Record")
class Record(NamedTuple):
    """One (key, value, timestamp) triple as a computation sees it.

    A named tuple, as that is the fastest immutable object to make, and one is made for every record.

    >>> Record("britney", 1, 5_000_000)
    Record(key='britney', value=1, timestamp=5000000, id=None)
    """

    key: object
    """The result of the consumer's key extractor for the value."""
    value: object
    timestamp: int
    """Event time in microseconds UTC."""
    id: bytes | None = None
    """Unique id by which a redelivery is recognised; None where no redelivery can happen."""


@dataclass(slots=True)
class Batch:
    """Records of one stream as parallel columns; the unit in which inline computations and sinks work.

    >>> batch = Batch([1, 2], [10, 20])
    >>> len(batch), list(batch.rows())
    (2, [(1, 10), (2, 20)])
    """

    values: Sequence[object] = field(default_factory=list)
    timestamps: Sequence[int] = field(default_factory=list)
    """Event times in microseconds UTC, as many as values."""
    ids: Sequence[bytes] | None = None
    """Unique ids, as many as values; None where no redelivery can happen."""

    def __len__(self) -> int:
        return len(self.values)

    def rows(self) -> Iterator[tuple[object, int]]:
        """Pairs of value and timestamp."""
        return zip(self.values, self.timestamps, strict=True)

    def instants(self) -> Sequence[int] | NDArray[np.int64]:
        """The event times in microseconds UTC, as a sequence or an int64 array."""
        return self.timestamps

    def greatest(self) -> int:
        """The greatest timestamp, microseconds UTC. Raises `ValueError` for an empty batch."""
        return max(self.timestamps)

    def count_before(self, watermark: int) -> int:
        """How many records are behind the watermark (paper §4.5)."""
        return sum(map(watermark.__gt__, self.timestamps)) if watermark > MIN_TIMESTAMP else 0

    def parts(self) -> Sequence[Batch]:
        """The batches that this batch consists of."""
        return [self]


new_tuple: Callable[[type[_Tuple], Iterable[object]], _Tuple] = cast("Any", tuple.__new__)
"""Makes a named tuple from the values of all fields, in half the time of its constructor, a Python function."""


Emit = Callable[[str, Batch], None]
"""Hands a batch to the stream of that name."""
KeyExtractor = Callable[..., object]
"""Returns the key of a value; the consumer chooses an extractor for each input stream (paper §4.2)."""


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
