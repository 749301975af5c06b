"""Programs with the transforms of beam-nuggets: columns, tables of SQLite."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
from beam_nuggets.io import relational_db
from beam_nuggets.transforms import ParseJson, SelectFromNestedDict
from conftest import Record

NESTED = [{"name": {"first": f"f{each}"}, "address": {"flat": each}, "tags": f"[{each}, null]"} for each in range(20)]


def test_columns(record: Record) -> None:
    with beam.Pipeline() as pipeline:
        nested = pipeline | beam.Create(NESTED)
        record("parsed", nested | beam.ParDo(ParseJson(["tags"])))
        record("selected", nested | beam.ParDo(SelectFromNestedDict(["name.first", "address.flat"])))
        record(
            "deepest", nested | "deepest" >> beam.ParDo(SelectFromNestedDict(["name.first"], deepest_key_as_name=True))
        )


def test_tables(tmp_path: Path, record: Record) -> None:
    source = relational_db.SourceConfiguration(
        drivername="sqlite", database=str(tmp_path / "db"), create_if_missing=True
    )
    table = relational_db.TableConfiguration(name="months", create_if_missing=True, primary_key_columns=["num"])
    with beam.Pipeline() as pipeline:
        months = pipeline | beam.Create([{"name": f"m{each}", "num": each % 12} for each in range(24)])
        latest = (
            months | beam.Map(lambda row: (row["num"], row)) | beam.combiners.Top.PerKey(1, key=lambda row: row["name"])
        )
        latest | beam.Map(lambda pair: pair[1][0]) | relational_db.Write(source_config=source, table_config=table)
    with beam.Pipeline() as pipeline:
        read = relational_db.ReadFromDB(source_config=source, table_name="months")
        query = "select max(num) as most from months"
        queried = relational_db.ReadFromDB(source_config=source, table_name="months", query=query)
        record("read", pipeline | read)
        record("query", pipeline | "query" >> queried)
