"""What: the rows that one side of a join by time keeps for a key, in the order of their times.

Rows of successive times share a cell, so that an epoch reads and writes those that it needs, however many are kept.
Times are microseconds UTC.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology.computation import Context

NEVER = MAX_TIMESTAMP + 1
"""An instant that no watermark reaches."""


@dataclass(slots=True, eq=False)
class KeptRow:
    """A row of one side."""

    time: int
    value: object
    hold: int
    """The output watermark is held at this event time until the row has come out."""
    partners: int = 0
    """How many rows of the other side it was matched with, if their number matters."""
    said: tuple[object] | None = None
    """The right row that its own result has, None for no right row; no tuple as long as it has no result."""
    end: int = NEVER
    """The time from which on the row does not count."""


_time = attrgetter("time")
_stored = attrgetter(*KeptRow.__slots__)


class Outlook(NamedTuple):
    """What is still to come of a row; each is `NEVER` if it is not."""

    freed: int
    """The watermark that frees the row."""
    due: int = NEVER
    """The watermark at which a result of the row is due."""
    hold: int = NEVER
    """The event time at which it holds the output watermark."""


class KeptRows:
    """The rows of one side and key during a bundle.

    Args:
        context: The context of the key.
        prefix: The first bytes of the names of the side's cells.
        width: Length of the time whose rows share a cell, at least 1 microsecond.
        index: For each cell, its number, the watermark at which it is due, and the least hold of its rows.
    """

    def __init__(self, context: Context, prefix: bytes, width: int, index: Iterable[tuple[int, int, int]]) -> None:
        self._context, self._prefix, self._width = context, prefix, width
        self._index = {number: (due, hold) for number, due, hold in index}
        self._numbers = sorted(self._index)
        self._open: dict[int, list[KeptRow]] = {}
        """The cells that were read, by number."""
        self._changed: set[int] = set()

    def add(self, row: KeptRow) -> None:
        """Keep a row, behind those of its time."""
        number = row.time // self._width
        if number not in self._index:
            self._index[number] = NEVER, NEVER
            insort(self._numbers, number)
        insort(self._rows(number), row, key=_time)
        self._changed.add(number)

    def remove(self, row: KeptRow) -> None:
        """Keep a row no longer."""
        self.note(row)
        self._rows(row.time // self._width).remove(row)

    def note(self, row: KeptRow) -> None:
        """Note that a row was changed in place."""
        self._changed.add(row.time // self._width)

    def clear(self) -> None:
        """Keep no row."""
        for number in self._numbers:
            self._open[number] = []
        self._changed.update(self._numbers)

    def between(self, first: int, last: int) -> Iterator[KeptRow]:
        """The rows of these times, both included, from the oldest to the newest."""
        for number in self._cells(first, last):
            rows = self._rows(number)
            yield from rows[bisect_left(rows, first, key=_time) : bisect_right(rows, last, key=_time)]

    def newest_first(self, last: int) -> Iterator[KeptRow]:
        """The rows up to a time, which is included, from the newest to the oldest."""
        for number in reversed(self._cells(MIN_TIMESTAMP, last)):
            rows = self._rows(number)
            for place in range(bisect_right(rows, last, key=_time) - 1, -1, -1):
                yield rows[place]

    def note_due(self, watermark: int) -> None:
        """Note the rows of cells that are due at the watermark as changed."""
        self._changed.update(number for number, (due, _) in self._index.items() if due <= watermark)

    def changed(self) -> Iterator[KeptRow]:
        """The rows of the cells in which a row was changed, from the oldest to the newest."""
        for number in sorted(self._changed):
            yield from self._rows(number)

    def store(self, watermark: int, outlook: Callable[[KeptRow], Outlook]) -> tuple[tuple[int, int, int], ...]:
        """Write what has changed, without the rows that the watermark frees; returns the index."""
        for number in self._changed:
            kept, freed, due, hold = [], MIN_TIMESTAMP, NEVER, NEVER
            for row in self._rows(number):
                its = outlook(row)
                if its.freed > watermark:
                    kept.append(_stored(row))
                    freed, due, hold = max(freed, its.freed), min(due, its.due), min(hold, its.hold)
            self._context.write(self._cell(number), dumps(kept) if kept else None)
            self._index[number] = min(freed, due), hold
            if not kept:
                del self._index[number]
                self._numbers.remove(number)
        return tuple((number, *self._index[number]) for number in self._numbers)

    def _cells(self, first: int, last: int) -> list[int]:
        numbers, width = self._numbers, self._width
        return numbers[bisect_left(numbers, first // width) : bisect_right(numbers, last // width)]

    def _rows(self, number: int) -> list[KeptRow]:
        rows = self._open.get(number)
        if rows is None:
            data = self._context.read(self._cell(number))
            rows = self._open[number] = [] if data is None else [KeptRow(*each) for each in loads(data)]
        return rows

    def _cell(self, number: int) -> bytes:
        return self._prefix + (number + (1 << 63)).to_bytes(8)
