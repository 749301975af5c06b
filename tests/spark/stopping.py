"""Runs whose session is stopped by the program itself: `python -m tests.spark.stopping FOLDER`.

Prints a line of JSON for each way: the class and the text of the error that the run has raised.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Timer
from typing import Any, cast

from pyspark.sql import SparkSession

import headrace as beam
from headrace.lowlevel import CallSink, Topology
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.options import RunOptions
from headrace.runners.spark import SparkRunner
from headrace.runners.spark.new_session import local_session
from tests.spark.settings import KEYS, Count, Stream

SOON = 5
"""An epoch of a stream, some epochs after its beginning."""


class StoppedStream(Stream):
    """A stream that calls a function when it is asked for epoch `SOON`."""

    def __init__(self, stop: Callable[[], object]) -> None:
        super().__init__()
        self._stop = stop

    def plan(self, position: object, limit: int, splits: int) -> Any:
        if position == SOON:
            self._stop()
        return super().plan(position, limit, splits)


def run(
    session: SparkSession, injector: Stream, place: str | None, sink: Callable[..., object], seconds: float
) -> None:
    made = Topology()
    made.injector("numbers", injector)
    made.computation("count", Count(), {"numbers": lambda number: number % KEYS}, ["counts"])
    made.sink("seen", "counts", CallSink(sink))
    SparkRunner(session, intervals=2).run_topology(made, RunOptions(place, task_idle_seconds=seconds))


def nothing(*arguments: object) -> None:
    """A sink, or a stop, that does nothing."""


def staying(session: SparkSession, place: str) -> None:
    run(session, StoppedStream(session.stop), place, nothing, 60)


def job(session: SparkSession, place: str) -> None:
    stop = Timer(0.2, session.stop)
    try:
        run(session, StoppedStream(stop.start), place, nothing, 0)
    finally:
        stop.join()


def forgotten(session: SparkSession, place: str) -> None:
    """A job that Spark takes and forgets, as it does with one that comes while the context stops.

    The same comes about by chance in `job`: here the part of Spark that forgets is stopped first.
    """
    scheduler = cast(Any, session.sparkContext)._jsc.sc().dagScheduler()
    stop = Timer(1.0, session.stop)

    def stop_in_parts() -> None:
        scheduler.stop(0)
        stop.start()

    try:
        run(session, StoppedStream(stop_in_parts), place, nothing, 0)
    finally:
        stop.join()


def between(session: SparkSession, place: str) -> None:
    run(session, StoppedStream(session.stop), None, nothing, 0)


def sink(session: SparkSession, place: str) -> None:
    run(session, Stream(), place, lambda epoch, rows: session.stop() if epoch == SOON else None, 60)


def before(session: SparkSession, place: str) -> None:
    session.stop()
    run(session, Stream(), place, nothing, 60)


def streaming(session: SparkSession, place: str) -> None:
    frame = session.readStream.format("rate").load()
    with beam.Pipeline(SparkRunner(session), PipelineOptions([f"--checkpoint={place}"])) as pipeline:
        rows = pipeline | beam.io.ReadFromSpark(frame, timestamp="timestamp", watermark="1 second")
        rows | beam.io.ForeachEpoch(lambda epoch, rows: session.stop())


WAYS = [staying, job, forgotten, between, sink, before, streaming]


def main(folder: str) -> None:
    for way in WAYS:
        session = local_session("local[2,4]")
        told = {"way": way.__name__}
        try:
            way(session, str(Path(folder, way.__name__)))
        except Exception as error:
            told |= {"error": type(error).__name__, "text": str(error)}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
