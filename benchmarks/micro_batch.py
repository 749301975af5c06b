"""Spark's own streaming queries, one tiny micro-batch at a time: what an almost empty step of theirs costs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from benchmarks.session import MANAGER_OPTION, start_session

Build = Callable[[DataFrame], DataStreamWriter]
"""From a stream of (key, value) to a query that is ready to start."""
_POLL_SECONDS = 0.02
_PATIENCE_SECONDS = 120.0


def tiny_file(folder: Path, number: int) -> Path:
    """A new Parquet file of ten events of five keys, complete from the moment it is seen."""
    events = pa.table({"key": [f"key-{key}" for key in range(5)] * 2, "value": list(range(10))})
    hidden, path = folder / f".part-{number:05d}", folder / f"part-{number:05d}.parquet"
    pq.write_table(events, hidden)
    return hidden.rename(path)


class MicroBatches:
    """A query over a folder. Each `step` adds one tiny file and waits for the micro-batch that it becomes."""

    def __init__(self, name: str, build: Build, manager: str) -> None:
        self.name = name
        self.phases: list[dict[str, int]] = []
        """Milliseconds of each micro-batch by phase, as Spark reports them."""
        self._home = tempfile.TemporaryDirectory(prefix="headrace-bench-")
        self._input = Path(self._home.name) / "input"
        self._input.mkdir()
        self._numbers = count()
        self._query = self._start(build, manager)

    def _start(self, build: Build, manager: str) -> StreamingQuery:
        session = start_session()
        session.conf.set(MANAGER_OPTION, manager)
        session.conf.set(
            "spark.sql.streaming.pollingDelay", "500ms"
        )  # queries that wait leave the machine to the others
        stream = session.readStream.schema("key STRING, value LONG").parquet(str(self._input))
        return build(stream).option("checkpointLocation", f"{self._home.name}/checkpoint").start()

    def begin(self) -> None:
        self.step()

    def rest(self) -> None:
        """A query that waits has no task."""

    def step(self) -> float:
        """Seconds that the query spent on the micro-batch; waiting until it looks for input is not counted."""
        number = next(self._numbers)
        tiny_file(self._input, number)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            progress = self._query.lastProgress
            if progress is not None and progress.batchId >= number and progress.numInputRows:
                self.phases.append(dict(progress.durationMs))
                return progress.durationMs["triggerExecution"] / 1000
            if (error := self._query.exception()) is not None:
                raise error
            time.sleep(_POLL_SECONDS)
        raise TimeoutError(f"{self.name}: micro-batch {number} took more than {_PATIENCE_SECONDS:.0f} s")

    def close(self) -> None:
        self._query.stop()
        self._home.cleanup()


class RunningCount(StatefulProcessor):
    """A count per key, put out whenever it changes."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "count LONG")

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        stored = self._count.get()
        total = (stored[0] if stored else 0) + sum(1 for _ in rows)
        self._count.update((total,))
        yield Row(key=key[0], count=total)

    def close(self) -> None:
        pass


def stateful(stream: DataFrame) -> DataStreamWriter:
    """One grouping with state; its output goes nowhere."""
    counts = stream.groupBy("key").transformWithState(RunningCount(), "key STRING, count LONG", "update", "none")
    return counts.writeStream.outputMode("update").format("noop")


def stateless(stream: DataFrame) -> DataStreamWriter:
    """No Python but the function that collects the rows."""
    return stream.writeStream.foreachBatch(lambda frame, _: _drop(frame))


def stateless_python(stream: DataFrame) -> DataStreamWriter:
    """One Python function over the rows."""
    return stream.writeStream.foreachBatch(lambda frame, _: _drop(frame.mapInArrow(_same, "key STRING, value LONG")))


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _drop(frame: DataFrame) -> None:
    frame.collect()
