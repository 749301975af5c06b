"""Figures 13 to 16 of the MillWheel paper, drawn from what the benchmarks have written."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from examples.gallery_style import COLOURS, HATCHES, LINES, MARKERS, plain, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Told = dict[str, Any]
"""A benchmark's file."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure of measurements."""

    number: int
    title: str
    remark: str
    file: str
    """What the benchmark writes."""
    command: str
    """What makes it."""
    onto: Callable[[Axes, Told], None]

    def draw(self, folder: Path, files: Sequence[Path]) -> str | None:
        """Save the picture under each name; what is missing, if anything is."""
        path = folder / self.file
        if not path.exists():
            return f"{path} is missing"
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        axes = figure.add_subplot()
        plain(axes)
        self.onto(axes, json.loads(path.read_text(encoding="utf-8")))
        figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=9, handlelength=3.4)
        save(figure, files)
        return None


def latencies(axes: Axes, told: Told) -> None:
    """Figure 13: which share of the records takes how long."""
    ends, histograms = told["bucket ends, ms"], told["histograms"]
    used = [at for at in range(len(ends) + 1) if any(counts[at] for counts in histograms.values())]
    width = 0.84 / len(histograms)
    for number, (name, counts) in enumerate(histograms.items()):
        places = [at - used[0] + (number - (len(histograms) - 1) / 2) * width for at in range(used[0], used[-1] + 1)]
        shares = [100 * count / sum(counts) for count in counts[used[0] : used[-1] + 1]]
        axes.bar(
            places, shares, width, label=name, color=COLOURS[number % 4], hatch=HATCHES[number % 4], edgecolor="white",
            linewidth=0.5,
        )  # fmt: skip
    names = [f"≤ {ends[at]}" if at < len(ends) else f"> {ends[-1]}" for at in range(used[0], used[-1] + 1)]
    axes.set_xticks(range(len(names)), names, rotation=45)
    axes.set_xlabel("latency of a record, ms")
    axes.set_ylabel("share of the records, %")


def workers(axes: Axes, told: Told) -> None:
    """Figure 14: latency of 20 to 2,000 workers."""
    for number, (chance, found) in enumerate(told["s"].items()):
        # The first is the thickest, so that lines that coincide are seen.
        thick = max(1.2, 4.2 - 1.5 * number)
        for name, line in (("median", "-"), ("high", "--")):
            label = f"{'median' if name == 'median' else '99th percentile'}, mishaps {float(chance):g}"
            axes.plot(
                told["workers"], [1000 * its[name] for its in found], linestyle=line, marker=MARKERS[number % 4],
                color=COLOURS[number % 4], label=label, linewidth=thick, markersize=4 + 2 * thick,
            )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xticks(told["workers"], [f"{count:,}" for count in told["workers"]], minor=False)
    axes.xaxis.minorticks_off()
    axes.set_xlabel("workers (simulated on measured costs)")
    axes.set_ylabel("latency, ms")


def lags(axes: Axes, told: Told) -> None:
    """Figure 15: how far the low watermark of each stage is behind the time."""
    for number, (stage, its) in enumerate(told["lags"].items()):
        axes.plot(
            [at for at, _ in its], [1000 * lag for _, lag in its], label=stage, color=COLOURS[number % 4],
            linestyle=LINES[number % 4], linewidth=1.5,
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds since the beginning")
    axes.set_ylabel("low watermark behind the time, ms")


def cache(axes: Axes, told: Told) -> None:
    """Figure 16: processor time against the room for decoded state."""
    for number, (states, outcomes) in enumerate(told["states"].items()):
        by_share = {name: its["seconds"] for name, its in outcomes.items() if name.endswith("of all states")}
        without = next(iter(by_share.values()))
        shares = [float(name.partition("%")[0]) for name in by_share]
        ratios = [
            median(mine / theirs for mine, theirs in zip(seconds, without, strict=True))
            for seconds in by_share.values()
        ]
        axes.plot(
            shares, ratios, marker=MARKERS[number % 4], linestyle=LINES[number % 4], color=COLOURS[number % 4],
            label=f"states of {states}",
        )  # fmt: skip
    axes.margins(y=0.15)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("size of the cache, % of all states decoded")
    axes.set_ylabel("processor time, × without a cache")


FIGURES = (
    Measured(13, "Latency of single records", "With and without strong productions and exactly once.",
             "figures.json", "python -m benchmarks.figures --runs 1", latencies),
    Measured(14, "Latency and the number of workers", "Simulated on costs measured here.",
             "simulation.json", "python -m benchmarks.simulation", workers),
    Measured(15, "Lag of the low watermark", "Of three stages, one after the other.",
             "figures.json", "python -m benchmarks.figures --runs 1", lags),
    Measured(16, "Processor time and the size of the cache", "Of worker and storage.",
             "cache.json", "python -m benchmarks.cache --runs 1", cache),
)  # fmt: skip


def measure(folder: Path) -> None:
    """Run the benchmarks whose files are not in the folder, a round of each: some minutes, on Spark.

    Raises `subprocess.CalledProcessError` if one fails.
    """
    for file, command in dict((its.file, its.command) for its in FIGURES).items():
        if not (folder / file).exists():
            print(f"measuring: {command}", flush=True)
            arguments = [*shlex.split(command)[1:], "--output", str(folder / file)]
            subprocess.run([sys.executable, *arguments], check=True)
