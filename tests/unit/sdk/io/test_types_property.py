"""Whatever the types and values of Parquet files, and the epochs in which they are read, they are written so."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as beam
from headrace import col
from headrace.runners.local import LocalRunner
from headrace.runners.local.executor import Scheduler

NAMES = "abc"


class Bundles(Scheduler):
    """Epochs of about so many records."""

    def __init__(self, size):
        super().__init__()
        self._size = size

    def bundle_size(self, epoch, limit):
        return self._size


def numbers(kind):
    limits = np.iinfo(kind.to_pandas_dtype())
    return st.integers(int(limits.min), int(limits.max))


def decimals(precision, scale):
    return st.integers(-(10**precision) + 1, 10**precision - 1).map(lambda number: Decimal(number).scaleb(-scale))


LEAVES = [
    *((kind, numbers(kind)) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *((kind, numbers(kind)) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text(max_size=3)),
    (pa.large_string(), st.text(max_size=3)),
    (pa.binary(), st.binary(max_size=3)),
    (pa.binary(2), st.binary(min_size=2, max_size=2)),
    (pa.decimal128(12, 2), decimals(12, 2)),
    (pa.decimal128(38, 10), decimals(28, 10)),
    (pa.decimal256(50, 3), decimals(28, 3)),
    (pa.date32(), st.dates(date(1, 1, 2), date(9999, 12, 30))),
    *(
        (pa.timestamp(unit, zone), st.integers(-(10**9), 10**9))
        for unit in ("ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Paris")
    ),
    (pa.time32("ms"), st.integers(0, 10**6)),
    (pa.time64("us"), st.integers(0, 10**9)),
    (pa.duration("us"), st.integers(-(10**9), 10**9)),
]


def nested(inner):
    kind, values = inner
    pairs = st.dictionaries(st.text(max_size=2), values, max_size=2).map(lambda found: [*found.items()])
    return st.sampled_from(
        [
            (pa.list_(kind), st.lists(values, max_size=2)),
            (
                pa.struct({"x": kind, "y": pa.string()}),
                st.fixed_dictionaries({"x": values, "y": st.none() | st.text()}),
            ),
            (pa.map_(pa.string(), kind), pairs),
        ]
    )


TYPES = st.recursive(
    st.sampled_from([(kind, st.none() | values) for kind, values in LEAVES]),
    lambda inner: inner.flatmap(nested).map(lambda made: (made[0], st.none() | made[1])),
    max_leaves=3,
)


@st.composite
def tables(draw):
    count = draw(st.integers(1, 5))
    columns = {}
    for name in NAMES[: draw(st.integers(1, len(NAMES)))]:
        kind, values = draw(TYPES)
        columns[name] = pa.array(draw(st.lists(values, min_size=count, max_size=count)), kind)
        if draw(st.booleans()) and pa.types.is_string(kind):
            columns[name] = columns[name].dictionary_encode()
    return pa.table({"id": pa.array(range(count), pa.int16()), **columns})


STEPS = {
    "function": lambda rows: rows | beam.Filter(lambda row: row is not None),
    "columns": lambda rows: rows | beam.Filter(col.id >= 0),
    "select": lambda rows: rows | beam.Select("id", a=col.a),
    "map": lambda rows: rows | beam.Map(lambda row: {"id": row["id"], "a": row["a"]}),
}


@settings(max_examples=60, deadline=None)
@given(tables(), st.integers(1, 4), st.integers(1, 6), st.sampled_from([*STEPS]))
def test_what_is_read_is_written(table, rows_of_a_file, size, which):
    with TemporaryDirectory() as folder:
        for first in range(0, table.num_rows, rows_of_a_file):
            pq.write_table(table.slice(first, rows_of_a_file), f"{folder}/in-{first}.parquet")
        # Not every type is read in the unit or encoding in which it was written.
        source = pa.concat_tables(
            [pq.read_table(f"{folder}/in-{n}.parquet") for n in range(0, table.num_rows, rows_of_a_file)]
        )
        source = source if which in ("function", "columns") else source.select(["id", "a"])
        tables = []
        with beam.Pipeline(LocalRunner(scheduler=Bundles(size))) as pipeline:
            rows = STEPS[which](pipeline | beam.io.ReadFromParquet(f"{folder}/in-*"))
            _ = rows | beam.io.WriteToParquet(f"{folder}/out")
            _ = rows | beam.io.WriteToTables(lambda epoch, found: tables.append(found))
        files = sorted(Path(folder).glob("out*"))
        for found in (pa.concat_tables([pq.ParquetFile(path).read() for path in files]), pa.concat_tables(tables)):
            assert found.schema.equals(source.schema), (found.schema, source.schema)
            assert found.sort_by("id").combine_chunks().equals(source.combine_chunks())
