"""Combiners by column beside the same by key (`python -m benchmarks.combiners`).

By key, the same `CombineFn` is called for the elements of each key; the program is the same otherwise: rows of Parquet,
fixed windows, a key of text. The runs take turns, round by round, in one Spark session with a durable checkpoint, and
both ways must have the same results.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import pyarrow as pa
import typer

import headrace as beam
from benchmarks.dataset import FILE_EVENTS, Dataset, datasets
from benchmarks.generator import SECOND, Plan
from benchmarks.measurement import timed
from benchmarks.report import console, print_table, rounded, save
from benchmarks.session import start_own_session
from benchmarks.workload import WINDOW
from headrace import CombineFn
from headrace.options.pipeline_options import PipelineOptions
from headrace.transforms import combiners, stats
from headrace.transforms.window import FixedWindows


class ByKey(CombineFn[Any, Any, Any]):
    """A `CombineFn` that is called, as the engine does not know it."""

    def __init__(self, combine: Any) -> None:
        self._combine = combine

    def create_accumulator(self) -> Any:
        return self._combine.create_accumulator()

    def add_input(self, accumulator: Any, element: Any, /) -> Any:
        return self._combine.add_input(accumulator, element)

    def add_inputs(self, accumulator: Any, elements: Iterable[Any], /) -> Any:
        return self._combine.add_inputs(accumulator, elements)

    def merge_accumulators(self, accumulators: Iterable[Any], /) -> Any:
        return self._combine.merge_accumulators(accumulators)

    def compact(self, accumulator: Any, /) -> Any:
        return self._combine.compact(accumulator)

    def extract_output(self, accumulator: Any, /) -> Any:
        return self._combine.extract_output(accumulator)


CASES: dict[str, Callable[[], Any]] = {
    "mean": combiners.MeanCombineFn,
    "Top 3": lambda: combiners.TopCombineFn(3),
    "distinct, exact": combiners.CountDistinctCombineFn,
    "distinct, sketch": lambda: stats.ApproximateUniqueCombineFn(256),
    "ToList": combiners.ToListCombineFn,
    "latest": combiners.LatestCombineFn,
}


def main(
    runs: Annotated[int, typer.Option(min=1, help="measured rounds")] = 5,
    events: Annotated[int, typer.Option(help="events of a run")] = 1_000_000,
    keys: Annotated[int, typer.Option(help="keys of the events")] = 10_000,
    case: Annotated[list[str] | None, typer.Option(help="name of a combiner; several times for several")] = None,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/combiners.json"),
) -> None:
    """Compare the two ways."""
    start_own_session()
    seconds: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with datasets(Plan(events=events, keys=keys), [events]) as made:
        for number in range(runs + 1):
            for name in case or CASES:
                for streamed in (False, True):
                    turns = [_run(name, by_key, made[events], streamed) for by_key in (False, True)]
                    if turns[0][1] != turns[1][1]:
                        raise ValueError(f"{name}: the two ways have different results")
                    if number:
                        row = f"{name}, {'streamed' if streamed else 'bounded'}"
                        seconds[row].append((turns[0][0], turns[1][0]))
            console.print(f"round {number} of {runs}" if number else "warm-up")
    ratios = {row: median(by_key / by_column for by_column, by_key in pairs) for row, pairs in seconds.items()}
    title = f"Seconds by key over seconds by column, median of {runs} rounds, {events:,} events, {keys:,} keys"
    print_table(title, ["", "ratio"], [[row, rounded(ratio)] for row, ratio in ratios.items()])
    save(output, {"events": events, "keys": keys, "ratios": ratios, "seconds": seconds})


def _run(name: str, by_key: bool, dataset: Dataset, streamed: bool) -> tuple[float, set[str]]:
    """The seconds of a run, and its results as text."""
    tables: list[pa.Table] = []
    options: dict[str, Any] = {"max_records_per_epoch": FILE_EVENTS} if streamed else {}
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as place:
        options["checkpoint"] = f"{place}/checkpoint"
        pipeline = beam.Pipeline("SparkRunner", options=PipelineOptions([], **options))
        rows = pipeline | beam.io.ReadFromParquet(
            f"{dataset.many}/*.parquet" if streamed else str(dataset.one),
            columns=["key", "value"],
            timestamp="timestamp",
            max_delay=dataset.plan.greatest_delay // SECOND if streamed else None,
        )
        windowed = rows | beam.WindowInto(FixedWindows(WINDOW // SECOND))
        pairs = windowed | "Pairs" >> beam.Map(lambda row: (row["key"], row["value"]))
        combined = _combined(pairs, name, by_key) | beam.MapTuple(lambda key, found: {"key": key, "found": found})
        _ = combined | beam.io.WriteToTables(lambda epoch, found: tables.append(found))
        _, seconds = timed(lambda: pipeline.run().wait_until_finish())
    return seconds, _results(tables)


def _combined(pairs: beam.PCollection[Any], name: str, by_key: bool) -> beam.PCollection[Any]:
    if name != "latest":
        combine = CASES[name]()
        return pairs | beam.CombinePerKey(ByKey(combine) if by_key else combine)
    if not by_key:
        return pairs | combiners.Latest.PerKey()
    timed_pairs = pairs | beam.Map(lambda pair, at=beam.DoFn.TimestampParam: (pair[0], (pair[1], at)))
    return timed_pairs | beam.CombinePerKey(ByKey(combiners.LatestCombineFn()))


def _results(tables: list[pa.Table]) -> set[str]:
    table = pa.concat_tables(tables)
    found = zip(table["key"].to_pylist(), table["found"].to_pylist(), strict=True)
    return {f"{key} {sorted(each) if isinstance(each, list) else each}" for key, each in found}


if __name__ == "__main__":
    typer.run(main)
