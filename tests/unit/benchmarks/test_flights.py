"""The questions to the flights: ours and DuckDB give what pandas gives, and what is explained is what was counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import flights as benchmark
from benchmarks.flights import SYSTEMS, Flights, run_headrace, run_pandas, written
from benchmarks.flights_queries import QUERIES, Query
from benchmarks.result import canonical, difference

ROWS = 3_000


@pytest.fixture(scope="module")
def data() -> Iterator[Flights]:
    # The end of one year and the beginning of the next.
    two_years = benchmark.flights(copies=2)
    with written(two_years.slice(two_years.num_rows // 2 - ROWS // 2, ROWS)) as found:
        yield found


@pytest.fixture(params=QUERIES, ids=lambda query: query.name.partition(":")[0])
def query(request: pytest.FixtureRequest) -> Query:
    return cast(Query, request.param)


@pytest.mark.parametrize("streamed", [False, True], ids=["bounded", "streamed"])
def test_ours_gives_what_pandas_gives_by_column(
    query: Query, data: Flights, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "FILE_EVENTS", ROWS // 5)
    expected = canonical(query, run_pandas(query, data))
    assert expected.num_rows > 50
    result, steps = run_headrace(query, data, streamed, "LocalRunner")
    assert difference(query, expected, canonical(query, result)) is None
    counted = [step for step in steps if step.by_column or step.one_by_one]
    assert {step.name for step in steps if not step.agrees} == set()
    assert max(step.by_column for step in counted) > ROWS // 2


def test_duckdb_gives_what_pandas_gives(query: Query, data: Flights) -> None:
    expected = canonical(query, run_pandas(query, data))
    assert difference(query, expected, canonical(query, SYSTEMS["DuckDB"](query, data))) is None


def test_the_flight_that_ends_a_stream_is_after_all_others_and_has_no_nulls(data: Flights) -> None:
    *files, last = sorted(data.ended.iterdir())
    assert [path.name for path in files] == [path.name for path in sorted(data.many.iterdir())]
    [ending] = pq.read_table(last).to_pylist()
    assert None not in ending.values()
    assert ending["scheduled"].year > 2100 and ending["day"].year > 2100


def test_flights_are_of_as_many_years_and_have_nulls_where_they_are_not_known(data: Flights) -> None:
    table = benchmark.flights(copies=3, rows=None)
    assert table.num_rows == 3 * 336_776
    first, last = table.slice(0, 336_776), table.slice(2 * 336_776)
    assert (last["scheduled"][0].as_py() - first["scheduled"][0].as_py()).days == 2 * 365
    assert (last["day"][0].as_py() - first["day"][0].as_py()).days == 2 * 365
    assert first["dep_delay"].null_count == 8_255
    assert pa.types.is_date32(table.schema.field("day").type)
