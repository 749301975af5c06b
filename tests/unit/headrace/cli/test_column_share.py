"""What is explained as vectorized is counted as taken by column; where it is not, the run and `explain` say so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from headrace.cli import column_share
from headrace.cli.app import app

NAME = "shares_of_columns"
PROGRAM = """
from datetime import date, timedelta
from decimal import Decimal

import headrace as beam
from headrace.transforms.window import TimestampedValue

DAY, START = timedelta(1), date(2000, 1, 1)
from headrace.transforms import stats

def pipeline(pipeline):
    rows = pipeline | "Rows" >> beam.io.ReadFromParquet("rows.parquet", timestamp="at")
    pairs = rows | "Pair" >> beam.Map(lambda row: (row["key"], row["value"]))
    windowed = pairs | beam.WindowInto(beam.window.FixedWindows(50))
    ends = beam.combiners.SingleInputTupleCombineFn(min, max)
    combiners = {"Sum": sum, "Mean": beam.combiners.MeanCombineFn(), "Most": max, "Ends": ends}
    for name, combiner in {**combiners, "Spread": stats.VarianceFn()}.items():
        windowed | name >> beam.CombinePerKey(combiner)
    windowed | "Top" >> beam.combiners.Top.LargestPerKey(2)
    windowed | "Latest" >> beam.combiners.Latest.PerKey()
    windowed | "Earliest" >> beam.combiners.Earliest.PerKey()
    windowed | "Present" >> beam.CombinePerKey(beam.combiners.CountNonNullCombineFn())
    windowed | "Distinct" >> beam.CombinePerKey(beam.combiners.CountDistinctCombineFn())
    windowed | "Sketch" >> stats.ApproximateUnique.PerKey(size=16)
    windowed | "Quantiles" >> beam.ApproximateQuantiles.PerKey(5)
    windowed | "List" >> beam.CombinePerKey(beam.combiners.ToListCombineFn())
    windowed | "Count" >> beam.combiners.Count.PerKey()
    dear = rows | "Dear" >> beam.Filter(beam.col.price >= Decimal("0"))
    dear | "Names" >> beam.Select("tags", day=beam.col.day - DAY) | "Few" >> beam.Filter(beam.col.day < START)
    dated = rows | "Date" >> beam.Map(lambda row: TimestampedValue((row["key"], row["value"]), row["moment"]))
    dated | "Hours" >> beam.WindowInto(beam.window.FixedWindows(3600)) | "Hourly" >> beam.CombinePerKey(sum)
    many = pipeline | "Many" >> beam.Create([beam.Row(key="a", value=number) for number in range(3_000)])
    many | "Same" >> beam.Map(lambda row: (row.key, row.value)) | "All" >> beam.CombinePerKey(sum)
    given = pipeline | "Given" >> beam.Create([("a", number) for number in range(100)])
    given | "Next" >> beam.Map(lambda pair: (pair[0], pair[1] + 1))
"""
STEPS = (
    "Pair",
    "Sum",
    "Mean",
    "Most",
    "Ends",
    "Spread",
    "Top",
    "Latest",
    "Earliest",
    "Present",
    "Distinct",
    "Sketch",
    "Quantiles",
    "List",
    "Count",
)
NEARLY_LOST = {"Dear": 100, "Names": 100, "Few": 100, "Date": 100, "Hourly": 100, "Same": 3_000, "All": 3_000}
"""Steps that took values one by one for long, and how many elements they have."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path(f"{NAME}.py").write_text(PROGRAM, encoding="utf-8")
    numbers = range(100)
    values = [number / 4 for number in numbers]
    table = pa.table({"key": ["a", "b"] * 50, "value": values, "at": list(numbers), "tags": [["a"]] * 100})
    table = table.append_column("price", pa.array(numbers).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)))
    table = table.append_column("day", pa.array(numbers, pa.int32()).cast(pa.date32()))
    table = table.append_column("moment", pa.array([datetime.fromtimestamp(each, UTC) for each in values]))
    pq.write_table(table, "rows.parquet")
    return tmp_path


def headrace(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


def run() -> Result:
    return headrace("run", f"{NAME}.py", "--runner=LocalRunner", "--checkpoint=state", "--no-progress")


def explained() -> Mapping[str, Mapping[str, object]]:
    told = headrace("explain", f"{NAME}.py", "--checkpoint=state", "--json")
    return {step["step"]: step for step in json.loads(told.stdout)["steps"]}


@pytest.mark.usefixtures("folder")
def test_explain_and_the_counts_agree() -> None:
    assert run().exit_code == 0
    steps = explained()
    for name, count in {**dict.fromkeys(STEPS, 100), **NEARLY_LOST}.items():
        assert (name, steps[name]["vectorized"], steps[name]["one_by_one"]) == (name, True, 0)
        assert (name, steps[name]["by_column"]) == (name, count)
    text = headrace("explain", f"{NAME}.py", "--checkpoint=state").stdout
    assert "step 'Next' processes columns where its input has them; 100 of 100 elements were taken one by one\n" in text
    assert "step 'Sum' processes all keys at once\n" in text


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("few", [99, 100])
def test_a_run_names_vectorized_steps_that_took_many_one_by_one(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_share, "_FEW", few)
    said = run().stderr
    assert ("step 'Next' is vectorized, but 100 of 100 elements were taken one by one" in said) is (few < 100)
    assert "'Sum'" not in said
