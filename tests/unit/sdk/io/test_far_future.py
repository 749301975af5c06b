"""Event times of the far future: they do not move a watermark that follows the records, and are counted and named."""

from __future__ import annotations

import logging
import os
import time

import pytest

import headrace as beam
from headrace.lowlevel import CallSink
from headrace.lowlevel.time import MIN_TIMESTAMP, SECOND
from headrace.lowlevel.watermarks.far_future import DAY, believable, far_future_message, likely_unit
from headrace.runners.local import LocalRunner
from headrace.sdk.windows import FixedWindows
from tests.unit.sdk.io.sourcefiles import OneByOne, write

NOW = 1_700_000_000


def windows(source: beam.PTransform) -> tuple[int, beam.Pipeline]:
    rows: list[tuple[object, int]] = []
    pipeline = beam.Pipeline(LocalRunner(scheduler=OneByOne()))
    (
        pipeline
        | "read it" >> source
        | beam.WindowInto(FixedWindows(10))
        | beam.Map(lambda row: ("all", 1))
        | "sum" >> beam.GroupByKey()
        | beam.io.Write(CallSink(lambda _, its: rows.extend(its)))
    )
    result = pipeline.run()
    assert sum(len(ones) for (_, ones), _ in rows) + result.counters["sum"].get("dropped_late", 0) == 31
    return result.counters["sum"].get("dropped_late", 0), result


class TestFiles:
    def lines(self, folder, milliseconds):
        for number in range(31):
            at = (NOW + number) * (1000 if number in milliseconds else 1)
            write(folder / f"{number:02}.json", f'{{"at": {at}}}\n')

    def source(self, folder, **options):
        return beam.io.ReadFromJson(
            f"{folder}/*.json", timestamp="at", max_delay=3, continuous=True, interval=0.0, until=len, **options
        )

    def test_one_record_does_not_make_the_others_late(self, tmp_path, caplog):
        self.lines(tmp_path, {5})
        with caplog.at_level(logging.WARNING):
            dropped, result = windows(self.source(tmp_path))
        assert dropped == 0
        assert result.counters["read it"]["ahead"] == 1
        (said,) = [record.message for record in caplog.records if "event time" in record.message]
        assert "step 'read it' has read a record with the event time the year 558" in said
        assert "(1700000005000 seconds since 1970)" in said
        assert "it looks like milliseconds taken for seconds: convert them to seconds, or raise max_ahead" in said

    def test_each_is_counted_and_the_first_is_named(self, tmp_path, caplog):
        self.lines(tmp_path, {5, 6, 7})
        with caplog.at_level(logging.WARNING):
            dropped, result = windows(self.source(tmp_path))
        assert (dropped, result.counters["read it"]["ahead"]) == (0, 3)
        assert caplog.text.count("event time") == 1

    def test_without_a_bound(self, tmp_path):
        self.lines(tmp_path, {5})
        dropped, result = windows(self.source(tmp_path, max_ahead=None))
        assert dropped > 20
        assert "ahead" not in result.counters["read it"]

    def test_bounded_input_is_as_it_was(self, tmp_path):
        self.lines(tmp_path, {5})
        dropped, result = windows(beam.io.ReadFromJson(f"{tmp_path}/*.json", timestamp="at", max_delay=3))
        assert dropped > 20
        assert "ahead" not in result.counters["read it"]

    def test_a_file_that_was_changed_in_the_future(self, tmp_path):
        """Without `timestamp` the time of the file is that of its records."""
        for number in range(31):
            path = write(tmp_path / f"{number:02}.json", "{}\n")
            at = time.time() + (10**8 if number == 5 else -31 + number)
            os.utime(path, (at, at))
        source = beam.io.ReadFromJson(f"{tmp_path}/*.json", continuous=True, interval=0.0, until=len)
        dropped, result = windows(source)
        assert (dropped, result.counters["read it"]["ahead"]) == (0, 1)


def test_a_file_that_appears_late_is_not_late_with_a_delay(tmp_path):
    """Written before another one, renamed into the folder after it."""
    from headrace.lowlevel.injectors.injector import Delivery

    def watermark(**options: object) -> int:
        folder = tmp_path / str(len(options))
        folder.mkdir()
        source = beam.io.ReadFromText(f"{folder}/*.txt", continuous=True, interval=0.0, **options)
        injector = source.injector()
        os.utime(write(folder / "b.txt", "new\n"), (NOW, NOW))
        delivery: Delivery = injector.plan(injector.start(), 100, 1)
        return injector.plan(delivery.position, 100, 1).watermark

    assert watermark() == NOW * SECOND
    assert watermark(max_delay=60) == (NOW - 60) * SECOND


@pytest.mark.parametrize(
    ("seconds", "unit"),
    [(NOW * 1000, "milliseconds"), (NOW * 10**6, "microseconds"), (NOW * 10**8, None), (NOW + 10**7, None)],
)
def test_units(seconds, unit):
    assert likely_unit(seconds * SECOND, NOW * SECOND) == unit
    said = far_future_message("a", seconds * SECOND, NOW * SECOND)
    assert (f"looks like {unit} taken for seconds" in said) == (unit is not None)


def test_what_is_believed():
    assert believable([], 5) == (MIN_TIMESTAMP, 0)
    assert believable([1, DAY, DAY + 1], DAY) == (DAY, 1)
