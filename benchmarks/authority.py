"""The watermark authority with few and with many intervals: `python -m benchmarks.authority`.

What an interval costs where there are 500,000 of them, beside what it costs where there are 5,000: a report, single or
of many intervals at once; asking for the low watermark after each; the journal. Flat means a ratio of about 1. Both
sizes take turns in one run. Intervals report in random order. Nothing here waits for anything, so that time is that of
the processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.measurement import Measurement
from benchmarks.report import print_table, rounded, save
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.intervals.sequencer import Sequencer
from headrace.lowlevel.watermarks.authority import Authority

_SIZES = (5_000, 500_000)
_SINGLES = 50_000
_COMPUTATION = "count"
_OWNER = Sequencer(1, 1)


@dataclass
class _Case:
    """An authority of some size, at which time passes from report to report."""

    size: int
    authority: Authority = field(default_factory=Authority)
    dice: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))
    reached: int = 0

    def __post_init__(self) -> None:
        self.intervals: IntervalMap = IntervalMap.evenly(self.size)
        self.authority.assign(_COMPUTATION, self.intervals, _OWNER)

    def together(self) -> Callable[[], object]:
        """All intervals report at once; one question."""
        order, values = self.dice.permutation(self.size), self._values(self.size)

        def run() -> None:
            self.authority.report_all(_COMPUTATION, order, _OWNER, values)
            self.authority.low_watermark(_COMPUTATION)

        return run

    def singly(self, ask: bool) -> Callable[[], object]:
        """Intervals report one by one, with or without a question after each."""
        order, values = self.dice.integers(self.size, size=_SINGLES).tolist(), self._values(_SINGLES).tolist()
        authority = self.authority

        def run() -> None:
            for interval, value in zip(order, values, strict=True):
                authority.report(_COMPUTATION, interval, _OWNER, value)
                if ask:
                    authority.low_watermark(_COMPUTATION)

        return run

    def slowest(self) -> Callable[[], object]:
        """Always the interval with the least value reports: each report moves the low watermark."""
        values = self.authority.values(_COMPUTATION)
        order = sorted(values, key=values.__getitem__)[:_SINGLES]
        news = self._values(len(order)).tolist()

        def run() -> None:
            for interval, value in zip(order, news, strict=True):
                self.authority.report(_COMPUTATION, interval, _OWNER, value)
                self.authority.low_watermark(_COMPUTATION)

        return run

    def journal(self) -> Callable[[], object]:
        """The journal, when every value has changed."""
        self.authority.report_all(_COMPUTATION, range(self.size), _OWNER, self._values(self.size))
        return self.authority.journal

    def restore(self) -> Callable[[], object]:
        """A new authority from the journal."""
        journal = self.authority.journal()
        return lambda: Authority().restore(journal, {_COMPUTATION: self.intervals}, Sequencer(2, 1))

    def change(self) -> Callable[[], object]:
        """Another division of the key space."""
        others = IntervalMap.evenly(self.size + 1)

        def run() -> None:
            self.authority.assign(_COMPUTATION, others, _OWNER)

        return run

    def _values(self, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Values that are all different, the least of them greater than all before."""
        self.reached += 10**9
        return self.reached + self.dice.permutation(10**6)[:count]


_MEASURED: dict[str, Callable[[_Case], Callable[[], object]]] = {
    "reports of all intervals at once, then a question": _Case.together,
    "single reports": lambda case: case.singly(ask=False),
    "single reports, a question after each": lambda case: case.singly(ask=True),
    "reports of the slowest interval, a question after each": _Case.slowest,
    "journal, all values changed": _Case.journal,
    "restore": _Case.restore,
    "another map of intervals": _Case.change,
}


def main(
    runs: Annotated[int, typer.Option(min=1, help="measured rounds")] = 7,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/authority.json"),
) -> None:
    """Measure each thing at both sizes in turn, round by round; the first round only warms up."""
    measured = {what: [Measurement(f"{size:,}", _events(what, size)) for size in _SIZES] for what in _MEASURED}
    for number in range(runs + 1):
        for what, prepare in _MEASURED.items():
            for size, measurement in zip(_SIZES, measured[what], strict=True):
                case = _Case(size)
                case.together()()
                seconds = _processor_seconds(prepare(case))
                if number:
                    measurement.seconds.append(seconds)
    _show(measured, runs)
    figures = {what: {each.name: each.seconds for each in both} for what, both in measured.items()}
    sizes = {f"{size:,}": _journal_bytes(size) for size in _SIZES}
    save(output, {"benchmark": "authority", "runs": runs, "seconds": figures, "journal_bytes": sizes})


def _processor_seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def _events(what: str, size: int) -> int:
    """What the time is divided by: intervals, or reports."""
    return min(size, _SINGLES) if "slowest" in what else _SINGLES if "single" in what else size


def _journal_bytes(size: int) -> int:
    case = _Case(size)
    case.journal()
    return len(case.authority.journal()[_COMPUTATION])


def _show(measured: dict[str, list[Measurement]], runs: int) -> None:
    rows = []
    for what, (few, many) in measured.items():
        microseconds = [rounded(1e6 * each.median / each.events) for each in (few, many)]
        rows.append([what, *microseconds, rounded(few.times_faster(many))])
    print_table(
        f"watermark authority, microseconds for an interval or a report, median of {runs}",
        ["", *(f"{size:,}" for size in _SIZES), "ratio"],
        rows,
    )


if __name__ == "__main__":
    typer.run(main)
