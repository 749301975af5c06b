"""When and how for a join of all keys of an interval at once: vectorized `Join` and `CoGroupByKey`.

A `CoGroupByKey` is a grouping of the elements of several collections, its sides, tagged with the number of their side,
and a step that makes a list of each side's elements; `ColumnCoGroup` does the work of both. A `Join` is a
`CoGroupByKey` and a step that pairs the elements of each group; `ColumnJoin` does the work of all three. Their state is
that of a `ColumnGroupByKey`; when windows end, they number the keys and windows of all sides, and take the elements of
each side by index. Of a `Join`:

    left   key  window      right  key  window      out  left  right
    0      a    1           0      a    1                 0     0
    1      a    1           1      b    1                 1     0
    2      b    2                                         2     None   (as b's windows differ; only if kept)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, repeat
from typing import NamedTuple, TypeAlias, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import numbers_in, of_numbers
from headrace.lowlevel.columnar.key_columns import Numbers, first_indices
from headrace.lowlevel.records.column_batch import ColumnBatch, Single, Tuple, ValueSchema
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.sdk.expressions.element_schema import Fields, FieldsKind, Fired, OrNone, windows_between
from headrace.sdk.functions.matched import Assembled, Matched
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.fusion.stage_plan import report_elements
from headrace.sdk.operators.vectorized.column_group_by_key import ColumnGroupByKey
from headrace.sdk.operators.vectorized.pane_output import ONLY_PANE
from headrace.sdk.operators.vectorized.state.element_table import (
    COUNT,
    END,
    EPOCH,
    POSITION,
    START,
    ElementTable,
    ValueColumns,
    concatenated_values,
    unpickled_lists,
)
from headrace.sdk.operators.vectorized.state.window_table import KEY_HASH, window_groups
from headrace.sdk.windows.windowing import Windowing

_PORTION = 100_000
"""Largest number of rows in a batch of columns."""
_FEW = 25_000
"""Largest number of rows in a batch of Python values."""


@named("ColumnJoin")
class ColumnJoin(ColumnGroupByKey):
    """Pairs the elements of both sides of each key and window, and emits them as rows when the window ends.

    Args:
        windowing: Fixed, calendar or global windows with one pane, for which `eligibility.obstacle` is None.
        input_forms: Form of the payloads of each input stream, which are pairs of side (0 or 1) and element.
        output_stream: Stream to which rows are sent, in the form FIRED.
        matched: The pairs that are made.
        steps: Labels of the steps that assemble and pair the elements of groups, whose work this is: two, in order.
    """

    def __init__(
        self,
        windowing: Windowing,
        input_forms: Mapping[str, GroupingInputForm],
        output_stream: str,
        matched: Matched,
        steps: Sequence[str],
    ) -> None:
        super().__init__(windowing, input_forms, output_stream)
        self._matched, self._steps = matched, steps

    def _emit(self, tables: list[ElementTable], context: IntervalContext) -> None:
        """Emit the rows of each key and window; those of a key are in the order of the ends of their windows."""
        parts = _parts(tables, 2)
        if not any(parts):
            return
        left, right = map(_Side.of, parts)
        pairs = _Pairs.of(left, right, self._matched)
        rows, groups = int(pairs.stops[-1]), len(pairs.stops)
        by_column = left.values is None or isinstance(left.values, ValueColumns)
        by_column &= right.values is None or isinstance(right.values, ValueColumns)
        for label, count in zip(self._steps, (groups, rows), strict=True):
            report_elements(label, groups, count, groups if by_column else 0)
        size = _PORTION if by_column else _FEW
        for begin in range(0, rows, size):
            matches = pairs.between(begin, min(begin + size, rows))
            if by_column:
                self._emit_columns(left, right, matches, context)
            else:
                self._emit_values(left, right, matches, context)

    def _emit_columns(self, left: _Side, right: _Side, matches: _Matches, context: IntervalContext) -> None:
        columns: list[pa.Array] = []
        sides = _added(columns, left, matches.left), _added(columns, right, matches.right)
        columns += map(of_numbers, (matches.starts, matches.ends))
        table = pa.RecordBatch.from_arrays(columns, [f"f{number}" for number in range(len(columns))])
        row = Fields(self._matched.names, sides, FieldsKind.ROW)
        in_global = self._config.namespaces.are_global
        shape = Fired(row, len(columns) - 2, len(columns) - 1, ONLY_PANE, in_global)
        context.emit(self._output_stream, ColumnBatch(table, matches.ends - 1, shape))

    def _emit_values(self, left: _Side, right: _Side, matches: _Matches, context: IntervalContext) -> None:
        rows = map(self._matched.row, left.objects(matches.left), right.objects(matches.right))
        windows = windows_between(matches.starts, matches.ends, self._config.namespaces.are_global)
        context.emit(
            self._output_stream, Batch(list(zip(rows, windows, repeat(ONLY_PANE))), (matches.ends - 1).tolist())
        )


@named("ColumnCoGroup")
class ColumnCoGroup(ColumnGroupByKey):
    """Emits the elements of each key and window, a list for each side, when the window ends.

    Args:
        windowing: As for `ColumnJoin`.
        input_forms: Form of the payloads of each input stream, which are pairs of side and element.
        output_stream: Stream to which groups are sent, in the form FIRED.
        assembled: How the lists of a group are put together.
        step: Label of the step that assembles groups, whose work this is.
    """

    def __init__(
        self,
        windowing: Windowing,
        input_forms: Mapping[str, GroupingInputForm],
        output_stream: str,
        assembled: Assembled,
        step: str,
    ) -> None:
        super().__init__(windowing, input_forms, output_stream)
        self._assembled, self._step = assembled, step

    def _emit(self, tables: list[ElementTable], context: IntervalContext) -> None:
        """See `ColumnGroupByKey`."""
        parts = _parts(tables, self._assembled.sides)
        if not any(parts):
            return
        sides = list(map(_Side.of, parts))
        keys = pa.concat_arrays([part.taken(part.table.keys) for part in chain.from_iterable(parts)])
        groups, starts, ends, firsts = _groups(sides)
        by_column = all(side.values is None or isinstance(side.values, ValueColumns) for side in sides)
        report_elements(self._step, len(firsts), len(firsts), len(firsts) if by_column else 0)
        ordered = [_Ordered.of(side, its, len(firsts)) for side, its in zip(sides, _split(groups, sides), strict=True)]
        cuts = np.flatnonzero(np.diff((np.cumsum(np.bincount(groups)) - 1) // _FEW)) + 1
        for begin, end in pairwise([0, *cuts.tolist(), len(firsts)]):
            lists = [each.lists(side, begin, end) for side, each in zip(sides, ordered, strict=True)]
            panes = firsts[begin:end]
            values = [self._assembled.put_together(its) for its in zip(*lists, strict=True)]
            self._emit_panes(keys.take(of_numbers(panes)), (starts[panes], ends[panes]), values, context)


Elements: TypeAlias = "ValueColumns | list[object] | None"
"""Elements of one side as columns, or as Python objects; None if there is none."""


@dataclass(slots=True)
class _Side:
    """Elements of one side; all arrays have one entry for each."""

    key_hashes: pa.Array
    """The 16-byte hash of the key: of type `KEY_HASH`, without nulls."""
    numbers: list[Numbers]
    """Start and end of the window, epoch and position of the arrival, as in `ElementTable`: int64."""
    values: Elements

    @classmethod
    def of(cls, parts: Sequence[_Part]) -> _Side:
        """The elements of all parts of the side; those of several kinds become Python objects."""
        if not parts:
            return cls(pa.nulls(0, KEY_HASH), [np.empty(0, np.int64)] * 4, None)
        hashes = pa.concat_arrays([part.taken(part.table.key_hashes) for part in parts])
        numbers = [
            np.concatenate([part.table[column][part.lines] for part in parts])
            for column in (START, END, EPOCH, POSITION)
        ]
        columns = [part.values for part in parts if isinstance(part.values, ValueColumns)]
        if len(columns) == len(parts) and all(each.kind == columns[0].kind for each in columns):
            return cls(hashes, numbers, cast(ValueColumns, concatenated_values(columns)))
        return cls(hashes, numbers, list(chain.from_iterable(_objects(part.values) for part in parts)))

    def __len__(self) -> int:
        return len(self.key_hashes)

    def order(self, groups: Numbers) -> Numbers:
        """The indices of the elements by group, and in the order of their arrival."""
        keys = self.numbers[POSITION], self.numbers[EPOCH], groups
        return np.lexsort(keys)

    def objects(self, indices: Numbers) -> list[object]:
        """The elements at these indices as Python objects; None for an index below 0."""
        if self.values is None:
            return [None] * len(indices)
        elements = self.values = _objects(self.values)
        return [elements[index] if index >= 0 else None for index in indices.tolist()]


def _objects(values: ValueColumns | list[object]) -> list[object]:
    return values.shape.values(values.table) if isinstance(values, ValueColumns) else values


class _Part(NamedTuple):
    """Those elements of a table that belong to one side."""

    table: ElementTable
    lines: Numbers | slice
    """The index of each element's line; a slice for all lines, each of which has one element."""
    values: ValueColumns | list[object]
    """The elements."""

    def taken(self, column: pa.Array) -> pa.Array:
        """A column with an entry for each element, from one with an entry for each line."""
        return column if isinstance(self.lines, slice) else column.take(of_numbers(self.lines))


def _parts(tables: Sequence[ElementTable], sides: int) -> list[list[_Part]]:
    """The parts of each side in tables of pairs of the number of a side and an element."""
    parts: list[list[_Part]] = [[] for _ in range(sides)]
    for table in tables:
        if len(table):
            for side, part in _parts_of(table):
                parts[side].append(part)
    return parts


def _parts_of(table: ElementTable) -> Iterator[tuple[int, _Part]]:
    """The number of each side that has elements in a table, and these."""
    if isinstance(table.values, ValueColumns):
        shape = table.values.shape
        if isinstance(shape, Tuple) and len(shape.shapes) == 2 and isinstance(shape.shapes[0], Single):
            columns = table.values.table
            tags = numbers_in(columns.column(shape.shapes[0].column))
            yield from _parted(table, np.arange(len(table)), tags, ValueColumns(columns, shape.shapes[1]))
            return
    pairs = cast("list[tuple[int, object]]", list(chain.from_iterable(unpickled_lists(table))))
    lines = np.repeat(np.arange(len(table)), table[COUNT])
    tags = np.fromiter((tag for tag, _ in pairs), np.int64, len(pairs))
    yield from _parted(table, lines, tags, [element for _, element in pairs])


def _parted(
    table: ElementTable, lines: Numbers, tags: Numbers, values: ValueColumns | list[object]
) -> Iterator[tuple[int, _Part]]:
    """As `_parts_of`, of elements with the index of their line, and their side."""
    for side in np.flatnonzero(np.bincount(tags)).tolist():
        chosen = np.flatnonzero(tags == side)
        if len(chosen) == len(table) == len(lines):
            yield side, _Part(table, slice(None), values)
        else:
            taken = values.taken(chosen) if isinstance(values, ValueColumns) else [values[at] for at in chosen.tolist()]
            yield side, _Part(table, lines[chosen], taken)


def _groups(sides: Sequence[_Side]) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Number the keys and windows of all sides, of which at least one has elements.

    Returns:
        The number of each element, side after side; the start and end of its window; and the index of the first element
        with each number.
    """
    starts, ends = (np.concatenate([side.numbers[bound] for side in sides]) for bound in (START, END))
    groups, count = window_groups(pa.concat_arrays([side.key_hashes for side in sides]), starts, ends)
    return groups, starts, ends, first_indices(groups, count)


def _split(groups: Numbers, sides: Sequence[_Side]) -> list[Numbers]:
    """The numbers of each side's elements."""
    return np.split(groups, np.cumsum([len(side) for side in sides])[:-1])


class _Matches(NamedTuple):
    """Rows of the result; arrays have one entry for each: int64."""

    left: Numbers
    """Index of the left element; -1 for None."""
    right: Numbers
    starts: Numbers
    """Start of the window, microseconds UTC."""
    ends: Numbers


@dataclass(frozen=True, slots=True)
class _Ordered:
    """The elements of one side by group; arrays have one entry for each group: int64."""

    order: Numbers
    """Indices of the elements by group; it has one entry for each element, and -1 behind them."""
    begins: Numbers
    """Index in `order` of the first element; the last one for groups without any."""
    counts: Numbers
    """Number of elements, or of rows that stand for None."""

    @classmethod
    def of(cls, side: _Side, groups: Numbers, count: int) -> _Ordered:
        """The elements of a side, which have these groups, of which there are `count`."""
        found = np.bincount(groups, minlength=count)
        begins = np.where(found > 0, np.cumsum(found) - found, len(side))
        return cls(np.append(side.order(groups), -1), begins, found)

    def lists(self, side: _Side, begin: int, end: int) -> Iterator[list[object]]:
        """The elements of each group from number `begin` to before `end`."""
        stops = np.cumsum(self.counts[:end])
        first, last = (int(stops[at - 1]) if at else 0 for at in (begin, end))
        elements = side.objects(self.order[first:last])
        edges = (stops[begin:] - first).tolist()
        return map(elements.__getitem__, map(slice, [0, *edges], edges))

    def or_none(self, chosen: bool) -> _Ordered:
        """With None in groups that have no element, if it is chosen."""
        return replace(self, counts=np.maximum(self.counts, 1)) if chosen else self


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The pairs of all groups. A group is a key and a window; arrays have one entry for each: int64."""

    left: _Ordered
    right: _Ordered
    starts: Numbers
    ends: Numbers
    stops: Numbers
    """Number of rows up to and with the group."""

    @classmethod
    def of(cls, left: _Side, right: _Side, matched: Matched) -> _Pairs:
        """Number the keys and windows of both sides, of which at least one has elements."""
        sides = left, right
        groups, starts, ends, firsts = _groups(sides)
        ordered = [_Ordered.of(side, its, len(firsts)) for side, its in zip(sides, _split(groups, sides), strict=True)]
        one, other = ordered[0].or_none(matched.keep_right), ordered[1].or_none(matched.keep_left)
        return cls(one, other, starts[firsts], ends[firsts], np.cumsum(one.counts * other.counts))

    def between(self, begin: int, end: int) -> _Matches:
        """The rows from index `begin` to before `end`, in the order of groups, left elements and right elements."""
        first, last = np.searchsorted(self.stops, [begin, end - 1], "right").tolist()
        stops = self.stops[first : last + 1]
        sizes = np.diff(np.minimum(stops, end), prepend=begin)
        groups = np.repeat(np.arange(first, last + 1), sizes)
        totals = self.left.counts[groups] * self.right.counts[groups]
        offsets = np.arange(begin, end) - (self.stops[groups] - totals)
        ones, others = np.divmod(offsets, self.right.counts[groups])
        return _Matches(
            self.left.order[self.left.begins[groups] + ones],
            self.right.order[self.right.begins[groups] + others],
            self.starts[groups],
            self.ends[groups],
        )


def _added(columns: list[pa.Array], side: _Side, indices: Numbers) -> ValueSchema:
    """Add the columns of the elements at some indices; returns their schema. An index below 0 stands for None."""
    if side.values is None:
        columns.append(pa.nulls(len(indices)))
        return Single(len(columns) - 1)
    assert isinstance(side.values, ValueColumns), "the caller has looked"
    shape, has_none = side.values.shape, bool((indices < 0).any())
    places = _with_nulls(indices) if has_none else of_numbers(indices)
    needed = dict.fromkeys(shape.columns())
    moved = {column: len(columns) + number for number, column in enumerate(needed)}
    columns += [side.values.table.column(column).take(places) for column in needed]
    if not has_none:
        return shape.moved(moved)
    columns.append(of_numbers(indices >= 0))
    return OrNone(shape.moved(moved), len(columns) - 1)


def _with_nulls(indices: Numbers) -> pa.Array:
    """Indices as an Arrow array, with nulls for those below 0."""
    valid = np.packbits(indices >= 0, bitorder="little")
    return pa.Array.from_buffers(pa.int64(), len(indices), [pa.py_buffer(valid), pa.py_buffer(indices)])
