"""One key with most of the elements, with and without fan-out: `python -m benchmarks.hot_key`.

Texts under a hot key are combined to counts of their trigrams, which is most of the work, in sessions (where elements
cannot be combined before the shuffle) and in fixed windows (where they are anyway). In each round every form runs once;
results must agree. What fan-out brings are further cores, so a busy machine shows nothing but its cost.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

import headrace as beam
from benchmarks.measurement import Measurement, timed
from benchmarks.report import console, print_table, rounded, save
from benchmarks.session import CORES, start_session
from headrace.lowlevel import CallSink
from headrace.runners.spark import SparkRunner
from headrace.sdk.windows import WindowFn
from headrace.transforms import window

Text = window.TimestampedValue[tuple[str, str]]
Trigrams = Counter[str]
_HOT_SHARE = 0.9
_COLD_KEYS = 50
_FANOUTS = (None, CORES, 4 * CORES)
_WINDOWS: dict[str, WindowFn] = {"sessions": window.Sessions(60), "fixed windows": window.FixedWindows(600)}


class CountTrigrams(beam.CombineFn):
    """How often each three letters stand side by side."""

    def create_accumulator(self) -> Trigrams:
        return Counter()

    def add_input(self, accumulator: Trigrams, text: str) -> Trigrams:
        accumulator.update(map("".join, zip(text, text[1:], text[2:], strict=False)))
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Trigrams]) -> Trigrams:
        merged: Trigrams = Counter()
        for accumulator in accumulators:
            merged.update(accumulator)
        return merged

    def extract_output(self, accumulator: Trigrams) -> list[tuple[str, int]]:
        return sorted(accumulator.items())


def texts(count: int) -> list[Text]:
    """Texts of two thousand letters, a second apart; most are under one key."""
    dice = random.Random(19)
    known = ["".join(dice.choices("abcdefgh ", k=2000)) for _ in range(100)]
    keys = ["hot" if dice.random() < _HOT_SHARE else f"cold {dice.randrange(_COLD_KEYS)}" for _ in range(count)]
    return [window.TimestampedValue((key, dice.choice(known)), second) for second, key in enumerate(keys)]


def run(runner: SparkRunner, made: list[Text], windows: WindowFn, fanout: int | None) -> list[object]:
    """The result of one run, in order."""
    rows: list[object] = []
    with beam.Pipeline(runner) as pipeline:
        windowed = pipeline | beam.Create(made) | beam.WindowInto(windows)
        counted = windowed | beam.CombinePerKey(CountTrigrams()).with_hot_key_fanout(fanout)
        counted | beam.io.Write(CallSink(lambda epoch, its: rows.extend(its)))
    return sorted(rows, key=repr)


def main(
    runs: Annotated[int, typer.Option(min=1, help="measured rounds")] = 5,
    events: Annotated[int, typer.Option(help="texts")] = 10_000,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/hot_key.json"),
) -> None:
    """Measure each form in turn, round by round; the first round only warms up."""
    made = texts(events)
    runner = SparkRunner(start_session(), intervals=CORES)
    measured = {(name, fanout): Measurement(_title(fanout), events) for name in _WINDOWS for fanout in _FANOUTS}
    expected: dict[str, list[object]] = {}
    for number in range(runs + 1):
        for (name, fanout), measurement in measured.items():
            result, seconds = timed(partial(run, runner, made, _WINDOWS[name], fanout))
            assert result == expected.setdefault(name, result), f"{name}, {measurement.name}: another result"
            if number:
                measurement.seconds.append(seconds)
            console.print(f"run {number} of {runs}  {name}, {measurement.name}: {seconds:.2f} s")
    for name in _WINDOWS:
        direct = measured[name, None]
        rows = [
            [each.name, rounded(each.median), rounded(each.times_faster(direct))]
            for (where, _), each in measured.items()
            if where == name
        ]
        print_table(f"one hot key in {name}", ["form", "seconds", "× without fan-out"], rows)
    figures = {f"{name}, {each.name}": each.seconds for (name, _), each in measured.items()}
    save(output, {"benchmark": "hot_key", "runs": runs, "events": events, "seconds": figures})


def _title(fanout: int | None) -> str:
    return "without fan-out" if fanout is None else f"fan-out {fanout}"


if __name__ == "__main__":
    typer.run(main)
