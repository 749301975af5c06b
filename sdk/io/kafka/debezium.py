"""What: Debezium's records on Kafka as the rows of the tables that they tell the changes of.

A record is a pair of key and value, which deserializers have made dicts of; each may have Kafka Connect's schema around
it (`{"schema": …, "payload": …}`). A value is an envelope with the operation, the row before, the row after and the
place in the database's log (`source`), or None: a tombstone, which follows a deletion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.sdk.functions.changelog import RowChange, RowOperation
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.io.argument_checks import check_column_names
from headrace.sdk.io.kafka.record import KafkaRecord
from headrace.sdk.io.row_changes import FromRowChanges
from headrace.sdk.io.timestamps import TimestampOf
from headrace.sdk.transforms.core.par_do import ParDo

_OPERATIONS = {
    "c": RowOperation.INSERT,
    "u": RowOperation.UPDATE,
    "d": RowOperation.DELETE,
    "r": RowOperation.READ,
    "t": RowOperation.TRUNCATE,
}
_MESSAGE = "m"
"""The operation of a message that a program has written into the log of PostgreSQL; it is no change of a row."""
_UNAVAILABLE = (
    "__debezium_unavailable_value",
    b"__debezium_unavailable_value",
    "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
    ["__debezium_unavailable_value"],
)
"""What stands for a value that the database did not tell as it has not changed: text, bytes, bytes in JSON, a list."""


def debezium_commit_time(record: KafkaRecord) -> object:
    """When a change was committed in its database: a `timestamp_policy` of `ReadFromKafka` for Debezium's records.

    >>> from headrace.lowlevel.time import Timestamp
    >>> envelope = {"op": "c", "after": {"id": 1}, "source": {"ts_ms": 5_500}}
    >>> debezium_commit_time(KafkaRecord("orders", 0, 7, None, envelope, (), Timestamp(9)))
    5.5
    """
    envelope = _payload(record.value)
    source = envelope.get("source") if isinstance(envelope, Mapping) else None
    millis = source.get("ts_ms") if isinstance(source, Mapping) else None
    # A tombstone has none, and so have rows of a snapshot by some connectors.
    return millis / 1000 if isinstance(millis, int) and millis > 0 else record.timestamp


class FromDebezium(PTransform[PCollection[Any], PCollection[Any]]):
    """Turns Debezium's records of a table into the collection of its rows; later steps correct their results.

    The elements are pairs or `KafkaRecord`s of `ReadFromKafka`, with `kafka_values.json()` or `kafka_values.avro(…)` as
    deserializer of keys and of values. `FromRowChanges` says what becomes of the changes. There may be snapshots,
    deletions with the key alone, tombstones, truncations, columns that come or go, and values that PostgreSQL does not
    tell as they have not changed.

    Args:
        key: Names of the columns of the primary key, one or several.
        timestamp: What gives the event time of a row: the name of a column, or a function of the row. None for the
            event time of the record, which is that of the commit if `debezium_commit_time` is the `timestamp_policy`
            of `ReadFromKafka`.
        sequence: Names of fields of `source` that order the changes of a key, such as `lsn` for PostgreSQL, for topics
            that are not partitioned by key. None if the changes of a key are in order. Positions must not begin anew,
            as those of MySQL do at another server.
        versions: See `FromRowChanges`.

    Raises:
        TypeError: An argument has a wrong type.

    >>> import headrace as beam
    >>> from headrace.io.kafka import FromDebezium
    >>> records = [
    ...     ({"id": 1}, {"op": "c", "before": None, "after": {"id": 1, "city": "oslo"}, "source": {"lsn": 1}}),
    ...     ({"id": 1}, {"op": "d", "before": {"id": 1, "city": None}, "after": None, "source": {"lsn": 2}}),
    ...     ({"id": 1}, None),
    ...     ({"id": 2}, {"op": "c", "before": None, "after": {"id": 2, "city": "rome"}, "source": {"lsn": 3}}),
    ... ]
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     people = pipeline | beam.Create(records) | FromDebezium(key="id")
    ...     _ = people | beam.Map(lambda row: row["city"]) | beam.combiners.Count.PerElement() | beam.Map(print)
    ('rome', 1)
    """

    def __init__(
        self,
        key: str | Sequence[str],
        timestamp: TimestampOf = None,
        sequence: str | Sequence[str] | None = None,
        versions: bool = False,
    ) -> None:
        super().__init__()
        names = (key,) if isinstance(key, str) else key
        check_column_names("key", names)
        fields = (sequence,) if isinstance(sequence, str) else sequence or ()
        check_column_names("sequence", fields)
        self._changes = DebeziumChanges(tuple(names), tuple(fields))
        self._rows = FromRowChanges(names, timestamp, versions)

    def expand(self, inputs: PCollection[Any]) -> PCollection[Any]:
        """The rows and their retractions."""
        return inputs | "Changes" >> ParDo(self._changes) | "Table" >> self._rows


class DebeziumChanges(DoFn):
    """Records become `RowChange`s."""

    def __init__(self, key: tuple[str, ...], sequence: tuple[str, ...]) -> None:
        self._key, self._sequence = key, sequence

    def process(self, element: object) -> Iterator[RowChange]:
        """The change, if it is one of a row."""
        pair = (element.key, element.value) if isinstance(element, KafkaRecord) else element
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"{element!r:.200} is no record; give pairs of key and value, as ReadFromKafka reads them")
        key, envelope = _payload(pair[0]), _payload(pair[1])
        if envelope is None:
            # The deletion before it has said the same, unless compaction has removed that.
            if isinstance(key, Mapping) and all(name in key for name in self._key):
                yield RowChange(RowOperation.DELETE, key)
        elif not isinstance(envelope, Mapping) or "op" not in envelope:
            raise ValueError(
                f"{envelope!r:.200} is no envelope of Debezium, which has the fields op, before and after; give "
                "ReadFromKafka a value_deserializer, such as kafka_values.json(), and let the connector write whole "
                "envelopes (without ExtractNewRecordState), or make RowChanges yourself for FromRowChanges"
            )
        elif envelope["op"] != _MESSAGE:
            yield self._change(key, envelope)

    def _change(self, key: object, envelope: Mapping[str, Any]) -> RowChange:
        operation = _OPERATIONS.get(envelope["op"])
        if operation is None:
            known = ", ".join([*_OPERATIONS, _MESSAGE])
            what = f"the operation {envelope['op']!r:.80} of {envelope!r:.200}"
            raise ValueError(f"{what} is none of {known}; leave it out before")
        before, after = envelope.get("before"), envelope.get("after")
        for row in (before, after):
            if row is not None and not isinstance(row, Mapping):
                raise ValueError(
                    f"{row!r:.200} is no row with named columns, as the connectors of relational databases write them; "
                    "make RowChanges of such records yourself, for FromRowChanges"
                )
        if before is None and after is None and operation is RowOperation.DELETE:
            before = key
        unchanged = [name for name, value in (after or {}).items() if value in _UNAVAILABLE]
        return RowChange(operation, before, after, self._place(envelope.get("source") or {}), tuple(unchanged))

    def _place(self, source: Mapping[str, object]) -> object:
        """The place in the log; None if it is not asked for, or not told."""
        place = tuple(source.get(name) for name in self._sequence)
        return None if None in place or not place else place


def _payload(value: object) -> object:
    """A key or value without its schema."""
    if isinstance(value, Mapping) and set(value) == {"schema", "payload"}:
        return value["payload"]
    return value
