"""DataFrames as sources: every row once, the same rows when a run goes on, batch and streaming."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headrace as beam
from headrace.io import ReadFromDataFrame, Write
from headrace.lowlevel import (
    CallSink,
    CheckpointError,
    Computation,
    Context,
    Record,
    StepError,
    TimeDomain,
    Timer,
    Topology,
)
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner
from headrace.runners.spark.dataframe import injectors
from headrace.runners.spark.dataframe.injectors import StreamError
from headrace.runners.spark.dataframe.staged_rows import PieceSplit, RowRange, StagedPiece, cut, next_ranges
from headrace.sdk.io.dataframe import DataFrameInjector
from headrace.sdk.model.row import Row
from tests.spark.refusing import refusing

pytestmark = pytest.mark.spark


class Stop(Exception):
    """Ends a run where a test wants it to end."""


class Count(Computation):
    def process_record(self, record: Record, context: Context) -> None:
        context.state = (context.state or 0) + 1
        context.produce("counts", (context.key, context.state))


def counting(injector: DataFrameInjector, key: str = "key") -> tuple[Topology, list[tuple[object, int]]]:
    """Counts by key, as (key, count so far) at the row's time."""
    topology = Topology()
    topology.injector("in", injector)
    topology.computation("count", Count(), {"in": lambda row: getattr(row, key)}, ["counts"])
    rows: list[tuple[object, int]] = []
    topology.sink("out", "counts", CallSink(lambda epoch, more: rows.extend(more)))
    return topology, rows


def keyed(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(rows).select((F.col("id") % 7).alias("key"), F.timestamp_micros("id").alias("at"))


def test_every_row_once_in_epochs_of_bounded_size(spark: SparkSession) -> None:
    sizes: list[int] = []
    topology, rows = counting(DataFrameInjector(keyed(spark, 1000), "at", None))
    options = RunOptions(max_records_per_epoch=300, progress=lambda progress: sizes.append(progress.records_in))
    result = SparkRunner(spark).run_topology(topology, options)
    assert result.counters["in"] == {"records": 1000}
    assert sizes == [300, 600, 900, 1000]
    assert Counter(key for (key, _), _ in rows) == Counter(i % 7 for i in range(1000))
    assert sorted(timestamp for _, timestamp in rows) == list(range(1000))


def test_an_empty_frame_ends_at_once(spark: SparkSession) -> None:
    topology, rows = counting(DataFrameInjector(keyed(spark, 0), "at", None))
    assert SparkRunner(spark).run_topology(topology).watermarks["count"] > 0
    assert rows == []


def test_values_of_all_kinds_arrive_as_rows(spark: SparkSession) -> None:
    frame = spark.sql("select 1 key, 'ä' text, array(1, 2) list, null nothing, timestamp'2020-01-01 00:00:00Z' at")
    topology = Topology()
    topology.injector("in", DataFrameInjector(frame, None, None))
    rows: list[tuple[object, int]] = []
    topology.sink("out", "in", CallSink(lambda epoch, more: rows.extend(more)))
    SparkRunner(spark).run_topology(topology)
    ((row, timestamp),) = rows
    assert isinstance(row, Row)
    assert (row.key, row.text, row.list, row.nothing) == (1, "ä", [1, 2], None)
    assert row.at.timestamp() == 1577836800
    assert timestamp == MIN_TIMESTAMP


def rows_of(spark: SparkSession, query: str) -> list[object]:
    rows: list[object] = []
    with beam.Pipeline(SparkRunner(spark)) as pipeline:
        reading = pipeline | beam.io.ReadFromSpark(spark.sql(query))
        _ = reading | Write(CallSink(lambda epoch, more: rows.extend(row for row, _ in more)))
    return rows


def test_columns_of_any_names_are_read(spark: SparkSession) -> None:
    """Spark looks columns up by name: not those with dots, nor those that differ in their case only."""
    names = ["a.b", "a b", "A.B", "c`d", "", "ä"]
    columns = ", ".join(f"{number} `{name.replace('`', '``')}`" for number, name in enumerate(names))
    (row,) = rows_of(spark, f"select {columns}, named_struct('p.q', 1) inner")
    assert isinstance(row, Row)
    assert row.as_dict() == {**{name: number for number, name in enumerate(names)}, "inner": {"p.q": 1}}


def test_columns_that_no_row_can_have_are_refused(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="the DataFrame has several columns named 'a'"):
        rows_of(spark, "select 1 a, 2 a")
    with pytest.raises(ValueError, match="column 'i' of the DataFrame has the type interval month, which Python does"):
        rows_of(spark, "select interval '1' month i")


def test_a_row_without_event_time_is_shown(spark: SparkSession) -> None:
    frame = spark.sql("select 5 key, cast(null as timestamp) at")
    topology, _ = counting(DataFrameInjector(frame, "at", None))
    with pytest.raises(StepError, match="key=5"):
        SparkRunner(spark).run_topology(topology)


def test_or_is_set_apart(spark: SparkSession) -> None:
    frame = spark.sql("select id key, if(id = 5, null, timestamp_micros(id)) at from range(9)")
    good: list[tuple[object, int]] = []
    bad: list[object] = []
    with beam.Pipeline(SparkRunner(spark)) as pipeline:
        reading = beam.io.ReadFromSpark(frame, timestamp="at", watermark="1 second")
        rows, others = pipeline | reading.with_exception_handling()
        _ = rows | beam.Map(lambda row: row.key) | Write(CallSink(lambda epoch, more: good.extend(more)))
        keys = others | beam.MapTuple(lambda row, failure: (row.key, failure[0].__name__))
        _ = keys | "Bad" >> Write(CallSink(lambda epoch, more: bad.extend(more)))
    assert sorted(good) == [(number, number) for number in range(9) if number != 5]
    assert bad == [((5, "BadTimestamp"), MIN_TIMESTAMP)]


def test_other_runners_say_who_reads_frames(spark: SparkSession) -> None:
    topology, _ = counting(DataFrameInjector(keyed(spark, 1), "at", None))
    with pytest.raises(StepError, match=r"step 'in' raised(.|\n)*read by the Spark runner only"):
        LocalRunner().run_topology(topology)


class StopAfter:
    """Ends a run as a crash would, after so many epochs."""

    def __init__(self, epochs: int) -> None:
        self._left = epochs

    def bundle_size(self, epoch: int, limit: int) -> int:
        return limit

    def step(self, name: str, epoch: int) -> None:
        self._left -= name == "committed"
        if self._left < 0:
            raise Stop


def test_a_frame_that_changes_is_read_once(spark: SparkSession, tmp_path: Path) -> None:
    options = RunOptions(str(tmp_path), max_records_per_epoch=100)
    random = spark.range(1000).select((F.rand() * 1000).cast("long").alias("key"), F.timestamp_micros("id").alias("at"))
    found = []
    for epochs in (3, 2, 100):
        topology, rows = counting(DataFrameInjector(random, "at", None))
        with suppress(Stop):
            SparkRunner(spark, steps=StopAfter(epochs)).run_topology(topology, options)
        found += rows
    listed = json.loads(next(tmp_path.rglob("sources/*/list")).read_text())
    store = ObjectStore(tmp_path)
    written = [
        (row.key, timestamp)
        for path, size in listed
        for batch in PieceSplit(store, RowRange(StagedPiece(path, size), 0, size), "at").read()
        for row, timestamp in batch.rows()
    ]
    # The last epoch of a run that was stopped before delivery is delivered again by the next.
    assert {(key, timestamp) for (key, _), timestamp in found} == set(written)
    assert len(written) == 1000


@pytest.mark.parametrize("sizes", [[], [5], [3, 0, 4, 1]])
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_ranges_cover_all_rows_in_order(sizes: list[int], limit: int) -> None:
    pieces = [StagedPiece(str(number), size) for number, size in enumerate(sizes)]
    position, rows = (0, 0), []
    while position[0] < len(pieces):
        ranges, position = next_ranges(pieces, position, limit)
        part = [(piece.path, row) for piece, start, stop in cut(ranges, 2) for row in range(start, stop)]
        assert len(part) <= limit
        rows += part
    assert rows == [(piece.path, row) for piece in pieces for row in range(piece.rows)]


def hourly(frame: DataFrame, runner: SparkRunner, **reading: float) -> list[tuple[int, int, int]]:
    """A pipeline: key, number of rows and hour of event time, sorted."""
    rows: list[tuple[int, int, int]] = []
    with beam.Pipeline(runner=runner, options=PipelineOptions([])) as pipeline:
        _ = (
            pipeline
            | ReadFromDataFrame(frame, timestamp="at", **reading)
            | "Key" >> beam.Map(lambda row: (row.key, 1))
            | beam.WindowInto(beam.window.FixedWindows(3600))
            | beam.CombinePerKey(sum)
            | "Row"
            >> beam.Map(lambda sums, window=beam.DoFn.WindowParam: (*sums, window.start.micros // 3_600_000_000))
            | Write(CallSink(lambda epoch, more: rows.extend(row for row, _ in more)))
        )
    return sorted(rows)


def test_a_pipeline_reads_a_frame(spark: SparkSession) -> None:
    frame = spark.range(6000).select((F.col("id") % 7).alias("key"), F.timestamp_seconds(F.col("id") * 3).alias("at"))
    assert hourly(frame, SparkRunner(spark)) == expected_hours((i % 7, i * 3 // 3600) for i in range(6000))


def expected_hours(rows: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
    return sorted((key, count, hour) for (key, hour), count in Counter(rows).items())


# Streaming


class Files:
    """A folder that is being filled, read as a stream."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written = 0
        folder.mkdir()

    def add(self, rows: int) -> None:
        lines = [json.dumps({"key": i % 7, "at": i}) for i in range(self.written, self.written + rows)]
        hidden = self.folder / f".{self.written}.json"
        hidden.write_text("\n".join(lines))
        hidden.rename(self.folder / f"{self.written:06}.json")
        self.written += rows

    def frame(self, spark: SparkSession) -> DataFrame:
        read = spark.readStream.schema("key long, at long").option("maxFilesPerTrigger", 1).json(str(self.folder))
        return read.select("key", F.timestamp_micros("at").alias("at"))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "in")


def drain(spark: SparkSession, files: Files, place: Path, epochs: int = 1000) -> list[tuple[object, int]]:
    """Read what is there, or stop before: what was put out."""
    topology, rows = counting(DataFrameInjector(files.frame(spark), "at", 0))
    runner = SparkRunner(spark, trigger={"availableNow": True}, steps=StopAfter(epochs))
    with suppress(Stop):
        runner.run_topology(topology, RunOptions(str(place), max_records_per_epoch=25))
    return rows


def test_a_stream_is_read_to_its_end(spark: SparkSession, files: Files, tmp_path: Path) -> None:
    for _ in range(6):
        files.add(10)
    rows = drain(spark, files, tmp_path / "checkpoint")
    assert sorted(timestamp for _, timestamp in rows) == list(range(60))
    assert max(count for (_, count), _ in rows) == 9
    # Nothing is kept of what was read, but Spark's own progress.
    kept = [
        path
        for path in (tmp_path / "checkpoint" / "sources").rglob("*")
        if path.is_file() and "spark" not in path.parts
    ]
    assert kept == []


def test_no_row_twice_or_never_when_a_run_stops_and_goes_on(spark: SparkSession, files: Files, tmp_path: Path) -> None:
    for _ in range(12):
        files.add(10)
    place = tmp_path / "checkpoint"
    found: set[tuple[object, int]] = set()
    for epochs in (1, 0, 2, 1000):
        found |= set(drain(spark, files, place, epochs))
    assert sorted(timestamp for _, timestamp in found) == list(range(120))
    assert {count for count, _ in found} == {(i % 7, i // 7 + 1) for i in range(120)}


def test_spark_giving_a_batch_again_changes_nothing(
    spark: SparkSession, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = injectors.StreamInjector._take

    def twice(self: injectors.StreamInjector, frame: DataFrame, batch: int) -> None:
        take(self, frame, batch)
        take(self, frame, batch)

    monkeypatch.setattr(injectors.StreamInjector, "_take", twice)
    for _ in range(3):
        files.add(10)
    rows = drain(spark, files, tmp_path / "checkpoint")
    assert sorted(timestamp for _, timestamp in rows) == list(range(30))


def test_a_pipeline_reads_a_stream(spark: SparkSession, files: Files) -> None:
    for _ in range(3):
        files.add(2500)
    frame = files.frame(spark).select("key", F.timestamp_seconds(F.unix_micros("at")).alias("at"))
    rows = hourly(frame, SparkRunner(spark, trigger={"availableNow": True}), max_delay=7500)
    assert rows == expected_hours((i % 7, i // 3600) for i in range(7500))


class Echo(Computation):
    """Says that a row came, 0.2 s of wall time later."""

    def process_record(self, record: Record, context: Context) -> None:
        context.state = record.timestamp
        context.set_timer("echo", context.wall_time + 200_000, TimeDomain.WALL_TIME)

    def process_timer(self, timer: Timer, context: Context) -> None:
        context.produce("echoes", context.state)
        context.state = None


def test_wall_timers_fire_while_a_stream_is_silent(spark: SparkSession, files: Files) -> None:
    files.add(1)
    topology = Topology()
    topology.injector("in", DataFrameInjector(files.frame(spark), "at", 0))
    topology.computation("echo", Echo(), {"in": lambda row: row.key}, ["echoes"])
    echoes: list[object] = []

    def take(epoch: int, more: list[tuple[object, int]]) -> None:
        echoes.extend(value for value, _ in more)
        if len(echoes) == 1:
            files.add(1)
        else:
            raise Stop

    topology.sink("echoes", "echoes", CallSink(take))
    with pytest.raises(Stop):
        SparkRunner(spark).run_topology(topology, RunOptions(poll_seconds=0.05))
    assert echoes == [0, 1]
    assert not spark.streams.active


def test_an_error_of_the_query_ends_the_run(spark: SparkSession, files: Files, tmp_path: Path) -> None:
    files.add(5)
    broken = files.frame(spark).select(F.raise_error(F.lit("no such thing")).alias("key"), "at")
    topology, _ = counting(DataFrameInjector(broken, "at", 0))
    with pytest.raises(StreamError, match="no such thing"):
        SparkRunner(spark).run_topology(topology, RunOptions(str(tmp_path / "checkpoint"), poll_seconds=0.05))


def test_lost_progress_of_spark_is_refused(spark: SparkSession, files: Files, tmp_path: Path) -> None:
    for _ in range(20):
        files.add(10)
    place = tmp_path / "checkpoint"
    # An epoch takes two or three micro-batches: some are taken then, and some are left.
    drain(spark, files, place, 3)
    for path in _spark_folders(place):
        path.rename(path.with_name("elsewhere"))
    with pytest.raises((StreamError, CheckpointError), match="deleted or replaced"):
        drain(spark, files, place)


def _spark_folders(place: Path) -> Iterator[Path]:
    return (path for path in place.glob("sources/*/spark"))


def test_a_place_that_spark_may_not_know_is_asked_for(spark: SparkSession, files: Files) -> None:
    injector = injectors.StreamInjector(
        files.frame(spark),
        ObjectStore("memory://"),
        "sources/x",
        DataFrameInjector(None, None, None),
        injectors.StreamOptions(),
    )
    with pytest.raises(CheckpointError, match="stream_location"):
        injector.plan(injector.start(), 1, 1)


def test_a_session_that_refuses_quicker_files(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """The query starts with Spark's own way to write its progress."""
    name = "spark.sql.streaming.checkpointFileManagerClass"
    with refusing(spark, lambda wanted: wanted == name) as refused, injectors._quick_files(spark):
        assert not spark.conf.get(name, "")
    assert refused == [name]
    assert "each micro-batch of a streaming DataFrame takes longer" in caplog.text
    with injectors._quick_files(spark):
        assert spark.conf.get(name, "")
    assert not spark.conf.get(name, "")
