"""Five questions to real flights, ours beside Spark SQL, DuckDB and pandas: `python -m benchmarks.flights`.

The flights are those of `examples.flights`: a year out of New York with text, nullable floats, dates and instants, in
the order in which they were reported, thirty years in a row. Streamed, they come in files of `FILE_EVENTS` and the
watermark stays so far behind that nothing is late. Each result is held against that of pandas, row by row. Of our
programs the first run also prints whether each step is vectorized and how many elements it took by column.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import typer

import headrace as beam
from benchmarks.dataset import FILE_EVENTS
from benchmarks.flights_queries import DAY, QUERIES, Query
from benchmarks.generator import SECOND, split, write
from benchmarks.measurement import Measurement, timed
from benchmarks.peak import PeakMemory
from benchmarks.peers.spark_stream import collect
from benchmarks.report import console, print_table, rounded, save
from benchmarks.result import canonical, difference
from benchmarks.session import CORES, spark_processes, start_session
from examples.flights_data import replay, source_folder
from headrace.cli.column_share import figures_of, taken_by
from headrace.cli.inspect import view_of
from headrace.io import ReadFromParquet
from headrace.lowlevel.metric import decode_metrics
from headrace.options.pipeline_options import PipelineOptions
from headrace.sdk.compiler.compiler import execution_strategies
from headrace.sdk.compiler.execution_strategy import steps_of_program

_AFTER_ALL = 100
"""Years after the first flight when there are no others: how many copies there may be."""
YEAR = 365 * DAY
"""Seconds by which one copy of the flights is behind the one before."""
SCHEMA = pa.schema(
    {
        "carrier": pa.string(),
        "tailnum": pa.string(),
        "origin": pa.string(),
        "dest": pa.string(),
        "dep_delay": pa.float64(),
        "arr_delay": pa.float64(),
        "air_time": pa.float64(),
        "distance": pa.int64(),
        "day": pa.date32(),
        "scheduled": pa.timestamp("us", tz="UTC"),
    }
)
"""Columns of the flights. Delays and times in the air are minutes, null for flights that did not leave or land."""


@dataclass(frozen=True, slots=True)
class Flights:
    """The flights on disk, in the order in which they were reported."""

    rows: int
    one: Path
    """All in one Parquet file."""
    many: Path
    """A folder of files of `FILE_EVENTS` flights."""
    ended: Path
    """The same, and a last file with one flight years later, by which Spark's stream learns that the input is over."""
    max_delay: int
    """Seconds by which a flight is behind the newest before it, at most."""


class Step(NamedTuple):
    """A step of a program of ours: what is explained, and what was counted."""

    query: str
    """And whether it was bounded or streamed."""
    name: str
    obstacle: str | None
    """Why it is not vectorized; None if it is."""
    by_column: int
    one_by_one: int

    @property
    def agrees(self) -> bool:
        """Whether a step that is said to be vectorized took no element one by one."""
        return self.obstacle is not None or not self.one_by_one


def flights(copies: int, rows: int | None = None) -> pa.Table:
    """The flights of so many years in the order in which they were reported, or the first `rows` of them."""
    source = source_folder()
    found = pd.read_csv(source / "flights.csv.zip")
    zones = pd.read_csv(source / "airports.csv", index_col="faa")["tzone"]
    # The number of the row goes in the place of the flight's number, and says the order.
    order = replay(found.assign(flight=np.arange(len(found))), zones)
    found = found.iloc[order["flight"]].reset_index(drop=True)
    days = pd.to_datetime(found[["year", "month", "day"]]).dt.date
    times = order["scheduled_us"].astype("datetime64[us, UTC]")
    year = pa.Table.from_pandas(found.assign(day=days, scheduled=times), SCHEMA, preserve_index=False)
    return pa.concat_tables([_later(year, copy) for copy in range(copies)]).slice(0, rows)


def _later(year: pa.Table, years: int) -> pa.Table:
    """The same flights, years later; other columns are not copied."""
    for name, kind, shift in (("day", pa.int32(), YEAR // DAY), ("scheduled", pa.int64(), YEAR * SECOND)):
        field = SCHEMA.field(name)
        later = pc.add(year[name].cast(kind), pa.scalar(years * shift, kind)).cast(field.type)
        year = year.set_column(SCHEMA.get_field_index(name), field, later)
    return year


@contextmanager
def written(table: pa.Table) -> Iterator[Flights]:
    """The flights in a temporary folder."""
    parts = split(table, -(-table.num_rows // FILE_EVENTS))
    # Spark filters before it looks at event times, so this flight has no nulls.
    last = _later(table.drop_null().slice(0, 1), _AFTER_ALL)
    times = table["scheduled"].cast(pa.int64()).to_numpy()
    behind = int((np.maximum.accumulate(times) - times).max()) // SECOND
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        [one] = write([table], folder / "one")
        write(parts, folder / "many")
        write([*parts, last], folder / "ended")
        yield Flights(table.num_rows, one, folder / "many", folder / "ended", behind + 1)


# --- Systems ----------------------------------------------------------------------------------------------------------


def program(pipeline: beam.Pipeline, query: Query, data: Flights, streamed: bool) -> beam.PCollection[Any]:
    """The query as a program of ours, from its source to its results."""
    reading = ReadFromParquet(
        f"{data.many}/*.parquet" if streamed else str(data.one),
        columns=list(query.reads),
        timestamp="scheduled",
        max_delay=data.max_delay if streamed else None,
    )
    return query.headrace(pipeline | reading)


def run_headrace(
    query: Query, data: Flights, streamed: bool, runner: str = "SparkRunner"
) -> tuple[pa.Table, list[Step]]:
    """The result, and what became of each step."""
    tables: list[pa.Table] = []
    options: dict[str, Any] = {"max_records_per_epoch": FILE_EVENTS} if streamed else {}
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as place:
        options["checkpoint"] = f"{place}/checkpoint"
        pipeline = beam.Pipeline(runner, options=PipelineOptions([], **options))
        results = program(pipeline, query, data, streamed)
        _ = results | beam.io.WriteToTables(lambda epoch, found: tables.append(found))
        pipeline.run().wait_until_finish()
        label = f"{query.name.partition(':')[0]}, {'streamed' if streamed else 'bounded'}"
        steps = _steps(label, pipeline, options["checkpoint"])
    return pa.concat_tables(tables), steps


def _steps(label: str, pipeline: beam.Pipeline, checkpoint: str) -> list[Step]:
    manifest = view_of(checkpoint).manifest
    figures = {} if manifest is None else figures_of(decode_metrics(manifest.metrics))
    found = []
    for step in steps_of_program(pipeline.steps, execution_strategies(pipeline)):
        by_column, one_by_one = taken_by(step, figures) or (0, 0)
        found.append(Step(label, step.strategy.step, step.strategy.obstacle, by_column, one_by_one))
    return found


def _spark_batch(query: Query, data: Flights) -> pa.Table:
    return query.spark(start_session().read.parquet(str(data.one))).toArrow()


def _spark_stream(query: Query, data: Flights) -> pa.Table:
    session = start_session()
    files = session.readStream.schema(session.read.parquet(str(data.one)).schema).option("maxFilesPerTrigger", 1)
    events = files.parquet(str(data.ended)).withWatermark("scheduled", f"{data.max_delay} seconds")
    return collect(query.spark(events))


def _duckdb(query: Query, data: Flights) -> pa.Table:
    with duckdb.connect(config={"threads": CORES}) as connection:
        connection.read_parquet(str(data.one)).create_view("flights")
        return connection.sql(query.duckdb).to_arrow_table()


def run_pandas(query: Query, data: Flights) -> pa.Table:
    """The result to hold others against."""
    rows = pd.read_parquet(data.one, columns=[*query.reads, "scheduled"])
    return pa.Table.from_pandas(query.pandas(rows), preserve_index=False)


def _ours(streamed: bool) -> Callable[[Query, Flights], pa.Table]:
    return lambda query, data: run_headrace(query, data, streamed)[0]


BOUNDED, STREAMED = "Headrace bounded", "Headrace streamed"
SYSTEMS: dict[str, Callable[[Query, Flights], pa.Table]] = {
    BOUNDED: _ours(streamed=False),
    STREAMED: _ours(streamed=True),
    "Spark batch SQL": _spark_batch,
    "Spark Structured Streaming": _spark_stream,
    "DuckDB": _duckdb,
    "pandas": run_pandas,
}
_ON_SPARK = 4


# --- The command ------------------------------------------------------------------------------------------------------


def main(
    runs: Annotated[int, typer.Option(min=1, help="measured rounds")] = 5,
    copies: Annotated[int, typer.Option(min=1, max=_AFTER_ALL - 1, help="how many years of flights")] = 30,
    rows: Annotated[int | None, typer.Option(min=1, help="only the first so many flights, for a look")] = None,
    query: Annotated[list[str] | None, typer.Option(help="queries whose name contains this")] = None,
    system: Annotated[list[str] | None, typer.Option(help="systems whose name contains this")] = None,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/flights.json"),
) -> None:
    """Ask all systems the questions, and compare."""
    queries = [each for each in QUERIES if not query or any(part.lower() in each.name.lower() for part in query)]
    names = [name for name in SYSTEMS if not system or any(part.lower() in name.lower() for part in system)]
    start_session()
    steps: list[Step] = []
    with written(flights(copies, rows)) as data:
        measured = {each.name: {name: Measurement(name, data.rows) for name in names} for each in queries}
        for number in range(runs + 1):
            for each in queries:
                expected = canonical(each, run_pandas(each, data)) if number == 0 else None
                for name in names:
                    _measure(each, name, data, expected, measured[each.name][name])
                if number == 0:
                    steps += [step for way in (False, True) for step in run_headrace(each, data, streamed=way)[1]]
            console.print(f"round {number} of {runs}" if number else "warm-up, with a check of all results")
        count = data.rows
    _print_steps(steps)
    for each in queries:
        _print(each.name, measured[each.name], count)
    save(output, _figures(runs, count, steps, measured))


def _measure(query: Query, name: str, data: Flights, expected: pa.Table | None, measurement: Measurement) -> None:
    """One run. Raises ValueError if its result is not the expected one; a run that is checked is not noted."""
    on_spark = list(SYSTEMS).index(name) < _ON_SPARK
    with PeakMemory(spark_processes() if on_spark else []) as peak:
        result, seconds = timed(lambda: SYSTEMS[name](query, data))
    if expected is None:
        measurement.took(seconds, peak.megabytes())
    elif wrong := difference(query, expected, canonical(query, result)):
        raise ValueError(f"{name} differs from pandas on {data.rows:,} flights\n{wrong}")


def _print_steps(steps: list[Step]) -> None:
    rows = [
        [
            each.query,
            each.name,
            f"{each.by_column:,}",
            f"{each.one_by_one:,}",
            each.obstacle or "vectorized",
        ]
        for each in steps
    ]
    print_table("Steps of our programs", ["query", "step", "by column", "one by one", "explained"], rows)


def _print(title: str, measured: dict[str, Measurement], rows: int) -> None:
    ours = [measured[name] for name in (BOUNDED, STREAMED) if name in measured]
    lines = []
    for each in measured.values():
        ratios = [rounded(mine.times_faster(each)) if each not in ours else "" for mine in ours]
        memory = ", ".join(f"{kind} {most:,.0f}" for kind, most in sorted(each.megabytes.items())) or "–"
        lines.append([each.name, rounded(each.rate / 1000), rounded(each.median), memory, *ratios])
    headings = [f"× {mine.name.removeprefix('Headrace ')}" for mine in ours]
    print_table(f"{title}; {rows:,} flights", ["system", "thousand/s", "s, median", "peak MB", *headings], lines)


def _figures(runs: int, rows: int, steps: list[Step], measured: dict[str, dict[str, Measurement]]) -> dict[str, object]:
    queries = {
        query: {each.name: {"seconds": each.seconds, "megabytes": each.megabytes} for each in its.values()}
        for query, its in measured.items()
    }
    return {
        "benchmark": "flights",
        "runs": runs,
        "flights": rows,
        "steps": [each._asdict() for each in steps],
        "queries": queries,
    }


if __name__ == "__main__":
    typer.run(main)
