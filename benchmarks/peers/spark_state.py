"""Spark's `transformWithState` in Python, by rows and by pandas: keyed state and event-time timers in a stream.

A stream of files, each a micro-batch, with state in RocksDB and a durable checkpoint. The watermark stays as far behind
as the greatest delay, so nothing is late; an event far in the future ends the input.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from benchmarks.dataset import FILE_EVENTS, Dataset
from benchmarks.generator import SECOND
from benchmarks.peers.peer import Peer
from benchmarks.peers.spark_stream import collect
from benchmarks.session import spark_processes, start_session
from benchmarks.workload import W3, WINDOW

_INPUT = "key STRING, value LONG, timestamp TIMESTAMP"
_OUTPUT = "key STRING, minute LONG, total LONG"
_MILLISECOND = 1_000


class _MinuteTotals(StatefulProcessor):
    """W3: one value a key, the total of past minutes and the sums of those to come, and a timer for each of these.

    One load and one store a key and micro-batch: every access is a message to the JVM.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("totals", "state BINARY")

    def close(self) -> None:
        pass

    def _load(self) -> tuple[int, dict[int, int]]:
        stored = self._state.get()
        return pickle.loads(stored[0]) if stored else (0, {})

    def _add(self, events: Iterable[tuple[int, int]]) -> None:
        """Take events as (timestamp in microseconds, value)."""
        total, sums = self._load()
        for timestamp, value in events:
            minute = timestamp - timestamp % WINDOW + WINDOW
            if minute not in sums:
                sums[minute] = 0
                self._handle.registerTimer(minute // _MILLISECOND)
            sums[minute] += value
        self._state.update((pickle.dumps((total, sums)),))

    def _report(self, minute: int) -> int:
        total, sums = self._load()
        total += sums.pop(minute)
        self._state.update((pickle.dumps((total, sums)),))
        return total


class MinuteTotalsByRow(_MinuteTotals):
    """Rows in, rows out."""

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        self._add((row.micros, row.value) for row in rows)
        return iter(())

    def handleExpiredTimer(
        self, key: tuple[str], timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        minute = expiredTimerInfo.getExpiryTimeInMs() * _MILLISECOND
        yield Row(key=key[0], minute=minute, total=self._report(minute))


class MinuteTotalsByPandas(_MinuteTotals):
    """Frames in, frames out."""

    def handleInputRows(
        self, key: tuple[str], rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        self._add(
            event for frame in rows for event in zip(frame["micros"].tolist(), frame["value"].tolist(), strict=True)
        )
        return iter(())

    def handleExpiredTimer(
        self, key: tuple[str], timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        minute = expiredTimerInfo.getExpiryTimeInMs() * _MILLISECOND
        yield pd.DataFrame({"key": [key[0]], "minute": [minute], "total": [self._report(minute)]})


def _events(dataset: Dataset) -> DataFrame:
    """The row of files and its end as a stream, with the greatest delay as its watermark's."""
    files = start_session().readStream.schema(_INPUT).option("maxFilesPerTrigger", 1).parquet(str(dataset.ended))
    delay = f"{dataset.plan.greatest_delay // SECOND} seconds"
    events = files.selectExpr("key", "value", "unix_micros(timestamp) AS micros", "timestamp")
    return events.withWatermark("timestamp", delay)


def by_row(dataset: Dataset) -> pa.Table:
    keyed = _events(dataset).groupBy("key")
    return collect(keyed.transformWithState(MinuteTotalsByRow(), _OUTPUT, "append", "eventTime"))


def by_pandas(dataset: Dataset) -> pa.Table:
    keyed = _events(dataset).groupBy("key")
    return collect(keyed.transformWithStateInPandas(MinuteTotalsByPandas(), _OUTPUT, "append", "eventTime"))


_NOTE = f"local[2], micro-batches of {FILE_EVENTS:,}, RocksDB, durable"
STATE_BY_ROW = Peer(
    "Spark transformWithState", {W3.name: by_row}, events=200_000, note=_NOTE, processes=spark_processes
)
STATE_BY_PANDAS = Peer(
    "Spark transformWithStateInPandas", {W3.name: by_pandas}, events=200_000, note=_NOTE, processes=spark_processes
)
