"""Where: what a bundle brings, as lines by key and window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from headrace.lowlevel.arrays import of_bytes, of_equal_bytes, of_numbers
from headrace.lowlevel.columnkeys import Numbers
from headrace.lowlevel.columnparcel import ColumnParcel
from headrace.lowlevel.intervalcomputation import IntervalContext
from headrace.lowlevel.parcel import Parcel
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.sdk.arrivals import LiftedFrames
from headrace.sdk.columns.keys import ENCODED
from headrace.sdk.columns.lifted import Lifted
from headrace.sdk.columns.lines import COUNT, END, FRESH, KEPT, START, Lines
from headrace.sdk.columns.parts import objects_of
from headrace.sdk.columns.sessions import Flags
from headrace.sdk.columns.stretches import expanded


class Came(NamedTuple):
    """What came for windows that are open."""

    lines: Lines
    """In the order of its coming."""
    lost: Numbers
    """Elements of each line that are lost if its window takes nothing more: the others are in a later window too."""
    parcels: Numbers
    """Number of the parcel that each line came in."""

    def where(self, chosen: Flags) -> Came:
        """The lines for which it is true."""
        return Came(self.lines.where(chosen), self.lost[chosen], self.parcels[chosen])

    def order(self, groups: Numbers, before: Numbers, enough: Numbers) -> Numbers:
        """When each group had as many elements as it takes, for sorting: within a bundle, elements come in parcels.

        Args:
            groups: Of each line, numbered to below the number of groups.
            before: Elements that each group had already.
            enough: How many it takes.
        """
        when = np.full(len(before), len(groups), np.int64)
        if not len(groups):
            return when
        if (enough[groups] <= 1).all():
            when[groups[::-1]] = np.arange(len(groups) - 1, -1, -1)
            return when
        by_group = np.argsort(groups, kind="stable")
        its, parcels = groups[by_group], self.parcels[by_group]
        begins = np.flatnonzero((np.diff(its, prepend=-1) != 0) | (np.diff(parcels, prepend=-1) != 0))
        sums = np.cumsum(self.lines[FRESH][by_group])
        stops = np.append(begins[1:], len(its))
        owner = its[begins]
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        base = np.where(begins[first] > 0, sums[begins[first] - 1], 0)
        sizes = np.diff(np.append(first, len(owner)))
        reached = sums[stops - 1] - np.repeat(base, sizes) + before[owner] >= enough[owner]
        chosen = np.flatnonzero(reached)[::-1]
        when[owner[chosen]] = by_group[begins[chosen]]
        return when


@dataclass(frozen=True, slots=True)
class LineArrivals:
    """Makes lines of lifted elements."""

    frames: LiftedFrames
    size: int | None
    """Microseconds of a window; None for the global one."""
    width: int
    """Number of columns that reducers keep."""

    def of(self, parcels: Sequence[Parcel], context: IntervalContext, closed_until: int) -> Came:
        """Those of windows that end later; the others' elements are counted as late."""
        made = [self._of_parcel(parcel) for parcel in parcels]
        lines = Lines.joined([its for its, _ in made], self.width)
        lost = np.concatenate([np.empty(0, np.int64), *(lost for _, lost in made)])
        number = np.repeat(np.arange(len(made)), [len(its) for its, _ in made])
        open_ = lines[END] > closed_until
        if late := int(lost[~open_].sum()):
            context.count("dropped_late", late)
        if records := sum(map(_elements, parcels)):
            context.count("records", records)
        return Came(lines, lost, number).where(open_)

    def _of_parcel(self, parcel: Parcel) -> tuple[Lines, Numbers]:
        if isinstance(parcel, ColumnParcel) and isinstance(parcel.batch.shape, Lifted):
            return self._of_columns(parcel, parcel.batch.shape)
        return self._of_values(parcel)

    def _of_columns(self, parcel: ColumnParcel, shape: Lifted) -> tuple[Lines, Numbers]:
        table = parcel.batch.table
        rows, keys = parcel.of_each_record()
        places, ends, is_last = expanded(shape.starts(table), lambda start: self.frames.of(shape.buckets.code(start)))
        where = of_numbers(places)
        lines = Lines.new(rows.take(where), keys.take(where), self.width)
        lines[START] = MIN_TIMESTAMP if self.size is None else ends - self.size
        lines[END] = ends
        lines[COUNT] = lines[FRESH] = shape.counts(table)[places]
        for place, column in enumerate(shape.kept(table)):
            lines[KEPT + place] = column[places]
        return lines, np.where(is_last, lines[COUNT], 0)

    def _of_values(self, parcel: Parcel) -> tuple[Lines, Numbers]:
        values = cast("Sequence[tuple[object, tuple[bytes, object, int, int]]]", parcel.values)
        owners = np.repeat(np.arange(len(parcel.rows)), parcel.counts).tolist()
        found: list[tuple[int, int, int, int, int]] = []
        accumulators: list[object] = []
        for owner, (_, (code, accumulator, count, lost)) in zip(owners, values, strict=True):
            for frame in self.frames.of(code):
                found.append((owner, frame.start, frame.end, count, lost))
                accumulators.append((accumulator,))
                lost = 0
        columns = np.array(found, np.int64).reshape(-1, 5).T
        where = of_numbers(columns[0])
        rows, keys = of_equal_bytes(parcel.rows, 16).take(where), of_bytes(parcel.keys, ENCODED).take(where)
        lines = Lines.new(rows, keys, self.width, objects_of(accumulators))
        lines[START], lines[END] = columns[1], columns[2]
        lines[COUNT] = lines[FRESH] = columns[3]
        return lines, columns[4]


def _elements(parcel: Parcel) -> int:
    if isinstance(parcel, ColumnParcel) and isinstance(parcel.batch.shape, Lifted):
        return int(parcel.batch.shape.counts(parcel.batch.table).sum())
    values = cast("Sequence[tuple[object, tuple[bytes, object, int, int]]]", parcel.values)
    return sum(count for _, (_, _, count, _) in values)
