"""Where streams leave a task: all that it has for one sink, put together of the batches that came."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import cast

from headrace.lowlevel.record import Batch


class Collected(Batch):
    """Batches end to end: what a task has for a sink. Values and timestamps are put together when somebody asks.

    >>> collected = Collected()
    >>> collected.add(Batch(["a"], [1])), collected.add(Batch(["b"], [2]))
    (None, None)
    >>> len(collected), collected.values, collected.timestamps
    (2, ['a', 'b'], [1, 2])
    """

    __slots__ = ("_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[Batch] = []
        self._size = 0
        self.ids = None

    def add(self, batch: Batch) -> None:
        """Put a batch behind the others; its ids are left out."""
        self._size += len(batch)
        if type(batch) is not Batch:
            self._parts.append(batch)
            return
        # Batches of one record are common: they are not kept as such.
        if not self._parts or type(self._parts[-1]) is not Batch:
            self._parts.append(Batch([], []))
        cast("list[object]", self._parts[-1].values).extend(batch.values)
        cast("list[int]", self._parts[-1].timestamps).extend(batch.timestamps)

    def __getattr__(self, name: str) -> object:
        # Only asked for what is not there yet.
        if name == "values":
            self.values = list(chain.from_iterable(part.values for part in self._parts))
            return self.values
        if name == "timestamps":
            self.timestamps = list(chain.from_iterable(part.timestamps for part in self._parts))
            return self.timestamps
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __len__(self) -> int:
        return self._size

    def parts(self) -> Sequence[Batch]:
        """See `Batch`."""
        return self._parts
