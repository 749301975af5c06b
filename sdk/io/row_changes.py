"""How: changes of the rows of a table as a collection whose retractions correct what follows (change data capture).

The changes of a key go to a step that keeps the last row of each key, so that a change needs no row before it, a row
that comes again is no second one, and what is taken back has the event time with which it was put in. The step's keys
are shards, each with a cell for every row, as a truncation has to find all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias, cast

from headrace.lowlevel.code_pickling import Portable
from headrace.lowlevel.coders.coder import encode_key
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import Timestamp
from headrace.sdk.functions.changelog import ChangelogFn, RetractingFn, RowChange, RowOperation
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.io.argument_checks import check_column_names
from headrace.sdk.io.timestamps import TimestampOf, check_timestamp, timestamps_of
from headrace.sdk.metrics.metric import Metrics
from headrace.sdk.model.panes import PANE_INFO_UNKNOWN, retraction_of
from headrace.sdk.model.special_outputs import WindowedValue
from headrace.sdk.transforms.core.par_do import ParDo
from headrace.sdk.transforms.core.window_into import WindowInto
from headrace.sdk.userstate.state_spec import Cells, StateSpec
from headrace.sdk.windows import GlobalWindow, GlobalWindows

KeyOf: TypeAlias = str | Sequence[str] | Callable[[object], object]
"""The primary key of a row: the name of its field, names of several, or a function of the row."""
SHARDS = 1024
"""Number of keys over which the rows are distributed. Checkpoints depend on it: do not change it."""
_HASH = 16
_TRUNCATED = bytes(_HASH)
"""The key under which a shard remembers its last truncation, for older changes of rows that it does not know."""
_RETRACTION = retraction_of(PANE_INFO_UNKNOWN)
_SUPERSEDED = Metrics.counter("FromRowChanges", "superseded")


class FromRowChanges(PTransform[PCollection[Any], PCollection[Any]]):
    """Turns changes of the rows of a table into the collection of its rows; later steps correct their results.

    An inserted row is an element. An updated one is a retraction of the row before and an element for the row after, a
    deleted one a retraction. A retraction has the event time of the element that it takes back. The rows are in the
    global window; put `WindowInto` behind, with `AccumulationMode.ACCUMULATING_AND_RETRACTING` and an allowed lateness
    as long as rows may change.

    Each element is a `RowChange` or a tuple of its fields. With `key` a step keeps the last row of each key. So the row
    before need not be told, snapshots and changes that come again change nothing, a change whose `sequence` is not
    greater than the last one of its key is left out (counted as `superseded`), and a truncation takes back all rows. A
    change that leaves a row as it was changes nothing, nor its event time.

    Args:
        key: What identifies a row: the name of a field, names of several, or a function of the row. None for changes
            that tell the whole row before: no rows are kept then, and each change must come once and in order.
        timestamp: What gives the event time of a row: the name of a field, or a function of the row. None for the
            event time of the change. Without `key` it must be given, unless all windows behind are global.
        versions: Whether a retraction says from when on its row is no longer that of its key: it has the event time of
            the row after, for a deletion that of the change. For the right side of a `Join` with `as_of`, which then
            gives each left row the version of its time; other steps must have the rows in the global window.

    Raises:
        TypeError: An argument has a wrong type.

    >>> import headrace as beam
    >>> changes = [
    ...     beam.RowChange(beam.RowOperation.INSERT, None, {"id": 1, "city": "oslo"}),
    ...     beam.RowChange(beam.RowOperation.UPDATE, None, {"id": 1, "city": "rome"}),
    ...     beam.RowChange(beam.RowOperation.INSERT, None, {"id": 2, "city": "rome"}),
    ... ]
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     people = pipeline | beam.Create(changes) | beam.FromRowChanges(key="id")
    ...     counts = people | beam.GroupBy("city").aggregate_field("id", beam.combiners.CountCombineFn(), "people")
    ...     _ = counts | beam.Map(print)
    Result(city='rome', people=2)
    """

    def __init__(self, key: KeyOf | None = None, timestamp: TimestampOf = None, versions: bool = False) -> None:
        super().__init__()
        check_timestamp(timestamp, None)
        if key is not None and not callable(key):
            key = (key,) if isinstance(key, str) else key
            check_column_names("key", key)
        self._key = key
        self._timestamp = Portable(timestamp, "the function timestamp") if callable(timestamp) else timestamp
        self._versions = versions

    def expand(self, inputs: PCollection[Any]) -> PCollection[Any]:
        """The rows and their retractions."""
        changes = inputs | "Global" >> WindowInto(GlobalWindows())
        if self._key is None:
            return cast("PCollection[Any]", changes | "Rows" >> ParDo(RowsTold(self._timestamp, self._versions)))
        by_key = changes | "Key" >> ParDo(ChangesByKey(self._key))
        return cast("PCollection[Any]", by_key | "Rows" >> ParDo(RowsByKey(self._timestamp, self._versions)))


class StampedRow(NamedTuple):
    """A row of the table, as it was put out."""

    row: object
    """None if the row was deleted, and only its sequence is kept."""
    micros: int
    """Event time, microseconds UTC."""
    sequence: object

    def put_out(self) -> WindowedValue:
        """The row as an output."""
        return WindowedValue(self.row, Timestamp(micros=self.micros), [GlobalWindow()])

    def retracted(self, end: int | None = None) -> WindowedValue:
        """The retraction of the row, at the event time at which it ends, or else its own; not before its own."""
        at = self.micros if end is None else max(self.micros, end)
        return WindowedValue(self.row, Timestamp(micros=at), [GlobalWindow()], _RETRACTION)


class RowsTold(RetractingFn):
    """Rows before changes become retractions, rows after them elements."""

    def __init__(self, timestamp: TimestampOf, versions: bool) -> None:
        self._timestamp, self._versions = timestamp, versions

    def process(self, element: object, timestamp: Timestamp = DoFn.TimestampParam) -> Iterator[WindowedValue]:
        """The retraction, then the addition."""
        change = RowChange.of(element)
        needs_before = change.operation in (RowOperation.UPDATE, RowOperation.DELETE) and change.before is None
        if needs_before or change.unchanged or change.operation is RowOperation.TRUNCATE:
            raise ValueError(
                f"the change {change.operation} does not tell what it takes back; give FromRowChanges a key=, so that "
                "it keeps the rows"
            )
        before, after = (
            None if row is None else StampedRow(row, timestamps_of([row], self._timestamp, timestamp.micros)[0], None)
            for row in (change.before, change.after)
        )
        if before is not None:
            yield before.retracted(_end(after, timestamp) if self._versions else None)
        if after is not None:
            yield after.put_out()


class ChangesByKey(ChangelogFn):
    """Changes become pairs of shard and (key, change); one that changes the key is a deletion and an insertion."""

    def __init__(self, key: Sequence[str] | Callable[[object], object]) -> None:
        self._key = Portable(key, "the function key") if callable(key) else tuple(key)

    def process(self, element: object) -> Iterator[tuple[int, tuple[bytes, RowChange]]]:
        """The change under the key of its row; a truncation in all shards."""
        change = RowChange.of(element)
        if change.operation is RowOperation.TRUNCATE:
            yield from ((shard, (b"", change)) for shard in range(SHARDS))
            return
        if change.before is None and change.after is None:
            raise ValueError(f"the change {change.operation} has no row; give the row before it or after it")
        old = None if change.before is None else self._hash(change.before, change.after is None)
        new = None if change.after is None else self._hash(change.after, True)
        if old is not None and old != new:
            yield _sharded(old, change._replace(operation=RowOperation.DELETE, after=None, unchanged=()))
        if new is not None:
            yield _sharded(new, change._replace(before=None))

    def _hash(self, row: object, required: bool) -> bytes | None:
        """Hash of the key; None if the row, which is only a part of one, has no key."""
        if callable(self._key):
            key = self._key(row)
        else:
            values = row if isinstance(row, Mapping) else _Attributes(row)
            missing = [name for name in self._key if name not in values]
            if missing and not required:
                return None
            if missing:
                name = missing[0]
                raise ValueError(
                    f"{row!r:.200} has no field {name!r}, which key= names; give fields that every row has"
                )
            key = tuple(values[name] for name in self._key)
        return blake2b(encode_key(key), digest_size=_HASH).digest()


class _Attributes:
    """The fields of an object, by name."""

    def __init__(self, row: object) -> None:
        self._row = row

    def __contains__(self, name: str) -> bool:
        return hasattr(self._row, name)

    def __getitem__(self, name: str) -> object:
        return getattr(self._row, name)


def _sharded(key: bytes, change: RowChange) -> tuple[int, tuple[bytes, RowChange]]:
    return int.from_bytes(key[:4], "big") % SHARDS, (key, change)


class RowsState:
    """The rows of a shard by the hash of their keys, each in a cell of its own that is read when it is asked for."""

    __slots__ = ("_cells", "_changed", "_spec")

    def __init__(self, spec: RowsStateSpec, cells: Cells) -> None:
        self._spec, self._cells = spec, cells
        self._changed: dict[bytes, StampedRow | None] = {}

    def get(self, key: bytes) -> StampedRow | None:
        """The row of a key."""
        if key in self._changed:
            return self._changed[key]
        data = self._cells.read(self._spec.cell + key)
        return None if data is None else self._decoded(data)

    def put(self, key: bytes, row: StampedRow | None) -> None:
        """Replace the row of a key; None removes it."""
        self._changed[key] = row

    def all(self) -> list[tuple[bytes, StampedRow]]:
        """All rows with their keys, ordered by key."""
        stored = {name[-_HASH:]: self._decoded(data) for name, data in self._cells.scan(self._spec.cell)}
        return sorted((key, row) for key, row in {**stored, **self._changed}.items() if row is not None)

    def clear(self) -> None:
        """See `State`."""
        self._changed = {}
        self._cells.erase_all(self._spec.cell)

    def store(self) -> None:
        """See `State`."""
        for key, row in self._changed.items():
            if row is None:
                self._cells.erase(self._spec.cell + key)
            else:
                self._cells.write(self._spec.cell + key, self._spec.encode(tuple(row)))

    def _decoded(self, data: bytes) -> StampedRow:
        return StampedRow(*cast("tuple[object, int, object]", self._cells.decode(self._spec.coder, data)))


@named("RowsStateSpec")
class RowsStateSpec(StateSpec[RowsState]):
    """Declares the rows of a shard."""

    kind = b"r"

    def open(self, cells: Cells) -> RowsState:
        """See `StateSpec`."""
        return RowsState(self, cells)


class RowsByKey(RetractingFn):
    """Changes become rows and retractions of the rows that they replace, which are kept."""

    ROWS = RowsStateSpec("rows")

    def __init__(self, timestamp: TimestampOf, versions: bool) -> None:
        self._timestamp, self._versions = timestamp, versions

    def process(
        self,
        element: tuple[int, tuple[bytes, RowChange]],
        timestamp: Timestamp = DoFn.TimestampParam,
        rows: RowsState = DoFn.StateParam(ROWS),
    ) -> list[WindowedValue]:
        """The retraction of the row that the change replaces, then the row after it."""
        key, change = element[1]
        if change.operation is RowOperation.TRUNCATE:
            outputs = [each for key, kept in rows.all() for each in self._changed(key, kept, change, timestamp, rows)]
            if change.sequence is not None and rows.get(_TRUNCATED) is None:
                rows.put(_TRUNCATED, StampedRow(None, timestamp.micros, change.sequence))
            return outputs
        kept = rows.get(key)
        if kept is None and change.sequence is not None:
            kept = rows.get(_TRUNCATED)
        return self._changed(key, kept, change, timestamp, rows)

    def _changed(
        self, key: bytes, kept: StampedRow | None, change: RowChange, timestamp: Timestamp, rows: RowsState
    ) -> list[WindowedValue]:
        if kept is not None and _is_superseded(kept, change):
            _SUPERSEDED.inc()
            return []
        row = _completed(change, kept)
        if kept is not None and kept.row == row:
            if change.sequence is not None:
                rows.put(key, kept._replace(sequence=change.sequence))
            return []
        after = None
        if row is not None:
            after = StampedRow(row, timestamps_of([row], self._timestamp, timestamp.micros)[0], change.sequence)
        outputs = [] if after is None else [after.put_out()]
        if kept is not None and kept.row is not None:
            outputs.insert(0, kept.retracted(_end(after, timestamp) if self._versions else None))
        if after is None and change.sequence is not None:
            # A deletion is kept where changes have sequences: an older change may come after it.
            after = StampedRow(None, timestamp.micros, change.sequence)
        rows.put(key, after)
        return outputs


def _end(after: StampedRow | None, timestamp: Timestamp) -> int:
    """The event time from which on the row before a change does not count, microseconds UTC."""
    return timestamp.micros if after is None else after.micros


def _is_superseded(kept: StampedRow, change: RowChange) -> bool:
    """Whether a change is older than the row that is kept, or the same."""
    if kept.sequence is None or change.sequence is None:
        return False
    return not cast(Any, kept.sequence) < change.sequence


def _completed(change: RowChange, kept: StampedRow | None) -> object:
    """The row after a change, with the fields of the row before that the source left out."""
    if not change.unchanged or change.after is None:
        return change.after
    before = kept.row if kept is not None and kept.row is not None else change.before
    if not isinstance(before, Mapping):
        raise ValueError(
            f"fields {list(change.unchanged)} of {change.after!r:.200} are told to be as before, and no row before it "
            "is known; begin with a snapshot of the table"
        )
    return {**cast("dict[str, object]", change.after), **{name: before.get(name) for name in change.unchanged}}
