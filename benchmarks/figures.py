"""Figures 13 and 15 of the MillWheel paper, for this engine: `python -m benchmarks.figures`.

Figure 13: a histogram of how late records come out of one grouping, with and without strong productions and
exactly-once. Figure 15: how far the low watermark of each of three stages is behind the time, polled while records come
in order. Drawn as tables; every number is in the JSON file.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median, pstdev, quantiles
from typing import Annotated

import typer

from benchmarks import paced
from benchmarks.paced import Arrivals, Guarantees, Pace
from benchmarks.report import console, print_table, rounded, save
from benchmarks.session import CORES, start_session
from headrace.lowlevel.metric import ENGINE, TypedMetricName
from headrace.lowlevel.metric_cells import GaugeCell
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.runners.engine.options import EpochProgress, RunOptions
from headrace.runners.spark import SparkRunner

_COMBINATIONS = [Guarantees(strong, once) for strong in (True, False) for once in (True, False)]
_BUCKETS = (10, 20, 30, 40, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 2000, 5000)
"""Upper ends, ms."""
_WATERMARK = TypedMetricName("gauge", ENGINE, "watermark")
_STAGES = 3
_POLL_SECONDS = 0.1
_BAR = 24

Lags = dict[str, list[tuple[float, float]]]
"""Stage -> seconds since the beginning, and how many seconds its low watermark was behind the time."""


def histogram(delays: Sequence[float]) -> list[int]:
    """How many delays (seconds) are in each bucket; the last is for all that are longer.

    >>> sum(histogram([0.001, 0.02, 9.0])), histogram([0.02])[:3]
    (3, [0, 1, 0])
    """
    counts = [0] * (len(_BUCKETS) + 1)
    for delay in delays:
        counts[next((at for at, end in enumerate(_BUCKETS) if delay * 1000 <= end), len(_BUCKETS))] += 1
    return counts


@dataclass(slots=True)
class Poll:
    """Asks again and again how far each stage's low watermark is behind the time."""

    found: Lags = field(default_factory=dict)
    _watermarks: dict[str, int] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)

    def note(self, progress: EpochProgress) -> None:
        """What the last commit says."""
        for step, cells in progress.metrics.items():
            cell = cells.get(_WATERMARK)
            if isinstance(cell, GaugeCell) and ": " in step:
                self._watermarks[step.rpartition(": ")[2]] = cell.value

    def work(self) -> None:
        """Poll until it is over."""
        began = time.time()
        while not self._over.wait(_POLL_SECONDS):
            now = time.time()
            for stage, watermark in list(self._watermarks.items()):
                if stage.isdigit() and watermark not in (MIN_TIMESTAMP, MAX_TIMESTAMP):
                    self.found.setdefault(f"stage {stage}", []).append((now - began, now - watermark / 1e6))

    def end(self) -> None:
        """No more."""
        self._over.set()


def watermark_lags(rate: int, seconds: float) -> Lags:
    """One run of three stages, of records in order of their time; without its first quarter."""
    poll = Poll()
    thread = threading.Thread(target=poll.work, daemon=True)
    thread.start()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        arrivals = Path(home) / "arrivals"
        arrivals.mkdir()
        pace = Pace(rate, int(rate * seconds), max_delay=0)
        topology = paced.topology(pace, _STAGES, {_COMBINATIONS[0]: Arrivals(arrivals)})
        options = RunOptions(f"{home}/checkpoint", poll_seconds=0.01, progress=poll.note)
        SparkRunner().run_topology(topology, options)
    poll.end()
    thread.join()
    return {stage: [(at, lag) for at, lag in lags if at > seconds / 4] for stage, lags in poll.found.items()}


def main(
    runs: Annotated[int, typer.Option(min=1, help="rounds of figure 13")] = 5,
    rate: Annotated[int, typer.Option(help="records a second")] = 1000,
    seconds: Annotated[float, typer.Option(help="how long a run is fed; its first quarter does not count")] = 10.0,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/figures.json"),
) -> None:
    """Measure and draw both figures."""
    start_session()
    paced.run(rate, 5.0, 1, _COMBINATIONS[0])
    console.print(f"warm, measuring {runs} rounds on {CORES} cores")
    delays: dict[str, list[float]] = {str(each): [] for each in _COMBINATIONS}
    for _ in range(runs):
        for each in _COMBINATIONS:
            delays[str(each)] += paced.run(rate, seconds, 1, each).delays
    lags = watermark_lags(rate, 3 * seconds)
    _print_delays(delays)
    _print_lags(lags)
    counts = {name: histogram(its) for name, its in delays.items()}
    told = {"benchmark": "figures 13 and 15", "runs": runs, "rate": rate, "seconds": seconds}
    save(output, told | {"bucket ends, ms": _BUCKETS, "histograms": counts, "lags": lags})


def _print_delays(delays: dict[str, list[float]]) -> None:
    shares = {name: [count / len(its) for count in histogram(its)] for name, its in delays.items()}
    rows = []
    for at, start in enumerate((0, *_BUCKETS)):
        if any(its[at] for its in shares.values()):
            end = f"{start} to {_BUCKETS[at]}" if at < len(_BUCKETS) else f"over {start}"
            rows.append([end, *(f"{'#' * round(_BAR * its[at] / 2)} {its[at]:.1%}" for its in shares.values())])
    for label, figure in (("median ms", median), ("95th percentile ms", lambda its: quantiles(its, n=20)[-1])):
        rows.append([label, *(rounded(1000 * figure(its)) for its in delays.values())])
    print_table("Figure 13: record to result, one grouping", ["ms", *delays], rows)


def _print_lags(lags: Lags) -> None:
    rows = []
    for stage, its in lags.items():
        values = [1000 * lag for _, lag in its]
        rows.append(
            [stage, rounded(fmean(values)), rounded(pstdev(values)), rounded(min(values)), rounded(max(values))]
        )
    columns = ["low watermark", "behind the time, mean ms", "standard deviation", "least", "most"]
    print_table("Figure 15: watermark lag of three stages", columns, rows)
    _print_over_time(lags)


def _print_over_time(lags: Lags) -> None:
    """The mean of each second."""
    by_second: dict[int, dict[str, list[float]]] = {}
    for stage, its in lags.items():
        for at, lag in its:
            by_second.setdefault(int(at), {}).setdefault(stage, []).append(1000 * lag)
    rows = [
        [str(second), *(rounded(fmean(stages.get(stage, [0.0]))) for stage in lags)]
        for second, stages in sorted(by_second.items())
    ]
    print_table("Over time, mean ms of each second", ["second", *lags], rows)


if __name__ == "__main__":
    typer.run(main)
