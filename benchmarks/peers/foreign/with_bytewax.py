"""Bytewax: the files as a stream, windows by its own operators, W3 by `stateful_batch`.

Arguments: how many workers (each has a process), and "recovery" to keep its recovery store.

Each key has a watermark of its own here, which follows the key's greatest event time. The system clock, which moves it
too when nothing arrives, stands still: an event would be late or not by how slow the run is. Without it nothing has to
be looked at until its key's next event or the end of the input.
"""

from __future__ import annotations

import itertools
import multiprocessing
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators import KeyedStream, StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import cluster_main

from benchmarks.peers.foreign.arrivals import events
from benchmarks.peers.foreign.protocol import Job
from benchmarks.peers.foreign.serving import serve

Rows = list[tuple[Any, ...]]
_START = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_RECOVERY_INTERVAL = timedelta(seconds=1)


class _Part(StatefulSourcePartition[tuple[str, tuple[int, int]], int]):
    """A file is a batch, as an operator takes all events of a key in a batch at once; the position: files done."""

    def __init__(self, files: list[str], done: int) -> None:
        self._batches = itertools.islice(_batches(files), done, None)
        self._done = done

    def next_batch(self) -> list[tuple[str, tuple[int, int]]]:
        self._done += 1
        return next(self._batches)

    def snapshot(self) -> int:
        return self._done


def _batches(files: list[str]) -> Iterator[list[tuple[str, tuple[int, int]]]]:
    for path in files:
        yield [(key, (timestamp, value)) for key, value, timestamp in events(path)]


@dataclass
class _Files(FixedPartitionedSource[tuple[str, tuple[int, int]], int]):
    """The row of files, one after the other.

    With several workers, too, one of them reads: two readers may drift apart by more than the greatest delay.
    """

    files: list[str]

    def list_parts(self) -> list[str]:
        return ["files"]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> _Part:
        return _Part(self.files, resume_state or 0)


@dataclass
class _Into(DynamicSink[tuple[Any, ...]], StatelessSinkPartition[tuple[Any, ...]]):
    """Rows in this process's memory."""

    rows: Rows

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Into:
        return self

    def write_batch(self, items: Rows) -> None:
        self.rows.extend(items)


def _instant(microseconds: int) -> datetime:
    return _START + timedelta(microseconds=microseconds)


def _timestamp(value: tuple[int, int]) -> datetime:
    return _instant(value[0])


def _clock(job: Job) -> win.EventClock:
    now = datetime.now(UTC)
    delay = timedelta(microseconds=job.delay)
    return win.EventClock(_timestamp, delay, now_getter=lambda: now, to_system_utc=lambda _: None)


def _add(total: int, value: tuple[int, int]) -> int:
    return total + value[1]


def _sums(keyed: KeyedStream, job: Job) -> KeyedStream:
    windower = win.TumblingWindower(timedelta(microseconds=job.window), align_to=_START)
    out = win.fold_window("sums", keyed, _clock(job), windower, int, _add, int.__add__, ordered=False)
    return op.map("rows", out.down, lambda item: (item[0], item[1][0] * job.window, item[1][1]))


@dataclass
class _MinMaxCount:
    first: int = sys.maxsize
    last: int = 0
    count: int = 0

    def add(self, value: tuple[int, int]) -> _MinMaxCount:
        self.first = min(self.first, value[0])
        self.last = max(self.last, value[0])
        self.count += 1
        return self

    def merge(self, other: _MinMaxCount) -> _MinMaxCount:
        first, last = min(self.first, other.first), max(self.last, other.last)
        return _MinMaxCount(first, last, self.count + other.count)


def _counts(keyed: KeyedStream, job: Job) -> KeyedStream:
    windower = win.SessionWindower(timedelta(microseconds=job.gap))
    out = win.fold_window(
        "counts", keyed, _clock(job), windower, _MinMaxCount, _MinMaxCount.add, _MinMaxCount.merge, ordered=False
    )

    def row(item: tuple[str, tuple[int, _MinMaxCount]]) -> tuple[Any, ...]:
        session = item[1][1]
        return item[0], session.first, session.last + job.gap, session.count

    return op.map("rows", out.down, row)


@dataclass
class _MinuteTotals(StatefulBatchLogic):
    """W3: the total of past minutes, and sums of those that the key's watermark has not passed."""

    job: Job
    total: int = 0
    sums: dict[int, int] = field(default_factory=dict)
    greatest: int = 0
    due: int = sys.maxsize

    def on_batch(self, values: list[tuple[int, int]]):
        minute_length = self.job.window
        sums, greatest, due = self.sums, self.greatest, self.due
        reported: list[tuple[int, int]] = []
        for timestamp, value in values:
            minute = timestamp - timestamp % minute_length + minute_length
            sums[minute] = sums.get(minute, 0) + value
            due = min(due, minute)
            if timestamp > greatest:
                greatest = timestamp
                if due <= greatest - self.job.delay:
                    reported += self._report(greatest - self.job.delay)
                    due = min(sums)
        self.greatest, self.due = greatest, due
        return reported, StatefulBatchLogic.RETAIN

    def on_eof(self):
        return self._report(sys.maxsize), StatefulBatchLogic.DISCARD

    def _report(self, watermark: int) -> list[tuple[int, int]]:
        reported = []
        for minute in sorted(minute for minute in self.sums if minute <= watermark):
            self.total += self.sums.pop(minute)
            reported.append((minute, self.total))
        return reported

    def snapshot(self):
        return self.total, dict(self.sums), self.greatest, self.due


def _totals(keyed: KeyedStream, job: Job) -> KeyedStream:
    logics = op.stateful_batch("totals", keyed, lambda state: _MinuteTotals(job, *(state or ())))
    return op.map("rows", logics, lambda item: (item[0], *item[1]))


_WORKLOADS: dict[str, Callable[[KeyedStream, Job], KeyedStream]] = {"W1": _sums, "W2": _counts, "W3": _totals}


@dataclass(frozen=True)
class _Share:
    """One process's part in a run."""

    job: Job
    number: int
    addresses: list[str]
    recovery: str | None


def _work(share: _Share) -> Rows:
    rows: Rows = []
    flow = Dataflow("benchmark")
    keyed = op.input("events", flow, _Files(share.job.many))
    op.output("result", _WORKLOADS[share.job.workload](keyed, share.job), _Into(rows))
    config = RecoveryConfig(share.recovery) if share.recovery else None
    interval = _RECOVERY_INTERVAL if share.recovery else None
    cluster_main(flow, share.addresses, share.number, epoch_interval=interval, recovery_config=config)
    return rows


def _help(connection: Connection) -> None:
    """The second worker: do each share that it is sent."""
    while True:
        connection.send(_work(connection.recv()))


def _helper() -> Connection:
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    context.Process(target=_help, args=(theirs,), daemon=True).start()
    return mine


def _free_addresses(count: int) -> list[str]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


class _Cluster:
    """This process, and one more for each further worker."""

    def __init__(self, workers: int, recovery: bool) -> None:
        self._workers = workers
        self._recovery = recovery
        self._helpers: list[Connection] = []

    def run(self, job: Job) -> Rows:
        if len(self._helpers) < self._workers - 1:
            self._helpers = [_helper() for _ in range(self._workers - 1)]
        if not self._recovery:
            return self._run(job, None)
        with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
            init_db_dir(Path(folder), self._workers)
            return self._run(job, folder)

    def _run(self, job: Job, recovery: str | None) -> Rows:
        addresses = _free_addresses(self._workers) if self._workers > 1 else []
        for number, helper in enumerate(self._helpers, start=1):
            helper.send(_Share(job, number, addresses, recovery))
        mine = _work(_Share(job, 0, addresses, recovery))
        return list(itertools.chain(mine, *(helper.recv() for helper in self._helpers)))


if __name__ == "__main__":
    cluster = _Cluster(int(sys.argv[1]), recovery="recovery" in sys.argv[2:])
    serve(lambda: dict.fromkeys(_WORKLOADS, cluster.run))
