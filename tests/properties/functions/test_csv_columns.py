"""Rows of CSV files that come as columns are the rows, with the event times, that are made one by one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as beam
from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.sdk.io.text.csv_files import CsvParser
from tests.depth import examples

ODD = "1969-12-31T23:59:59.123456789Z"
CELLS: dict[str, st.SearchStrategy[str]] = {
    "whole": st.integers(-(10**19), 10**19).map(str) | st.integers(-9, 9).map(str),
    "fraction": st.floats(-1e12, 1e12).map(str) | st.sampled_from(["nan", "1.5"]),
    "text": st.sampled_from(["a", "ß", '"x,y"', "é"]),
    "flag": st.sampled_from(["true", "false"]),
    "day": st.dates().map(str),
    "local": st.datetimes().map(lambda at: str(at.replace(microsecond=0))),
    "zoned": st.datetimes().map(lambda at: f"{at.isoformat()}Z") | st.just(ODD),
    "clock": st.times().map(lambda at: str(at.replace(microsecond=0))),
}


@st.composite
def files(draw: st.DrawFn) -> str:
    """A file with one column of a kind; some cells may be empty, which are nulls."""
    cells = CELLS[draw(st.sampled_from(sorted(CELLS)))] if draw(st.integers(0, 9)) else st.sampled_from(["1", "x"])
    lines = draw(st.lists(cells if draw(st.booleans()) else cells | st.just(""), max_size=5))
    return "".join(f"{line}\n" for line in ("key,x", *(f"k,{cell}" for cell in lines)))


def read(path: str, timestamp: str | None) -> object:
    """Types, values and times of all rows, or the error; and whether some came as columns."""
    try:
        injector = beam.io.ReadFromCsv(path, timestamp=timestamp).injector()
        batches: list[Any] = [
            batch for split in injector.plan(injector.start(), 100, 1).splits for batch in split.read()
        ]
    except Exception as error:
        return str(error)
    rows = [
        (repr(value), time) for batch in batches for value, time in zip(batch.values, batch.timestamps, strict=True)
    ]
    return rows, any(isinstance(batch, ColumnBatch) for batch in batches)


def check(contents: str, timestamp: str | None) -> bool:
    """Read a file both ways. Returns whether it came as columns."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        (path := Path(folder) / "a.csv").write_text(contents, encoding="utf-8")
        by_column = read(str(path), timestamp)
        patch.setattr(CsvParser, "_columns", lambda *_: None)
        one_by_one = read(str(path), timestamp)
    if isinstance(by_column, tuple) and isinstance(one_by_one, tuple):
        assert by_column[0] == one_by_one[0]
        return bool(by_column[1])
    assert by_column == one_by_one
    return False


@settings(max_examples=examples(100, 5_000), deadline=None)
@given(files(), st.sampled_from([None, "x"]))
def test_rows_of_csv_by_column_are_those_one_by_one(contents: str, timestamp: str | None) -> None:
    check(contents, timestamp)


@pytest.mark.parametrize(
    "cell", ["1", "1.5", "a", "true", "2024-05-01", "2024-05-01 10:00:00", "2024-05-01T10:00:00Z", ODD]
)
def test_which_rows_of_csv_come_as_columns(cell: str) -> None:
    assert check(f"key,x\nk,{cell}\n", None)
    assert check(f"key,x\nk,{cell}\n", "x") is (cell in ("1", "1.5", "2024-05-01T10:00:00Z", ODD))
