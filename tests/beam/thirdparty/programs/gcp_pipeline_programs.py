"""Programs with the transforms of gcp_pipeline_beam: lines of CSV checked, enriched and deduplicated; windows."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.transforms import trigger, window
from conftest import Record
from gcp_pipeline_beam.pipelines.beam.transforms import (
    CSVParserConfig,
    DeduplicateRecordsDoFn,
    DetectDelimiterDoFn,
    EnrichWithMetadataDoFn,
    FilterRecordsDoFn,
    ParseCsvLine,
    RobustCsvParseDoFn,
    TransformRecordDoFn,
    ValidateRecordDoFn,
)
from gcp_pipeline_beam.pipelines.beam.transforms.windowing import ApplyWindowing

LINES = ["HDR|x", "id,name", "1,Ann", "2,Bob,extra", "3", '4,"C', "5;Dee", "6,\x00Eve", "", "1,Ann", "TRL|y"]


@pytest.mark.parametrize("strict", [False, True])
def test_lines_that_are_not_as_they_should_be(strict: bool, record: Record, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("\n".join(LINES), encoding="utf-8")
    config = CSVParserConfig(["id", "name"], strict_field_count=strict)
    with beam.Pipeline() as pipeline:
        lines = pipeline | beam.io.ReadFromText(str(tmp_path / "people.csv"))
        parsed = lines | beam.ParDo(RobustCsvParseDoFn(config)).with_outputs("errors", "warnings", main="main")
        for tag in ("main", "errors", "warnings"):
            record(tag, parsed[tag])
        record("delimiter", lines | beam.combiners.ToList() | beam.ParDo(DetectDelimiterDoFn(2)))


def test_records(record: Record) -> None:
    def failures(person: dict[str, str]) -> list[str]:
        return [] if person["id"].isdigit() else ["no number"]

    with beam.Pipeline() as pipeline:
        lines = pipeline | beam.Create([f"{each % 7},n{each}" for each in range(20)] + ["x,y"])
        people = lines | beam.ParDo(ParseCsvLine(["id", "name"])).with_outputs("errors", main="main")
        valid = people.main | beam.ParDo(ValidateRecordDoFn(failures)).with_outputs("invalid", main="valid")
        record("invalid", valid.invalid)
        kept = valid.valid | beam.ParDo(FilterRecordsDoFn(lambda person: person["id"] != "3"))
        longer = kept | beam.ParDo(TransformRecordDoFn(lambda person: {**person, "length": len(person["name"])}))
        record("longer", longer)
        # The DoFn keeps what it has seen for each worker, so all records go to one.
        together = longer | beam.combiners.ToList() | beam.FlatMap(lambda people: sorted(people, key=str))
        once = together | beam.ParDo(DeduplicateRecordsDoFn(lambda person: person["id"])).with_outputs(
            "duplicates", main="main"
        )
        record("once", once.main)
        record("duplicates", once.duplicates)
        enriched = kept | beam.ParDo(EnrichWithMetadataDoFn("run 1", "people", source="test"))
        record("fields", enriched | beam.Map(sorted))


@pytest.mark.parametrize(
    "windows",
    [
        {"window_type": "fixed", "size": 10},
        {"window_type": "sliding", "size": 20, "period": 10},
        {"window_type": "session", "gap": 3},
        {"window_type": "fixed", "size": 10, "trigger": trigger.AfterWatermark(early=trigger.AfterCount(1))},
    ],
    ids=["fixed", "sliding", "session", "early"],
)
def test_windows(windows: dict[str, object], record: Record) -> None:
    with beam.Pipeline() as pipeline:
        numbers = pipeline | beam.Create([0, 1, 2, 9, 11, 12, 30, 44, 45])
        timed = numbers | beam.Map(lambda number: window.TimestampedValue(("key", number), number))
        sums = timed | ApplyWindowing(**windows, accumulation_mode="accumulating") | beam.CombinePerKey(sum)
        record("sums", sums | beam.Map(lambda total, w=beam.DoFn.WindowParam: (total, str(w))) | beam.Distinct())
