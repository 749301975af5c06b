"""The highest rate at which results stay timely, beside `transformWithState`: `python -m benchmarks.highest_rate`.

W3 passes each record on with a running count of its key, and a result is due when its record is. W1 sums by key in
windows of a second, and a result is due when its window ends; the watermark follows the records. Both have a thousand
keys, Python functions and durable state. Spark's query does what W3 does.

The rate is doubled until the 95th percentile of the delay reaches the bound, then the last step is halved again and
again. A rate counts as kept only if the last quarter of the results keep the bound, too: a pipeline that falls behind
slowly would pass on average. A system that does not keep the lowest rate has none.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated

import typer

import headrace as beam
from benchmarks import paced
from benchmarks.paced import KEYS, Arrivals, Guarantees, Pace
from benchmarks.record_latency import THEIRS, Run, theirs
from benchmarks.report import console, print_table, rounded, save
from benchmarks.session import start_session
from headrace.io import Read, Write
from headrace.lowlevel import SendSink
from headrace.options.pipeline_options import PipelineOptions
from headrace.transforms.window import FixedWindows, IntervalWindow

_FULL = Guarantees(is_strong=True, exactly_once=True)
Due = tuple[int, float]
"""Number of a record or of a result, and when it is due: seconds since 1970."""


def running_counts(rate: int, seconds: float) -> list[float]:
    """W3: delays of one run."""
    return paced.run(rate, seconds, 1, _FULL).delays


def _event(record: Due) -> Due:
    return record[0] * 7 % 10_007 % KEYS, 1.0


def _result(summed: Due, window: IntervalWindow = beam.DoFn.WindowParam) -> Due:
    end = window.end.micros // 1_000_000
    return end * KEYS + summed[0], float(end)


def window_sums(rate: int, seconds: float) -> list[float]:
    """W1: delays of one run, without the first quarter of the windows and the last, which the end of input closes."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        (Path(home) / "arrivals").mkdir()
        arrivals = Arrivals(Path(home) / "arrivals")
        options = PipelineOptions([], checkpoint=f"{home}/checkpoint", poll_seconds=0.01)
        with beam.Pipeline("SparkRunner", options=options) as pipeline:
            events = pipeline | Read(Pace(rate, int(rate * seconds), max_delay=0)) | "Event" >> beam.Map(_event)
            summed = events | beam.WindowInto(FixedWindows(1)) | beam.CombinePerKey(sum)
            _ = summed | "Result" >> beam.Map(_result) | Write(SendSink(arrivals))
        found = arrivals.delays()
    ends = sorted({number // KEYS for number in found})[:-1]
    kept = ends[len(ends) // 4 :]
    return [found[number] for number in sorted(found) if number // KEYS in kept]


class Search:
    """Looks for the highest rate that one system keeps."""

    def __init__(self, name: str, run: Run, seconds: float, bound: float) -> None:
        self._name, self._run, self._seconds, self._bound = name, run, seconds, bound
        self.tried: list[tuple[int, float, float, bool]] = []
        """Rate, median and 95th percentile in milliseconds, whether it was kept."""

    def keeps(self, rate: int) -> bool:
        """Whether a run at this rate stays within the bound."""
        delays = self._run(rate, self._seconds)
        whole, last = (1000 * quantiles(its, n=20)[-1] for its in (delays, delays[-len(delays) // 4 :]))
        kept = bool(max(whole, last) < self._bound)
        self.tried.append((rate, 1000 * median(delays), whole, kept))
        console.print(f"{self._name}: {rate:,}/s, 95th percentile {rounded(whole)} ms, in the end {rounded(last)} ms")
        return kept

    def highest(self, lowest: int, halvings: int) -> int:
        """The highest rate that was kept; 0 if not even the lowest was."""
        return highest_kept(self.keeps, lowest, halvings)


def highest_kept(keeps: Callable[[int], bool], lowest: int, halvings: int) -> int:
    """The highest rate that `keeps` accepts, by doubling and bisection.

    >>> highest_kept(lambda rate: rate <= 7_300, 1_000, 3), highest_kept(lambda rate: False, 1_000, 3)
    (7000, 0)
    """
    if not keeps(lowest):
        return 0
    low = next(lowest << step for step in count() if not keeps(lowest << (step + 1)))
    high = 2 * low
    for _ in range(halvings):
        middle = (low + high) // 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


def main(
    seconds: Annotated[float, typer.Option(help="how long a run is fed; its first quarter does not count")] = 10.0,
    bound: Annotated[float, typer.Option(help="milliseconds that the 95th percentile must stay below")] = 100.0,
    lowest: Annotated[int, typer.Option(help="records a second to begin with")] = 1000,
    halvings: Annotated[int, typer.Option(help="how often the last doubling is halved")] = 3,
    system: Annotated[list[str] | None, typer.Option(help="systems whose name contains this")] = None,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/highest_rate.json"),
) -> None:
    """Search the rate of each system."""
    start_session()
    systems: dict[str, Run] = {
        "Headrace W3, functions": running_counts,
        "Headrace W1, functions": window_sums,
        f"{THEIRS} (W3)": theirs,
    }
    rows, figures = [], {}
    for name, run in systems.items():
        if system and not any(part.lower() in name.lower() for part in system):
            continue
        run(lowest, 5.0)
        search = Search(name, run, seconds, bound)
        rate = search.highest(lowest, halvings)
        at = [each for each in search.tried if each[0] == (rate or lowest)][-1]
        rows.append([name, f"{rate:,}" if rate else f"none from {lowest:,} on", *map(rounded, at[1:3])])
        figures[name] = {"rate": rate, "tried": search.tried}
    columns = ["", "records a second", "median ms there", "95th percentile ms there"]
    print_table(f"Highest rate with a 95th percentile below {bound:g} ms", columns, rows)
    save(output, {"benchmark": "highest rate", "seconds": seconds, "bound, ms": bound, "systems": figures})


if __name__ == "__main__":
    typer.run(main)
