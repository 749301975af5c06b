"""Programs with the sources and sinks of beam_postgres, a name of two packages, and of beam_sink, on a server."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

import apache_beam as beam
import pytest
from conftest import Record

INSTALLED = {distribution.name for distribution in distributions()}
ROWS = [{"num": each, "name": f"m{each}", "share": each / 4} for each in range(40)]
TABLE = "create table months (num int primary key, name text not null, share float)"
UPSERT = "insert into months values (%(num)s, %(name)s, %(share)s) on conflict (num) do update set name = excluded.name"


def only_with(package: str) -> pytest.MarkDecorator:
    """Skip a program unless this package is installed."""
    return pytest.mark.skipif(package not in INSTALLED, reason=f"{package} is not installed")


@pytest.fixture
def folder() -> Iterator[str]:
    """The folder with the socket of a server."""
    spec = importlib.util.spec_from_file_location(
        "postgresserver", Path(__file__).parents[3].joinpath("postgresserver.py")
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for address in module.server_or_skip():
        yield address.partition("host=")[2].partition(" ")[0]


@only_with("beam-postgres")
def test_written_and_read(folder: str, record: Record) -> None:
    import psycopg
    from beam_postgres.io import ReadAllFromPostgres, ReadFromPostgres, WriteToPostgres
    from psycopg.rows import dict_row

    address = f"host={folder} user=postgres dbname=postgres"
    with psycopg.connect(address) as connection:
        connection.execute(TABLE)
    with beam.Pipeline() as pipeline:
        pipeline | beam.Create(ROWS) | WriteToPostgres(address, UPSERT, batch_size=7)
    with beam.Pipeline() as pipeline:
        query = "select * from months where mod(num, 3) = 1"
        record("read", pipeline | ReadFromPostgres(address, query, dict_row, batch_size=5))
        record("all", pipeline | ReadAllFromPostgres(address, "select sum(share) as shares from months", dict_row))


@only_with("beam-postgres")
def test_rows_that_cannot_be_written(folder: str, record: Record) -> None:
    import psycopg
    from beam_postgres.io import WriteToPostgres

    address = f"host={folder} user=postgres dbname=postgres"
    with psycopg.connect(address) as connection:
        connection.execute(TABLE)
    rows = [{**row, "name": None} if row["num"] % 10 == 3 else row for row in ROWS]
    with beam.Pipeline() as pipeline:
        failed = pipeline | beam.Create(rows) | WriteToPostgres(address, UPSERT)
        record("failed", failed | beam.MapTuple(lambda row, error: (row["num"], type(error).__name__)))
    with psycopg.connect(address) as connection:
        assert connection.execute("select count(*) from months").fetchone() == (36,)


@only_with("beam-postgres-connector")
@pytest.mark.parametrize("splits", [False, True])
def test_connector(folder: str, splits: bool, record: Record) -> None:
    import psycopg2
    from beam_postgres import splitters
    from beam_postgres.io import ReadFromPostgres, WriteToPostgres

    place = {"host": folder, "database": "postgres", "user": "postgres", "password": "none"}
    with psycopg2.connect(**place) as connection:
        connection.cursor().execute(TABLE)
    with beam.Pipeline() as pipeline:
        pipeline | beam.Create(ROWS) | WriteToPostgres(table="months", batch_size=7, **place)
    query, splitter = "select * from months", splitters.NoSplitter()
    if splits:
        query = f"{query} where num < 9--sep--{query} where num >= 9"
        splitter = splitters.QuerySplitter()
    with beam.Pipeline() as pipeline:
        record("read", pipeline | ReadFromPostgres(query, splitter=splitter, **place))


@only_with("beam-sink")
def test_sink(folder: str, record: Record) -> None:
    import psycopg2
    from beam_sink import PostgresConfig, ReadPostgres, WriteToPostgres

    place = {"host": folder, "database": "postgres", "user": "postgres", "password": "none"}
    with psycopg2.connect(**place) as connection:
        connection.cursor().execute(TABLE)
    config = PostgresConfig(**place)
    with beam.Pipeline() as pipeline:
        rows = pipeline | beam.Create(ROWS)
        rows | WriteToPostgres(config, "months", ["num", "name", "share"], batch_size=6, max_batch_size=6)
    with beam.Pipeline() as pipeline:
        record("read", pipeline | ReadPostgres(config, "select name, num, share from months"))
