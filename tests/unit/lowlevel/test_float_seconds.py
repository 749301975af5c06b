"""A float of seconds is the nearest microsecond, wherever one becomes an instant or a length of time."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as beam
from headrace.lowlevel.time import Duration, Timestamp
from headrace.sdk.expressions.element_schema import times_of
from headrace.sdk.io.timestamps import micros_of
from headrace.sdk.model.special_outputs import TimestampedValue
from headrace.sdk.windows import FixedWindows
from tests.unit.sdk.io.sourcefiles import all_rows, write

MICROS = st.integers(-(10**15), 10**15)


@given(MICROS)
def test_each_way_to_an_instant(micros):
    seconds = micros / 1e6
    assert Timestamp(seconds).micros == micros
    assert Timestamp.of(seconds).micros == micros
    assert micros_of(seconds) == micros
    assert Duration(seconds).micros == Duration.of(seconds).micros == micros
    assert Timestamp.of_micros(micros) == seconds
    assert not Timestamp.of_micros(micros) < seconds
    assert not Timestamp.of_micros(micros) > seconds
    assert (Timestamp(0) + seconds).micros == micros
    assert (Timestamp(0) - seconds).micros == -micros
    assert times_of(pa.array([seconds])).tolist() == [micros]


@given(st.integers(0, 10**12))
def test_decimal_digits_that_are_kept_are_those_that_are_written(milliseconds):
    assert Timestamp(milliseconds / 1000, 0, 3).micros == milliseconds * 1000


def test_digits_beyond_the_kept_ones_are_cut():
    assert Timestamp(1.9999, 0, 3).micros == 1_999_000


@pytest.mark.parametrize("text", ["4.1", "1.1", "2.3", "8.7"])
def test_in_sources(tmp_path, text):
    import pyarrow.parquet as pq

    micros = round(float(text) * 1e6)
    lines = write(tmp_path / "a.json", f'{{"at": {text}}}\n')
    table = write(tmp_path / "a.csv", f"at\n{text}\n")
    pq.write_table(pa.table({"at": [float(text)]}), tmp_path / "a.parquet")
    sources = [
        beam.io.ReadFromJson(lines, timestamp="at"),
        beam.io.ReadFromJson(lines, timestamp=lambda row: row.at),
        beam.io.ReadFromCsv(table, timestamp="at"),
        beam.io.ReadFromParquet(f"{tmp_path}/a.parquet", timestamp="at"),
        beam.io.ReadFromParquet(f"{tmp_path}/a.parquet", timestamp="at", columns=[]),
    ]
    assert [all_rows(source)[0][1] for source in sources] == [micros] * len(sources)


def test_a_record_at_the_beginning_of_a_window_is_in_it():
    window = FixedWindows(0.1)
    value = beam.window.TimestampedValue("a", 4.1)
    assert value.timestamp.micros == 4_100_000
    (found,) = window.assign(window.AssignContext(value.timestamp))
    assert (found.start.micros, found.end.micros) == (4_100_000, 4_200_000)


def test_other_numbers_of_seconds():
    assert Timestamp(np.float64(4.1)).micros == 4_100_000
    assert Duration.of(timedelta(seconds=4.1)).micros == 4_100_000


def test_a_truth_value_is_no_time():
    with pytest.raises(TypeError, match="cannot interpret True of type bool as a Timestamp; give seconds"):
        Timestamp.of(True)
    with pytest.raises(TypeError, match="cannot interpret True of type bool"):
        TimestampedValue("a", True)
