"""The rows of one task for one sink, collected from the batches of an epoch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import cast

from headrace.lowlevel.records.record import Batch


class Collected(Batch):
    """A batch that concatenates other batches. It has no ids.

    >>> collected = Collected()
    >>> collected.add(Batch(["a"], [1])), collected.add(Batch(["b"], [2]))
    (None, None)
    >>> len(collected), collected.values, collected.timestamps
    (2, ['a', 'b'], [1, 2])
    """

    __slots__ = ("_parts", "_size", "_timestamps", "_values")

    def __init__(self) -> None:
        self._parts: list[Batch] = []
        self._size = 0
        self.ids = None
        self._values: list[object] | None = None
        self._timestamps: list[int] | None = None

    def add(self, batch: Batch) -> None:
        """Append a batch, without its ids."""
        self._size += len(batch)
        self._values = self._timestamps = None
        if type(batch) is not Batch:
            self._parts.append(batch)
            return
        # Batches of one record are common; plain batches are therefore merged into one.
        if not self._parts or type(self._parts[-1]) is not Batch:
            self._parts.append(Batch([], []))
        cast("list[object]", self._parts[-1].values).extend(batch.values)
        cast("list[int]", self._parts[-1].timestamps).extend(batch.timestamps)

    # mypy: the base class has fields that can be set; here they are made of columns at the first look, and read-only.
    @property
    def values(self) -> list[object]:  # type: ignore[override]  # a field in the base class
        """The values of all batches as one list, made at the first access."""
        if self._values is None:
            self._values = list(chain.from_iterable(part.values for part in self._parts))
        return self._values

    @property
    def timestamps(self) -> list[int]:  # type: ignore[override]  # a field in the base class
        """The event times of all batches, microseconds UTC, as one list made at the first access."""
        if self._timestamps is None:
            self._timestamps = list(chain.from_iterable(part.timestamps for part in self._parts))
        return self._timestamps

    def __len__(self) -> int:
        return self._size

    def parts(self) -> Sequence[Batch]:
        """See `Batch`."""
        return self._parts
