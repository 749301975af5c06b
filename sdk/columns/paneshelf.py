"""What: windows that stay after a pane, as lines in segments (a log-structured store); see also `shelf`.

A bundle writes the lines that it changes, each with all that there is to know of its window; of several lines of a
window the one of the latest epoch counts. To change one, it is looked for by its key in the segments with windows of
that end. That the watermark has reached the end of a window is not written: it follows from the watermark. So a window
is read as a whole once at its end, once more when it closes if it may have something to say then, and its segments go.
When there are many segments of about one size, they become one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel import segment
from headrace.lowlevel.intervalcomputation import IntervalContext
from headrace.sdk.columns.lines import AGE, END, Lines
from headrace.sdk.columns.shelf import WAKES, Name, crowded, cuts, tier_of


@dataclass(slots=True)
class PaneShelf:
    """The segments of one interval, during one bundle."""

    context: IntervalContext
    _names: dict[bytes, Name] = field(init=False)
    _written: int = 0

    def __post_init__(self) -> None:
        told = ((name, Name.decode(name)) for name in self.context.copy.segment_names())
        self._names = {name: its for name, its in told if its.tier < WAKES}

    def ending(self, after: int, until: int) -> Iterator[Lines]:
        """The lines of windows that end after one time, and until another, some of them out of date."""
        if after < until:
            for name, told in self._names.items():
                if told.least <= until and told.greatest > after:
                    lines = self._read(name)
                    yield lines.where((lines[END] > after) & (lines[END] <= until))

    def of_windows(self, wanted: Lines) -> Iterator[Lines]:
        """The lines of keys in windows, some of them out of date or of other keys in these windows."""
        if not len(wanted) or not self._names:
            return
        ends, places = np.unique(wanted[END]), np.unique(segment.places(wanted.rows))
        for name, told in self._names.items():
            if np.searchsorted(ends, told.least) < np.searchsorted(ends, told.greatest, "right"):
                lines = self._read(name, places)
                yield lines.where(np.isin(lines[END], ends))

    def keep(self, lines: Lines, closed_until: int) -> None:
        """Write lines; before that, drop what is closed and make one of many segments if it is time for that."""
        for name in [name for name, told in self._names.items() if told.greatest <= closed_until]:
            self._drop(name)
        for names in crowded(self._names):
            self._compact(names, closed_until)
        lines[AGE] = self.context.epoch
        self._write(lines)

    def _read(self, name: bytes, wanted: NDArray[np.uint64] | None = None) -> Lines:
        contents = self.context.copy.segment(name)
        assert contents is not None, "it is in the list of names"
        return Lines.decode(contents, wanted)

    def _drop(self, name: bytes) -> None:
        self.context.drop(name)
        del self._names[name]

    def _compact(self, names: Sequence[bytes], closed_until: int) -> None:
        """One segment, or a few, instead of many; what is closed or out of date is left out."""
        parts = [self._read(name) for name in names]
        for name in names:
            self._drop(name)
        self._write(Lines.joined([part.where(part[END] > closed_until) for part in parts], 0).newest())

    def _write(self, lines: Lines) -> None:
        if not len(lines):
            return
        lines = lines.taken(np.argsort(lines[END], kind="stable"))
        ends = lines[END]
        for begin, end in cuts(ends):
            bounds = int(ends[begin]), int(ends[end - 1])
            name = Name(*bounds, tier_of(end - begin), self.context.epoch, self.context.interval, self._written)
            self._written += 1
            self.context.put(name.encode(), lines.taken(np.arange(begin, end)).by_key().encode())
