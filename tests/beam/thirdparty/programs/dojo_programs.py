"""Programs with the transforms of dojo_beam_transforms: columns cleaned, converted, joined."""

from __future__ import annotations

import apache_beam as beam
import pytest
from conftest import Record
from pipeline_components import data_cleaning, data_enrichment
from pipeline_components.data_enrichment.Join import Join

ROWS = [{"id": each % 9, "name": f"  Ná{each} ", "amount": f"{each}.5"} for each in range(30)]


def test_columns(record: Record) -> None:
    with beam.Pipeline() as pipeline:
        # The transforms change their elements in place, so each has elements of its own.
        first, other = (pipeline | f"rows {each}" >> beam.Create(ROWS) for each in range(2))
        trimmed = first | beam.ParDo(data_cleaning.TrimValues(["name"]))
        renamed = trimmed | beam.ParDo(data_cleaning.RenameColumns({"name": "called"}))
        record("renamed", renamed)
        record(
            "kept",
            renamed
            | beam.ParDo(data_cleaning.KeepColumns(["id"]))
            | beam.ParDo(data_enrichment.ColumnsToString(["id"])),
        )
        record("numbers", other | beam.ParDo(data_enrichment.ColumnsToFloat(["amount"])))


@pytest.mark.parametrize("kind", ["left", "inner", "right"])
def test_joins(kind: str, record: Record) -> None:
    with beam.Pipeline() as pipeline:
        left = pipeline | "left" >> beam.Create(ROWS)
        right = pipeline | "right" >> beam.Create([{"key": each, "name": f"right {each}"} for each in range(5, 14)])
        record("joined", left | Join(right, [("id", "key")], kind))
