"""A join by time beside Spark's stream-stream join on a range of time (`python -m benchmarks.time_joins`).

Events and the clicks on a tenth of them, by key, each click up to some seconds after an event. Both systems stream the
same files, one an epoch or micro-batch, with the same watermarks, in one session with durable checkpoints; they take
turns, round by round, and must have the same matches.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median
from typing import Annotated, Any, cast

import pyarrow as pa
import typer
from pyspark.sql import functions as F

import headrace as beam
from benchmarks.dataset import FILE_EVENTS, Dataset, datasets
from benchmarks.generator import SECOND, Plan
from benchmarks.measurement import timed
from benchmarks.peers.spark_stream import collect, events_of
from benchmarks.report import console, print_table, rounded, save
from benchmarks.session import start_session
from headrace.options.pipeline_options import PipelineOptions
from headrace.transforms.schemas import Join

_FIELDS = ("key", "value", "shown", "clicked")


def main(
    runs: Annotated[int, typer.Option(min=1, help="measured rounds")] = 5,
    events: Annotated[int, typer.Option(help="events of a run")] = 500_000,
    keys: Annotated[int, typer.Option(help="keys of the events")] = 10_000,
    after: Annotated[int, typer.Option(help="seconds up to which a click may follow")] = 10,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/time_joins.json"),
) -> None:
    """Compare the two."""
    start_session()
    seconds: list[tuple[float, float]] = []
    matches = 0
    with datasets(Plan(events=events, keys=keys), [events]) as made:
        for number in range(runs + 1):
            ours, our_seconds = timed(lambda: _ours(made[events], after))
            theirs, their_seconds = timed(lambda: _spark(made[events], after))
            matches = _require_equal(ours, theirs)
            if number:
                seconds.append((our_seconds, their_seconds))
            console.print(
                f"round {number} of {runs}" if number else "warm-up", f"{our_seconds:.1f} {their_seconds:.1f}"
            )
    rows = [
        ["Headrace", rounded(events / median(ours for ours, _ in seconds))],
        ["Spark", rounded(events / median(theirs for _, theirs in seconds))],
        ["ratio", rounded(median(theirs / ours for ours, theirs in seconds))],
    ]
    print_table(f"Events a second, {events:,} events, {matches:,} matches, {runs} rounds", ["", ""], rows)
    save(output, {"events": events, "keys": keys, "matches": matches, "seconds": seconds})


def _ours(dataset: Dataset, after: int) -> pa.Table:
    tables: list[pa.Table] = []
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as place:
        options = PipelineOptions([], checkpoint=f"{place}/checkpoint", max_records_per_epoch=FILE_EVENTS)
        pipeline = beam.Pipeline("SparkRunner", options=options)
        shown, clicks = (
            pipeline
            | f"Read {name}"
            >> beam.io.ReadFromParquet(
                f"{folder}/*.parquet",
                columns=["key", "value"],
                timestamp="timestamp",
                max_delay=dataset.plan.greatest_delay // SECOND,
            )
            | f"Times of {name}" >> beam.Select("key", "value", at=beam.event_time())
            for name, folder in (("events", dataset.many), ("clicks", dataset.clicks.many))
        )
        joined = shown | Join(clicks, "key", within=(0, after)) | beam.Map(_match)
        _ = joined | beam.io.WriteToTables(lambda epoch, found: tables.append(found))
        pipeline.run().wait_until_finish()
    return pa.concat_tables(tables)


def _match(row: Any) -> dict[str, object]:
    return dict(zip(_FIELDS, (row.left.key, row.left.value, row.left.at, row.right.at), strict=True))


def _spark(dataset: Dataset, after: int) -> pa.Table:
    shown, clicks = (
        events_of(dataset, folder).select(
            F.col("key").alias(key), F.col("value").alias(value), F.col("timestamp").alias(at)
        )
        for folder, key, value, at in (
            (dataset.many, "key", "value", "shown"),
            (dataset.clicks.many, "of", "clicked_value", "clicked"),
        )
    )
    near = F.expr(f"key = of AND clicked >= shown AND clicked <= shown + INTERVAL {after} SECONDS")
    return cast(pa.Table, collect(shown.join(clicks, near).select(*_FIELDS)))


def _require_equal(ours: pa.Table, theirs: pa.Table) -> int:
    """The number of matches. Raises `ValueError` for different ones."""
    one, other = (
        table.select(_FIELDS).cast(
            pa.schema([pa.field(name, kind) for name, kind in zip(_FIELDS, _TYPES, strict=True)])
        )
        for table in (ours, theirs)
    )
    order = [(name, "ascending") for name in _FIELDS]
    if not one.sort_by(order).equals(other.sort_by(order)):
        raise ValueError(f"the two have different matches: {one.num_rows:,} and {other.num_rows:,}")
    return int(one.num_rows)


_TYPES = (pa.string(), pa.int64(), pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC"))


if __name__ == "__main__":
    typer.run(main)
