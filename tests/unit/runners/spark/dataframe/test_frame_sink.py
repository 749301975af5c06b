"""What no DataFrame can have is refused while the epoch can still be run again: when it is staged."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from uuid import UUID

import pandas as pd
import pyarrow as pa
import pytest

from headrace.lowlevel.checkpoint.manifest.fingerprint import Fingerprint
from headrace.lowlevel.injectors.injector import BoundedInjector
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.topology.topology import Topology
from headrace.runners.spark.dataframe.sink import FrameSink
from headrace.sdk.io.foreach_epoch import TableSink

PYARROW = int(pa.__version__.partition(".")[0])


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        pytest.param(
            UUID(int=1),
            None,
            "column 'v' is of type extension<arrow.uuid>, which a Spark DataFrame does not have",
            marks=pytest.mark.skipif(PYARROW < 18, reason="pyarrow infers no type for it"),
        ),
        (Decimal("1." + "1" * 39), None, "column 'v' is of type decimal256"),
        (7, pa.uint64(), "column 'v' is of type uint64, which"),
        pytest.param(
            7,
            pa.float16(),
            "column 'v' is of type halffloat, which",
            marks=pytest.mark.skipif(PYARROW < 16, reason="pyarrow takes only numpy's numbers"),
        ),
        (7, pa.date64(), "column 'v' is of type date64"),
        (datetime(9999, 1, 1), pa.timestamp("s"), None),
        (2**62, pa.timestamp("s"), "a value of column 'v' of type timestamp.s. does not fit .* timestamp.us.: .*"),
    ],
    ids=str,
)
def test_a_column_without_a_type_in_spark(value: object, kind: pa.DataType | None, message: str | None) -> None:
    sink = FrameSink(print, None if kind is None else pa.schema([("v", kind)]))
    batch = Batch([{"v": value}], [0])
    if message is None:
        assert sink.stage(batch, 1, 0, "t")
        return
    with pytest.raises(ValueError, match=f"{message}.*convert the values before WriteToSpark"):
        sink.stage(batch, 1, 0, "t")


@pytest.mark.parametrize("schema", [None, pa.schema([("v", pa.timestamp("ns"))])], ids=["inferred", "stated"])
@pytest.mark.parametrize("is_first", [True, False])
def test_nanoseconds_are_refused_in_each_epoch(schema: pa.Schema | None, is_first: bool) -> None:
    """Spark has microseconds. In the first epoch they were cut, and later ones were refused."""
    sink = FrameSink(print, schema)
    sink.begin(True)
    whole = Batch([{"v": pd.Timestamp(2_000, unit="ns")}], [0])
    receipt = sink.stage(whole, 1, 0, "t")
    assert receipt is not None
    assert pa.ipc.open_stream(receipt).read_all().to_pylist() == [{"v": datetime(1970, 1, 1, 0, 0, 0, 2)}]
    if not is_first:
        sink.settle(1, [receipt])
        if (agreement := sink.agreement()) is not None:
            sink.agree(agreement)
    with pytest.raises(ValueError, match="column 'v' of type timestamp"):
        sink.stage(Batch([{"v": pd.Timestamp(1_001, unit="ns")}], [0]), 2, 0, "t")


def test_a_checkpoint_of_the_sink_of_tables_goes_on() -> None:
    """`WriteToSpark` had that sink at first."""

    def fingerprint(sink: TableSink) -> Fingerprint:
        topology = Topology()
        topology.injector("rows", BoundedInjector([]))
        topology.sink("frames", "rows", sink)
        return Fingerprint.of(topology)

    assert fingerprint(FrameSink(print)) == fingerprint(TableSink(print))
