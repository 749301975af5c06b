"""The same windows over values of other types (`python -m benchmarks.value_types`): what a float costs beside a number.

Each type has the same events, keys and windows; the values are made of the same whole numbers. The runs take turns,
round by round, in one Spark session with a durable checkpoint. The ratio is the time of a run beside that of whole
numbers in the same round; every result is held against a plain loop.
"""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer

import headrace as beam
from benchmarks.dataset import FILE_EVENTS
from benchmarks.generator import SECOND, Plan, generate, split, write
from benchmarks.measurement import timed
from benchmarks.report import console, print_table, rounded, save
from benchmarks.session import start_own_session
from benchmarks.workload import PERIOD, WINDOW
from headrace.io import ReadFromParquet
from headrace.options.pipeline_options import PipelineOptions
from headrace.transforms.window import FixedWindows, SlidingWindows, WindowFn

_WHOLE = "int64"
_EPOCH_DAY = 14_600


def _cents(values: pa.Array) -> pa.Array:
    return values.cast(pa.decimal128(21, 0)).cast(pa.decimal128(38, 2))


def _with_nulls(values: pa.Array) -> pa.Array:
    """Every tenth value is null."""
    return pc.if_else(pa.array(np.arange(len(values)) % 10 == 0), pa.scalar(None, values.type), values)


_TYPES: dict[str, Callable[[pa.Array], pa.Array]] = {
    _WHOLE: lambda values: values,
    "float64": lambda values: pc.divide(values.cast(pa.float64()), 100.0),
    "decimal": _cents,
    "nullable int64": _with_nulls,
    "nullable float64": lambda values: _with_nulls(pc.divide(values.cast(pa.float64()), 100.0)),
    "date": lambda values: pc.add(values, _EPOCH_DAY).cast(pa.int32()).cast(pa.date32()),
    "text": lambda values: values.cast(pa.string()),
}
"""Type -> the column of values of this type, of whole numbers."""
_ADDED = frozenset([_WHOLE, "float64", "decimal", "nullable int64", "nullable float64"])
"""Types that can be added up."""


@dataclass(frozen=True, slots=True)
class Case:
    """A combiner in some windows."""

    name: str
    combine: Callable[..., Any]
    expected: Callable[[list[Any]], Any]
    """The result for the values of a key and window."""
    windows: WindowFn
    kinds: frozenset[str] = _ADDED
    """The types that it combines."""


def _total(values: list[Any]) -> Any:
    return math.fsum(values) if isinstance(values[0], float) else sum(values)


def _mean(values: list[Any]) -> Any:
    return _total(values) / len(values)


_FIXED, _SLIDING = FixedWindows(WINDOW // SECOND), SlidingWindows(WINDOW // SECOND, PERIOD // SECOND)
CASES = [
    Case("sum", sum, _total, _FIXED),
    # The decimals that Python divides have as many digits as they need, which no column has.
    Case("mean", beam.combiners.MeanCombineFn, _mean, _FIXED, _ADDED - {"decimal"}),
    Case("max", max, max, _FIXED, frozenset(_TYPES)),
    Case("sliding sum", sum, _total, _SLIDING),
]
Results = dict[tuple[str, int], Any]
"""Key and start of the window in microseconds -> result."""


def main(
    runs: Annotated[int, typer.Option(min=1, help="measured rounds")] = 5,
    events: Annotated[int, typer.Option(help="events of a run")] = 1_000_000,
    case: Annotated[
        list[str] | None, typer.Option(help="sum, mean, max or 'sliding sum'; several times for several")
    ] = None,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/value_types.json"),
) -> None:
    """Compare the types."""
    start_own_session()
    seconds: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with _files(events) as (folder, table):
        for number in range(runs + 1):
            for each in CASES:
                if case and each.name not in case:
                    continue
                for streamed in (False, True):
                    for way in ("columns", "functions"):
                        row = f"{each.name}, {'streamed' if streamed else 'bounded'}, {way}"
                        for kind in _TYPES:
                            if kind not in each.kinds:
                                continue
                            took = _run(each, kind, folder, streamed, way, table if number == 0 else None)
                            if number:
                                seconds[row][kind].append(took)
            console.print(f"round {number} of {runs}" if number else "warm-up, with a check of all results")
    ratios = {row: {kind: _ratio(found, kind) for kind in found} for row, found in seconds.items()}
    rows = [[row, *(rounded(found[kind]) if kind in found else "" for kind in _TYPES)] for row, found in ratios.items()]
    title = f"Seconds beside those of whole numbers, median of {runs} rounds, {events:,} events"
    print_table(title, ["", *_TYPES], rows)
    save(output, {"events": events, "ratios": ratios, "seconds": {row: dict(found) for row, found in seconds.items()}})


def _ratio(found: dict[str, list[float]], kind: str) -> float:
    return median(mine / whole for mine, whole in zip(found[kind], found[_WHOLE], strict=True))


@contextmanager
def _files(events: int) -> Iterator[tuple[Path, pa.Table]]:
    """A folder with the events as one file, and as several, by type; and the events."""
    table = generate(Plan(events=events))
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        for kind, made in _TYPES.items():
            values = made(table["value"].combine_chunks())
            typed = table.set_column(table.schema.get_field_index("value"), "value", values)
            write([typed], Path(name) / kind / "one")
            write(split(typed, -(-events // FILE_EVENTS)), Path(name) / kind / "many")
        yield Path(name), table


def _run(case: Case, kind: str, folder: Path, streamed: bool, way: str, table: pa.Table | None) -> float:
    """The seconds of a run; if `table` is given, its result is checked. Raises ValueError if it is wrong."""
    tables: list[pa.Table] = []
    options: dict[str, Any] = {"max_records_per_epoch": FILE_EVENTS} if streamed else {}
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as place:
        options["checkpoint"] = f"{place}/checkpoint"
        pipeline = beam.Pipeline("SparkRunner", options=PipelineOptions([], **options))
        reading = ReadFromParquet(
            f"{folder / kind}/{'many' if streamed else 'one'}/*.parquet",
            columns=["key", "value"],
            timestamp="timestamp",
            max_delay=Plan().greatest_delay // SECOND if streamed else None,
        )
        rows = pipeline | reading
        if kind.startswith("nullable"):
            rows = rows | beam.Filter(beam.col.value.is_not_null())
        _ = _combined(rows | beam.WindowInto(case.windows), case, way) | beam.io.WriteToTables(
            lambda epoch, found: tables.append(found)
        )
        _, seconds = timed(lambda: pipeline.run().wait_until_finish())
    if table is not None:
        _check(case, kind, table, pa.concat_tables(tables))
    return seconds


def _combined(rows: beam.PCollection[Any], case: Case, way: str) -> beam.PCollection[Any]:
    combine = case.combine() if isinstance(case.combine, type) else case.combine
    if way == "columns":
        combined = rows | beam.GroupBy("key").aggregate_field("value", combine, "result")
        return combined | beam.Select("key", start=beam.window_start(), result="result")
    pairs = rows | beam.Map(lambda row: (row["key"], row["value"]))
    return pairs | beam.CombinePerKey(combine) | beam.Map(_row)


def _row(pair: tuple[str, Any], window: Any = beam.DoFn.WindowParam) -> dict[str, Any]:
    return {"key": pair[0], "start": window.start, "result": pair[1]}


def _check(case: Case, kind: str, table: pa.Table, found: pa.Table) -> None:
    values: dict[tuple[str, int], list[Any]] = defaultdict(list)
    typed = _TYPES[kind](table["value"].combine_chunks()).to_pylist()
    size, period = WINDOW, PERIOD if case.windows is _SLIDING else WINDOW
    for key, value, time in zip(
        table["key"].to_pylist(), typed, table["timestamp"].cast(pa.int64()).to_pylist(), strict=True
    ):
        if value is not None:
            for start in range(time - time % period, time - size, -period):
                values[key, start].append(value)
    starts = found["start"].cast(pa.int64()).to_pylist()
    got = dict(zip(zip(found["key"].to_pylist(), starts, strict=True), found["result"].to_pylist(), strict=True))
    expected = {place: case.expected(each) for place, each in values.items()}
    if got != expected:
        wrong = [place for place in expected.keys() | got.keys() if got.get(place) != expected.get(place)]
        place = wrong[0]
        raise ValueError(
            f"{case.name} of {kind}: {place} is {got.get(place)!r}, not {expected.get(place)!r}, of {len(wrong)}"
        )


if __name__ == "__main__":
    typer.run(main)
