"""User functions that are called on the driver with the elements of each epoch, as a list or as one Arrow table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import encode_tables
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.sinks.sink import BaseSink, CallSink
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import Timestamp
from headrace.sdk.graph.pvalue import PCollection, PValue
from headrace.sdk.io.argument_checks import check_schema
from headrace.sdk.io.columns.run_schema import RunSchema, with_schema
from headrace.sdk.io.columns.source_columns import source_columns
from headrace.sdk.transforms.core.low_level import Write


class ForeachEpoch(Write):
    """Calls `function(epoch, elements)` on the driver with the elements of each epoch, once the epoch is committed.

    Epochs come in order, with increasing numbers; epochs without elements are left out. After a crash the call for
    the newest epoch may be repeated, with the same elements in the same order. So a function has effects exactly once
    if it stores the number together with its effects, as in one database transaction, and ignores numbers that are not
    greater than the stored one; `WriteToDatabase` does so. The elements of an epoch pass through its commit and the
    driver's memory.

    Args:
        function: The function. An exception ends the run; the epoch stays committed, and the call is repeated when the
            program is restarted.
        with_timestamps: Whether elements are pairs of element and `Timestamp`.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     rows = pipeline | beam.Create(["a", "b"])
    ...     _ = rows | beam.io.ForeachEpoch(lambda epoch, elements: print(epoch, elements))
    1 ['a', 'b']
    """

    def __init__(self, function: Callable[[int, list[object]], object], with_timestamps: bool = False) -> None:
        if not callable(function):
            raise TypeError(f"ForeachEpoch takes a function of epoch and elements, got {function!r:.200}")
        self._function, self._stamped = function, with_timestamps
        super().__init__(CallSink(self._call))

    def _call(self, epoch: int, rows: Sequence[tuple[object, int]]) -> None:
        if self._stamped:
            self._function(epoch, [(element, Timestamp.of_micros(stamp)) for element, stamp in rows])
        else:
            self._function(epoch, [element for element, _ in rows])


TableFunction = Callable[[int, pa.Table], object]
"""A function of an epoch's number and its rows."""


@named("TableSink")
class TableSink(BaseSink):
    """Calls a function `(epoch, table)` on the driver with the rows of each epoch.

    >>> seen = []
    >>> sink = TableSink(lambda epoch, table: seen.append((epoch, table.to_pylist())))
    >>> sink.deliver(3, [sink.stage(Batch([{"carrier": "UA"}], [5]), 3, 0, "t")])
    >>> seen
    [(3, [{'carrier': 'UA'}])]
    """

    def __init__(self, function: TableFunction, schema: pa.Schema | None = None) -> None:
        self._function: TableFunction | None = function
        self.columns = RunSchema(schema)

    def __getstate__(self) -> dict[str, object]:
        """The function stays on the driver: tasks only stage."""
        return {"_function": None, "columns": self.columns}

    def begin(self, anew: bool) -> bytes | None:
        """See `BaseSink`."""
        self.columns.begin(anew)
        return None

    def held(self) -> bytes | None:
        """See `BaseSink`: a stream of no rows, with the columns of the run."""
        schema = self.columns.held
        return None if schema is None else encode_tables([], _marked(schema))

    def agreement(self) -> bytes | None:
        """See `BaseSink`."""
        return self.columns.agreement()

    def agree(self, agreement: bytes) -> None:
        """See `BaseSink`."""
        self.columns.agree(agreement)

    def settle(self, epoch: int, receipts: Sequence[bytes]) -> list[bytes]:
        """See `BaseSink`: rows with other columns than those of the run get these. Raises `ValueError`."""
        if self.columns.stated is not None:
            return [*receipts]
        tables = [pa.ipc.open_stream(receipt).read_all() for receipt in receipts]
        schema = self.columns.settled(table.schema for table in tables)
        assert schema is not None, "every table has columns"
        marked = _marked(schema)
        return [encode_tables(with_schema(table, marked).to_batches(), marked) for table in tables]

    def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
        """The rows as an Arrow stream, which is the receipt; None without rows. Raises as `table` does."""
        if not len(batch):
            return None
        table = self.table(batch)
        return encode_tables(table.to_batches(), table.schema)

    def table(self, batch: Batch) -> pa.Table:
        """The table of the rows of a task. Raises as `RunSchema.table_of` does."""
        return self.columns.table_of(batch)

    def deliver(self, epoch: int, receipts: Sequence[bytes]) -> None:
        """Call the function with all rows of the epoch, if any. Raises `ValueError` if they have no common schema."""
        tables = [pa.ipc.open_stream(receipt).read_all() for receipt in receipts]
        for each in tables:
            if _SETTLED in (each.schema.metadata or {}):
                self.columns.committed(_unmarked(each.schema))
        tables = [each.replace_schema_metadata(_unmarked(each.schema).metadata) for each in tables if each.num_rows]
        if not tables:
            return
        try:
            table = pa.concat_tables(tables, promote_options="default")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ValueError(
                f"the rows of epoch {epoch} have no common schema: {error}; state one with schema=pyarrow.schema(...). "
                "The epoch is committed; its rows are delivered when the program is started again"
            ) from error
        assert self._function is not None, "the driver has the function"
        self._function(epoch, table)


_SETTLED = b"headrace.settled"
"""Key in the metadata of a schema that is that of the run."""


def _marked(schema: pa.Schema) -> pa.Schema:
    return schema.with_metadata({**(schema.metadata or {}), _SETTLED: b""})


def _unmarked(schema: pa.Schema) -> pa.Schema:
    rest = {key: value for key, value in (schema.metadata or {}).items() if key != _SETTLED}
    return schema.with_metadata(rest or None)


class WriteToTables(Write):
    """Calls a function `(epoch, table)` on the driver with the rows of each epoch as one `pyarrow.Table`.

    Elements are dicts, `Row`s, named tuples or dataclasses; columns of elements become columns of the table without
    Python values. The call follows the commit of the epoch. After a crash it may be repeated, with the same number and
    the same rows.

    Args:
        function: The function; it is called for each epoch that has rows.
        schema: The columns and their types, a `pyarrow.Schema`; by default as for `WriteToParquet`, one schema for the
            tables of all epochs.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     rows = pipeline | beam.Create([beam.Row(carrier="UA", delay=3)])
    ...     _ = rows | beam.io.WriteToTables(lambda epoch, table: print(table.to_pydict()))
    {'carrier': ['UA'], 'delay': [3]}
    """

    def __init__(self, function: TableFunction, schema: pa.Schema | None = None) -> None:
        if not callable(function):
            raise TypeError(f"WriteToTables takes a function of epoch and table, got {function!r:.200}")
        check_schema(schema)
        self._tables = TableSink(function, schema)
        super().__init__(self._tables)

    def expand(self, inputs: PCollection[object]) -> PValue:
        """See `Write.expand`."""
        self._tables.columns.source = partial(source_columns, inputs)
        return super().expand(inputs)
