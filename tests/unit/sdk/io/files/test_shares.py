"""How what is left of files is shared among tasks."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.sdk.io.files.file_source import FileInjector
from headrace.sdk.io.parquet.parquet_source import ReadFromParquet


@pytest.mark.parametrize(
    ("rows", "limit", "expected"),
    [
        ([600_000], 16_000_000, [300_000, 300_000]),
        ([600_000], 1_000_000, [300_000, 300_000]),
        ([150_000], 1_000_000, [100_000, 50_000]),
        ([90_000], 1_000_000, [90_000]),
        ([50_000] * 6, 16_000_000, [150_000, 150_000]),
        ([400_000, 100_000, 100_000], 16_000_000, [300_000, 300_000]),
        ([600_000], 400_000, [200_000, 200_000]),
    ],
)
def test_tasks_read_equal_shares_of_what_there_is(
    rows: Sequence[int], limit: int, expected: list[int], tmp_path
) -> None:
    for number, count in enumerate(rows):
        pq.write_table(pa.table({"n": pa.array(range(count), pa.int32())}), tmp_path / f"{number}.parquet")
    injector = ReadFromParquet(f"{tmp_path}/*.parquet").injector()
    assert isinstance(injector, FileInjector)
    delivery = injector.plan(injector.start(), limit, 2)
    assert delivery.done == (sum(rows) <= limit)
    sizes = [sum(len(batch) for batch in split.read()) for split in delivery.splits]
    assert sizes == expected
    found = sorted(
        (row["n"] for split in delivery.splits for batch in split.read() for row in batch.values), reverse=True
    )
    assert len(found) == min(sum(rows), limit)
