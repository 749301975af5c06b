"""What: combining before the shuffle, so that accumulators are shuffled instead of elements (combiner lifting)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter, itemgetter
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.coders.coder import STANDARD_KEYS, KeyCoder
from headrace.lowlevel.columnar.arrow_arrays import of_numbers
from headrace.lowlevel.columnar.key_columns import Numbers, dense, is_key_column, numbered, order_by_group
from headrace.lowlevel.records.column_batch import ColumnBatch, ValueSchema
from headrace.lowlevel.records.record import Batch, Emit
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.computation import InlineComputation
from headrace.lowlevel.user_errors import failed_step
from headrace.sdk.combinefns.combine_fn import AnyCombineFn, RunsCombiner
from headrace.sdk.combinefns.composite import GlobalWindowMark, SkippingMarks
from headrace.sdk.metrics.metric import ColumnCounts
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.combining.aggregates import reducers_of
from headrace.sdk.operators.combining.combine_buffer import CellBuffer, addends_of
from headrace.sdk.windows import BoundedWindow, TimestampCombiner
from headrace.sdk.windows.slices import Slices, slice_starts, slices_of
from headrace.sdk.windows.window_namespace import WindowNamespaces
from headrace.sdk.windows.windowing import Windowing

_LEAST = 4
"""Average number of elements in a group from which on sorting by group is faster."""
MOST_GROUPS = 100_000
"""Number of groups from which on accumulators are sent before the end of the bundle."""
MOST_VALUES = 50_000
"""Number of values from which on they are added to accumulators."""
_VALUES_A_GROUP = 4
"""Average number of values for each group below which they are not added to accumulators before the end."""
_PLAIN_KEYS = frozenset([str, bytes, int, type(None)])
"""Types whose equal values have equal encodings; values of different types, such as 1, 1.0 and True, may be equal."""


class GroupedBatch(NamedTuple):
    """The elements of a batch that have the same key and slice."""

    key: object
    start: int
    """Start of the slice, microseconds UTC."""
    timestamp: int
    """Timestamp of the first element, microseconds UTC."""
    values: list[object]
    """Values of the elements, in the order of the batch."""


def grouped_batches(batch: ColumnBatch, slices: Slices) -> list[GroupedBatch] | None:
    """Split a batch of pairs (key, value) by key and slice.

    Return None if columns do not express the keys, if slices of the timestamps cannot be computed in 64 bits, or if
    groups have fewer than `_LEAST` elements on average.
    """
    key, value = batch.shape.part(0), batch.shape.part(1)
    if key is None or value is None or not len(batch) or not slices.reaches(batch.times):
        return None
    columns = [column for column in map(batch.table.column, key.columns()) if not pa.types.is_null(column.type)]
    if not all(map(is_key_column, columns)):
        return None
    starts, places = np.unique(slices.starts(batch.times), return_inverse=True)
    keys = numbered(columns) if columns else np.zeros(len(batch), np.int64)
    groups, names = dense(keys * len(starts) + places.reshape(-1))
    if len(names) * _LEAST > len(batch):
        return None
    return _cut(batch, key, value, groups, starts[names % len(starts)].tolist())


def _cut(
    batch: ColumnBatch, key: ValueSchema, value: ValueSchema, groups: Numbers, starts: Sequence[int]
) -> list[GroupedBatch]:
    order = order_by_group(groups, len(starts))
    values = value.values(batch.table.take(of_numbers(order)))
    stops = np.cumsum(np.bincount(groups, minlength=len(starts)))
    firsts = order[stops - np.diff(stops, prepend=0)]
    keys = key.values(batch.table.take(of_numbers(firsts)))
    found = zip(keys, starts, batch.times[firsts].tolist(), [0, *stops.tolist()], stops.tolist(), strict=False)
    return [GroupedBatch(one, start, time, values[first:stop]) for one, start, time, first, stop in found]


def liftable(windowing: Windowing, form: GroupingInputForm = GroupingInputForm.PLAIN) -> bool:
    """Whether combining elements before the shuffle leaves all panes as they are.

    False if windows merge, if the trigger needs values, if the timestamp of a pane depends on those of its elements, or
    if windows of plain elements have no slices.
    """
    return (
        not windowing.window_fn.is_merging()
        and not windowing.trigger.needs_values
        and windowing.timestamp_combiner is TimestampCombiner.OUTPUT_AT_EOW
        and (form is GroupingInputForm.WINDOWED or slices_of(windowing) is not None)
    )


@named("LiftedCombine")
class LiftedCombine(RunsCombiner, InlineComputation):
    """Combines the elements of each key and window of a bundle; its output is the lifted input of a `Grouping`.

    Input values are pairs of key and payload, in the form `input_form`. Raises ValueError if the windowing is not
    `liftable`.
    """

    def __init__(
        self,
        windowing: Windowing,
        combine: AnyCombineFn,
        input_form: GroupingInputForm = GroupingInputForm.PLAIN,
        output_stream: str = "lifted",
        key_coder: KeyCoder = STANDARD_KEYS,
        step: str = "combine",
    ) -> None:
        if not liftable(windowing, input_form):
            raise ValueError(f"{windowing} cannot be combined before the shuffle; ask liftable() first")
        self._windowing = windowing
        self._combine = combine
        self._output_stream = output_stream
        self._namespaces = WindowNamespaces(windowing)
        self._slices = slices_of(windowing) if input_form is GroupingInputForm.PLAIN else None
        self._reducers = reducers_of(combine)
        self._skips_marks = isinstance(combine, SkippingMarks)
        self._cells = CellBuffer(self._reducers, self._slices) if self._reducers and self._slices else None
        self._groups = _Groups(combine, key_coder, step)
        self._taken = ColumnCounts()

    @property
    def sends_sums(self) -> bool:
        """See `InlineComputation`."""
        return self._reducers is not None and self._reducers.keep_numbers

    @property
    def is_pure(self) -> bool:
        """Whether the engine combines the elements without calls of the CombineFn."""
        return self._reducers is not None

    def start_bundle(self) -> None:
        """Remove the elements of an aborted bundle."""
        self._groups.clear()
        self._taken.clear()
        if self._cells is not None:
            self._cells.clear()

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        """Combine the elements of a batch with those of the bundle so far; send accumulators if there are many."""
        if not len(batch):
            return
        by_column = self._add_columns(batch, emit)
        self._taken.add(len(batch), by_column)
        if not by_column and not self._add_portions(batch):
            pairs = cast("Sequence[tuple[object, object]]", batch.values)
            if self._slices is None:
                self._add_windowed(pairs, batch.timestamps)
            else:
                # `zip(*pairs)` would make an iterator for each of them.
                keys, payloads = list(map(itemgetter(0), pairs)), list(map(itemgetter(1), pairs))
                self._groups.add(keys, payloads, slice_starts(self._slices, batch.timestamps), batch.timestamps)
        self._groups.fold()
        if len(self._groups) >= MOST_GROUPS:
            self.finish_bundle(emit)

    def finish_bundle(self, emit: Emit) -> None:
        """Send all accumulators."""
        self._taken.report()
        if self._cells is not None:
            self._cells.drain(partial(emit, self._output_stream))
        values: list[object] = []
        timestamps: list[int] = []
        code_of = self._slices.code if self._slices is not None else None
        for key, place, accumulator, count, lost, timestamp in self._groups.drain():
            code = place if code_of is None else code_of(cast(int, place))
            values.append((key, (code, accumulator, count, lost)))
            timestamps.append(timestamp)
        if values:
            emit(self._output_stream, Batch(values, timestamps))

    def _add_columns(self, batch: Batch, emit: Emit) -> bool:
        """Add the elements as columns; return False if columns do not express them."""
        if self._cells is None or self._reducers is None or self._slices is None:
            return False
        if self._skips_marks and not isinstance(batch, ColumnBatch):
            pairs = cast("Sequence[tuple[object, object]]", batch.values)
            if GlobalWindowMark in set(map(type, map(itemgetter(1), pairs))):
                return False
        addends = addends_of(batch, self._reducers)
        if addends is None or not self._slices.reaches(addends.times):
            return False
        if any(pa.types.is_time(key.type) for key in addends.keys):
            # Times of day have no encoding as keys, which is said of the element's own key.
            return False
        return self._cells.add(addends, partial(emit, self._output_stream))

    def _add_portions(self, batch: Batch) -> bool:
        """Add the elements of a column batch by groups of key and slice; return False if that is not possible."""
        if self._slices is None or not isinstance(batch, ColumnBatch):
            return False
        found = grouped_batches(batch, self._slices)
        for portion in found or ():
            self._groups.put(portion)
        return found is not None

    def _add_windowed(self, pairs: Sequence[tuple[object, object]], timestamps: Sequence[int]) -> None:
        """Add elements to the windows that they carry. In one batch, equal windows are mostly the same object."""
        known: dict[int, list[bytes]] = {}
        keys, codes, values, times = list[object](), list[bytes](), list[object](), list[int]()
        for (key, payload), timestamp in zip(pairs, timestamps, strict=True):
            value, windows, _ = cast("tuple[object, Sequence[BoundedWindow], object]", payload)
            identity = id(windows[0] if len(windows) == 1 else windows)
            own = known.get(identity)
            if own is None:
                namespaces = sorted(map(self._namespaces.of_window, windows), key=attrgetter("closes"))
                own = known[identity] = [namespace.code for namespace in namespaces]
            for code in own:
                keys.append(key)
                codes.append(code)
                values.append(value)
                times.append(timestamp)
            for code in own[:-1]:
                self._groups.keep(key, code)
        self._groups.add(keys, values, codes, times)


class _Groups:
    """The combined elements of each key and place; a place is the start of a slice or the code of a window."""

    def __init__(self, combine: AnyCombineFn, key_coder: KeyCoder, step: str) -> None:
        self._combine = combine
        self._key_coder = key_coder
        self._step = step
        self.clear()

    def clear(self) -> None:
        """Remove all elements."""
        self._values: dict[tuple[object, object], list[object]] = {}
        """Values that are not in accumulators yet."""
        self._size = 0
        """Number of these values."""
        self._folded: dict[tuple[object, object], _Folded] = {}
        self._first: dict[tuple[object, object], int] = {}
        self._kept: dict[tuple[object, object], int] = {}
        self._encoded: dict[_Encoded, object] = {}

    def __len__(self) -> int:
        return len(self._first)

    def add(
        self, keys: Sequence[object], values: Sequence[object], places: Sequence[object], timestamps: Sequence[int]
    ) -> None:
        """Add elements; the four sequences have one entry for each element."""
        held, first = self._values, self._first
        names = keys if one_to_one(keys) else list(map(self._name, keys))
        self._size += len(values)
        for group, value, timestamp in zip(zip(names, places, strict=True), values, timestamps, strict=True):
            try:
                held[group].append(value)
            except KeyError:
                held[group] = [value]
                first.setdefault(group, timestamp)

    def put(self, portion: GroupedBatch) -> None:
        """Add the elements of one key and slice."""
        group = (self._name(portion.key), portion.start)
        self._size += len(portion.values)
        self._values.setdefault(group, []).extend(portion.values)
        self._first.setdefault(group, portion.timestamp)

    def keep(self, key: object, place: object) -> None:
        """Count an element of the group that is in a later window too, and so is not lost with this window."""
        group = (self._name(key), place)
        self._kept[group] = self._kept.get(group, 0) + 1

    def fold(self) -> None:
        """Add values to accumulators if there are at least `MOST_VALUES` values, and enough for each group."""
        if self._size >= max(MOST_VALUES, _VALUES_A_GROUP * len(self._values)):
            self._fold()

    def _fold(self) -> None:
        combine = self._combine
        for group, values in self._values.items():
            known = self._folded.get(group)
            try:
                accumulator, elements = (combine.create_accumulator(), 0) if known is None else known
                self._folded[group] = _Folded(combine.add_inputs(accumulator, values), elements + len(values))
            except Exception as error:
                culprit = _culprit(combine, values)
                if culprit is not None and culprit[0] is None:
                    error.add_note("at the value None; leave such values out before, or give them another value")
                raise failed_step(error, self._step, self._key(group[0]), *(culprit or (None,))) from error
        self._values = {}
        self._size = 0

    def drain(self) -> Iterator[tuple[object, object, object, int, int, int]]:
        """Remove all groups, and yield their accumulators.

        The tuples are (key, place, accumulator, number of elements, number of them that are lost if the window is
        closed, timestamp of the first element in microseconds UTC).
        """
        self._fold()
        for group, (accumulator, count) in self._folded.items():
            name, place = group
            key = self._key(name)
            lost = count - self._kept.get(group, 0)
            yield key, place, self._combine.compact(accumulator), count, lost, self._first[group]
        self.clear()

    def _name(self, key: object) -> object:
        if one_to_one((key,)):
            return key
        name = _Encoded(self._key_coder.encode(key))
        self._encoded.setdefault(name, key)
        return name

    def _key(self, name: object) -> object:
        return self._encoded[name] if isinstance(name, _Encoded) else name


def _culprit(combine: AnyCombineFn, values: Sequence[object]) -> tuple[object] | None:
    """The first value that the CombineFn cannot add to those before it, in a tuple; None if there is no such value."""
    try:
        accumulator = combine.create_accumulator()
    except Exception:
        return None
    for value in values:
        try:
            accumulator = combine.add_input(accumulator, value)
        except Exception:
            return (value,)
    return None


class _Folded(NamedTuple):
    """The accumulator of a group."""

    accumulator: object
    elements: int
    """Number of elements in the accumulator."""


class _Encoded(NamedTuple):
    """An encoded key, which distinguishes keys that are equal in Python, such as 1 and True."""

    code: bytes


def one_to_one(keys: Sequence[object]) -> bool:
    """Whether equality of these keys in Python is the same as equality of their encodings.

    >>> one_to_one(["a", 1, ("a", 1)]), one_to_one([1, True]), one_to_one([(1,), (True,)])
    (True, False, False)
    """
    kinds = set(map(type, keys))
    if tuple in kinds:
        kinds.discard(tuple)
        kinds.update(map(type, chain.from_iterable(key for key in keys if type(key) is tuple)))
    return kinds <= _PLAIN_KEYS
