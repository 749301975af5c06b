"""How: what sinks have in common whose destination keeps an epoch's number in the transaction that writes its rows.

A destination keeps a `SinkMark` under the name of each sink: the run that writes and its newest epoch. It moves the
mark in the transaction that writes the rows, so an epoch that comes again changes nothing, and one that is older than
the mark is refused: a driver that was replaced, or an older copy of the checkpoint, delivers it. A run that begins anew
draws a number, which is in each of its commits; the first epoch that it delivers puts that number in the place of its
predecessor's, and the predecessor is refused from then on. Each commit also has the newest epoch that the run has
written, so a destination that was restored from a backup, or made anew, is noticed.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from secrets import randbits
from typing import Literal, NamedTuple, get_args

import numpy as np

from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.sinks.sink import BaseSink
from headrace.lowlevel.time import Timestamp
from headrace.sdk.functions.changelog import ChangeKind
from headrace.sdk.io.argument_checks import check_column_names
from headrace.sdk.io.records import as_record

WriteMode = Literal["append", "upsert", "changelog"]
"""What becomes of elements: each one is added; each one replaces the row with its key; or each one is a `Change`."""
_RUN, _ROWS = b"R", b"D"
"""First byte of a receipt: the run, or rows of a task."""

_FRACTIONS = (float, Decimal, np.floating)
"""Types of which a value may be NaN, which is equal to none."""


class SinkTakenError(HeadraceError, RuntimeError):
    """Another run writes under the name of the sink, or this one has gone further from another copy of its checkpoint.

    The epoch is committed, and nothing of it was written.

    >>> import sqlite3
    >>> import headrace as beam
    >>> from headrace.options.pipeline_options import PipelineOptions
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     def connect():
    ...         return sqlite3.connect(f"{folder}/points.db")
    ...     def run(progress):
    ...         options = PipelineOptions(progress=progress, max_records_per_epoch=1)
    ...         with beam.Pipeline("LocalRunner", options) as pipeline:
    ...             rows = pipeline | beam.Create([("red", 5), ("red", 7)])
    ...             _ = rows | beam.io.WriteToDatabase(connect, "points", ["team", "points"], sink="points")
    ...     _ = connect().execute("CREATE TABLE points (team TEXT, points INTEGER)")
    ...     run(lambda progress: run(None))
    Traceback (most recent call last):
      ...
    headrace.sdk.io.epoch_sink.SinkTakenError: ...
    """


class EpochsLostError(HeadraceError, RuntimeError):
    """A destination does not have epochs that the run has written there, as after a restore from a backup.

    The newest epoch is committed, and nothing of it was written.

    >>> import sqlite3
    >>> import headrace as beam
    >>> from headrace.options.pipeline_options import PipelineOptions
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     def connect():
    ...         return sqlite3.connect(f"{folder}/points.db")
    ...     def run():
    ...         options = PipelineOptions(checkpoint=f"{folder}/state", max_records_per_epoch=1)
    ...         with beam.Pipeline("LocalRunner", options) as pipeline:
    ...             rows = pipeline | beam.Create([("red", 5), ("red", 7)])
    ...             _ = rows | beam.io.WriteToDatabase(connect, "points", ["team", "points"])
    ...     _ = connect().execute("CREATE TABLE points (team TEXT, points INTEGER)")
    ...     run()
    ...     _ = connect().execute("DROP TABLE headrace_epochs")
    ...     run()
    Traceback (most recent call last):
      ...
    headrace.sdk.io.epoch_sink.EpochsLostError: ...
    """


@dataclass(frozen=True, slots=True)
class SinkMark:
    """What a destination keeps under the name of a sink."""

    run: int
    """Number of the run, below 2**62."""
    epoch: int
    """The newest epoch whose rows are written."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run, from its beginning on an empty checkpoint over all restarts. Persisted as a receipt of every commit."""

    number: int
    predecessor: int | None
    """The run that the destination named when this one began; None if it named none."""
    sink: str
    """The name under which the destination keeps the mark."""
    written: int = 0
    """The newest epoch whose rows had been written before the commit; 0 for none."""

    def encode(self) -> bytes:
        """The run as JSON."""
        return json.dumps([self.number, self.predecessor, self.sink, self.written]).encode()

    @classmethod
    def decode(cls, data: bytes) -> Run:
        """The run of the result of `encode`."""
        return cls(*json.loads(data))

    def is_replaced(self, stored: SinkMark | None) -> bool:
        """Whether another run has written under the sink's name since this one began."""
        return stored is not None and stored.run not in (self.number, self.predecessor)

    def is_missed(self, stored: SinkMark | None) -> bool:
        """Whether the destination does not have an epoch that this run has written there."""
        return self._newest(stored) < self.written

    def _newest(self, stored: SinkMark | None) -> int:
        """The newest epoch of this run that the destination has; 0 for none."""
        return stored.epoch if stored is not None and stored.run == self.number else 0

    def must_write(self, stored: SinkMark | None, epoch: int, destination: str) -> bool:
        """Whether the rows of an epoch are not written yet.

        Raises:
            SinkTakenError: Another run, or this one from another copy of its checkpoint, has written.
            EpochsLostError: The destination does not have an epoch that this run has written.

        >>> run = Run(7, 5, "clicks")
        >>> run.must_write(SinkMark(5, 90), 1, "a table"), run.must_write(SinkMark(7, 3), 3, "a table")
        (True, False)
        """
        failure, newest = f"epoch {epoch} is committed, but was not written to {destination}: ", self._newest(stored)
        found = f"the newest epoch there is {newest}" if newest else "none of its epochs is there"
        if self.is_replaced(stored):
            raise SinkTakenError(
                f"{failure}since this run began, another one has written there under the sink's name {self.sink!r}, "
                "and only the newest may. End one of the two; sinks that write at the same time need different names "
                "(sink=...). With another name this run goes on from this epoch, whose rows may be there already"
            )
        if self.is_missed(stored):
            raise EpochsLostError(
                f"{failure}this run has written epoch {self.written} there under the sink's name {self.sink!r}, but "
                f"{found}. The destination was restored from a backup, was made anew, or is another one. Bring back "
                "what it had; or start over with an empty checkpoint and an empty destination; or go on without the "
                "missing rows by giving the sink another name (sink=...)"
            )
        if newest > epoch:
            raise SinkTakenError(
                f"{failure}epoch {newest} of this run is already there, so this is an older copy of the run's "
                "checkpoint, or another driver goes on with it. Rows would be lost or doubled. Start from the newest "
                "checkpoint, or begin anew with an empty checkpoint and an empty destination"
            )
        return epoch > newest


class Net(NamedTuple):
    """What the rows of an epoch come to, one at most for each key: positions of rows, in order."""

    put: list[int]
    """Rows that become the row of their key."""
    taken: list[int]
    """Rows whose keys have no row any more."""


def net_of(kinds: Sequence[ChangeKind] | None, keys: Sequence[Hashable]) -> Net:
    """The last change of each key; without kinds all rows are put in.

    >>> net_of([ChangeKind("+"), ChangeKind("-"), ChangeKind("+"), ChangeKind("-")], ["a", "a", "a", "b"])
    Net(put=[2], taken=[3])
    """
    last = sorted({key: position for position, key in enumerate(keys)}.values())
    if kinds is None:
        return Net(last, [])
    put = [position for position in last if kinds[position] is ChangeKind.INSERT]
    return Net(put, [position for position in last if kinds[position] is ChangeKind.DELETE])


def changes_of(elements: Iterable[object]) -> tuple[list[ChangeKind], list[object]]:
    """Kinds and values of changes. Raises `TypeError` for an element that is no change."""
    kinds, values = [], []
    for element in elements:
        match element:
            case (ChangeKind.INSERT | ChangeKind.DELETE as kind, value):
                kinds.append(kind if isinstance(kind, ChangeKind) else ChangeKind(str(kind)))
                values.append(value)
            case _:
                raise TypeError(
                    f"{element!r:.200} is no change; put ToChangelog() before a sink with mode='changelog', or give "
                    "tuples of '+' or '-' and a row"
                )
    return kinds, values


def row_of(element: object, columns: Sequence[str], keys: Sequence[str] = ()) -> tuple[object, ...]:
    """The values of an element in the order of columns; None for a field that the element does not have.

    Args:
        element: A dict, `Row`, named tuple or dataclass, or a plain tuple or list with a value for each column.
        columns: The names.
        keys: Columns that must have a value.

    Raises:
        TypeError: The element has no named fields.
        ValueError: The element has another number of values, a field that is no column, or no value or NaN for a key.

    >>> row_of({"amount": 3, "product": "tea"}, ["product", "amount"]), row_of(("tea", 3), ["product", "amount"])
    (('tea', 3), ('tea', 3))
    """
    if isinstance(element, (tuple, list)) and not hasattr(element, "_fields"):
        if len(element) != len(columns):
            raise ValueError(f"element {element!r:.200} has {len(element)} values for the columns {list(columns)}")
        record: Mapping[str, object] = dict(zip(columns, element, strict=True))
    else:
        record = as_record(element)
        check_names(record, columns)
    for key in keys:
        if (value := record.get(key)) is None or (isinstance(value, _FRACTIONS) and value != value):
            given = "no value" if value is None else "NaN"
            raise ValueError(f"element {element!r:.200} has {given} for the key {key!r}, so it cannot replace its row")
        if not isinstance(record[key], Hashable):
            raise TypeError(
                f"element {element!r:.200} has a {type(record[key]).__name__} for the key {key!r}; "
                "give text or a number"
            )
    return tuple(_plain(record.get(name)) for name in columns)


def check_names(names: Iterable[str], columns: Sequence[str]) -> None:
    """Raise `ValueError` for a field that is no column, as its values would be lost."""
    if unknown := [name for name in names if name not in columns]:
        raise ValueError(
            f"elements have a field {unknown[0]!r}, but the columns are {list(columns)}; leave it out before, with a "
            "Map, or add the column"
        )


def _plain(value: object) -> object:
    if isinstance(value, Timestamp):
        return value.to_utc_datetime(has_tz=True)
    # SQLite's module would store the memory of a number.
    return value.item() if isinstance(value, np.generic) else value


def check_mode(mode: object, keys: Sequence[str], columns: Sequence[str]) -> None:
    """Raise `ValueError` or `TypeError` if mode and key columns do not fit together."""
    if mode not in get_args(WriteMode):
        raise ValueError(f"mode is {mode!r:.200}; use one of {', '.join(get_args(WriteMode))}")
    check_column_names("keys", keys)
    if unknown := [key for key in keys if key not in columns]:
        raise ValueError(f"keys names column {unknown[0]!r}, but the columns are {list(columns)}")
    if mode == "append" and keys:
        raise ValueError("keys have no meaning with mode='append'; leave them out, or give mode='upsert'")
    if mode == "upsert" and not keys:
        raise ValueError("mode='upsert' replaces the row with an element's key; name its columns: keys=[...]")


def _check_name(sink: object) -> None:
    if sink is not None and (not isinstance(sink, str) or not sink):
        raise TypeError(f"sink must be a name that the destination keeps, got {sink!r:.200}")


class EpochSink(BaseSink, ABC):
    """A sink whose destination keeps the epoch's number in the transaction that writes its rows.

    Args:
        sink: Name under which the destination keeps it; by default one that is drawn for each run that begins anew.
            Under another name a run goes on from the epoch after its newest commit.
    """

    def __init__(self, sink: str | None) -> None:
        _check_name(sink)
        self._sink = sink
        self._run: Run | None = None

    def __getstate__(self) -> dict[str, object]:
        """What is of the driver stays there: tasks only stage."""
        return {**self.__dict__, "_run": None}

    @property
    @abstractmethod
    def destination(self) -> str:
        """What is written to, for messages."""

    @abstractmethod
    def prepare(self) -> None:
        """Check the destination, or make it, before anything is read. It runs on the driver."""

    @abstractmethod
    def stored(self, sink: str) -> SinkMark | None:
        """What the destination keeps under a name."""

    @abstractmethod
    def rows(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes:
        """In the task: the receipt of rows, of which there is at least one."""

    @abstractmethod
    def write(self, run: Run, epoch: int, receipts: Sequence[bytes]) -> bool:
        """On the driver: write the rows of some receipts, and the mark, unless `Run.must_write` says no.

        Returns whether the mark is there; an epoch that changes nothing need not move it.
        """

    def begin(self, anew: bool) -> bytes | None:
        """See `BaseSink`."""
        self.prepare()
        # A run that goes on has it in its newest commit, which is delivered next.
        if anew:
            self._run = self._named(randbits(62))
        return None

    def _name(self, number: int) -> str:
        return self._sink or f"run-{number:016x}"

    def _named(self, number: int) -> Run:
        """A run that takes the place of the one that the destination names under the sink's name."""
        before = None if self._sink is None else self.stored(self._sink)
        return Run(number, None if before is None else before.run, self._name(number))

    def held(self) -> bytes | None:
        """The run, for every commit: a driver that goes on learns it from there."""
        return None if self._run is None else _RUN + self._run.encode()

    def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
        """See `Sink`; None without rows."""
        return _ROWS + self.rows(batch, epoch, interval, token) if len(batch) else None

    def deliver(self, epoch: int, receipts: Sequence[bytes]) -> None:
        """Write the rows of a committed epoch, unless they are written. Raises as `Run.must_write`."""
        run = self._run or self._resumed(epoch, receipts)
        rows = [receipt[1:] for receipt in receipts if receipt[:1] == _ROWS]
        if rows and self.write(run, epoch, rows):
            run = replace(run, written=epoch)
        # Under a new name the run goes on with the next epoch, as this one may have been written under the old name.
        self._run = run if run.sink == self._name(run.number) else self._named(run.number)

    def _resumed(self, epoch: int, receipts: Sequence[bytes]) -> Run:
        """The run that a driver goes on with, from the receipts of its newest commit. Raises as `Run.must_write`."""
        run = next(Run.decode(receipt[1:]) for receipt in receipts if receipt[:1] == _RUN)
        stored = self.stored(run.sink)
        if run.sink != self._name(run.number) and (run.is_replaced(stored) or run.is_missed(stored)):
            # The errors say that the run goes on under another name.
            return self._named(run.number)
        run.must_write(stored, epoch, self.destination)
        return run
