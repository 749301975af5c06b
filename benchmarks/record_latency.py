"""From record to result at 1,000 records a second, beside `transformWithState`: `python -m benchmarks.record_latency`.

Each counts the records of a thousand keys and passes them on, with durable state. A record is the time when it was due;
how late it is, is taken when the sink's function has it. Ours does so with strong productions and weak ones, and three
times in a row, each time by another key. It gets its records from an injector with ids, so it also
looks for duplicates; Spark's query gets them through its socket source, which a thread fills every few milliseconds.
Runs take turns, and every record must come out once.
"""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated

import typer
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from benchmarks import paced
from benchmarks.paced import KEYS, Guarantees
from benchmarks.report import console, print_table, rounded, save
from benchmarks.session import CORES, start_session

_FEED_SECONDS = 0.005
_PATIENCE_SECONDS = 120.0
THEIRS = "Spark transformWithState, RocksDB"
OURS = {
    f"Headrace: {name}, {guarantees}": (depth, guarantees)
    for name, depth, guarantees in (
        ("one grouping", 1, Guarantees(is_strong=True, exactly_once=True)),
        ("one grouping", 1, Guarantees(is_strong=False, exactly_once=True)),
        ("one grouping", 1, Guarantees(is_strong=False, exactly_once=False)),
        ("three in a row", 3, Guarantees(is_strong=True, exactly_once=True)),
    )
}
"""Name -> groupings, and what they promise."""
FIRST = next(iter(OURS))
Run = Callable[[int, float], list[float]]
"""From records a second and seconds to the delays in seconds, without the first quarter."""


class Counting(StatefulProcessor):
    """Counts the records of a key, and passes them on."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "count LONG")

    def handleInputRows(self, key: tuple[int], rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        stored = self._count.get()
        seen = stored[0] if stored else 0
        for row in rows:
            seen += 1
            yield Row(number=row.number, due=row.due)
        self._count.update((seen,))

    def close(self) -> None:
        pass


class Feed:
    """A server that writes each record as a line when it is due, to the one who connects."""

    def __init__(self, rate: int, count: int) -> None:
        self._rate, self._count = rate, count
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        # The query closes the connection when it is stopped.
        with suppress(OSError):
            client, _ = self._server.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            began, sent = time.time(), 0
            while sent < self._count:
                time.sleep(_FEED_SECONDS)
                end = min(self._count, int((time.time() - began) * self._rate))
                lines = [f"{number},{began + number / self._rate}\n" for number in range(sent, end)]
                client.sendall("".join(lines).encode())
                sent = end
            time.sleep(_PATIENCE_SECONDS)


def theirs(rate: int, seconds: float) -> list[float]:
    """One run of Spark's query."""
    count = int(rate * seconds)
    delays: dict[int, float] = {}

    def take(frame: DataFrame, _: int) -> None:
        rows = frame.collect()
        now = time.time()
        for row in rows:
            assert row.number not in delays, "a record came twice"
            delays[row.number] = now - row.due

    feed = Feed(rate, count)
    lines = start_session().readStream.format("socket").option("host", "127.0.0.1").option("port", feed.port).load()
    records = lines.selectExpr("CAST(split(value, ',')[0] AS LONG) number", "CAST(split(value, ',')[1] AS DOUBLE) due")
    keyed = records.selectExpr("*", f"number * 7 % 10007 % {KEYS} AS key").groupBy("key")
    counted = keyed.transformWithState(Counting(), "number LONG, due DOUBLE", "update", "none")
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as checkpoint:
        writer = counted.writeStream.outputMode("update").foreachBatch(take).option("checkpointLocation", checkpoint)
        query = writer.start()
        deadline = time.monotonic() + seconds + _PATIENCE_SECONDS
        while len(delays) < count and time.monotonic() < deadline:
            if (error := query.exception()) is not None:
                raise error
            time.sleep(0.1)
        query.stop()
    return paced.measured(delays, count)


def ours(depth: int, guarantees: Guarantees) -> Run:
    """A pipeline of ours."""
    return lambda rate, seconds: paced.run(rate, seconds, depth, guarantees).delays


def main(
    runs: Annotated[int, typer.Option(min=1, help="rounds; five or more for figures to quote")] = 5,
    rate: Annotated[int, typer.Option(help="records a second")] = 1000,
    seconds: Annotated[float, typer.Option(help="how long a run is fed; its first quarter does not count")] = 20.0,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/record_latency.json"),
) -> None:
    """Run all in turn and compare."""
    start_session()
    systems: dict[str, Run] = {name: ours(*pipeline) for name, pipeline in OURS.items()} | {THEIRS: theirs}
    for run in systems.values():
        run(rate, 5.0)
    console.print(f"warm, measuring {runs} rounds on {CORES} cores")
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in systems}
    for _ in range(runs):
        for name, run in systems.items():
            delays = run(rate, seconds)
            figures[name].append((1000 * median(delays), 1000 * quantiles(delays, n=20)[-1]))
    _print(figures, rate)
    save(output, {"benchmark": "record latency", "runs": runs, "rate": rate, "seconds": seconds, "ms": figures})


def _print(figures: dict[str, list[tuple[float, float]]], rate: int) -> None:
    rows = []
    for name, its in figures.items():
        row = [name]
        for place in (0, 1):
            ratio = median(other[place] / own[place] for own, other in zip(figures[FIRST], its, strict=True))
            row += [rounded(median(each[place] for each in its)), f"× {rounded(ratio)}"]
        rows.append(row)
    columns = ["", "median ms", "of the first", "95th percentile ms", "of the first"]
    print_table(f"Record to result at {rate} records a second", columns, rows)


if __name__ == "__main__":
    typer.run(main)
