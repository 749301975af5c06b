"""Which queries are spiking or dipping? The MillWheel paper's own example (§2, figures 1-3 and 9), on its primitives.

    python -m examples.zeitgeist

Searches from four regions are counted by the second, by query and once more by region. A model of each learns what is
usual at which time of the day. A spike detector and a dip detector hold each second against the model:

    searches (a stream a region) ─┬─ queries counter ─┐                   ┌─ spike detector ─┐
                                  └─ regions counter ─┴─ window counts ─┬─┤                  ├─ anomalies
                                                                        │ └─ dip detector ───┘
                                                 model calculator ──────┘ (model updates)

The world is made up (`examples/zeitgeist_world.py`), so it is known what there is to find: spikes and dips of single
queries, and a whole region that is cut off. Another region's searches are only delayed for a while. There the low
watermark waits and no dip is reported: that is the difference between what did not happen and what is not known yet.
Records come in disorder, and a few so late that they are dropped, and counted.

Exits with 1 unless exactly the planted events are found.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from examples.zeitgeist_check import WITHIN, Verdict, judged
from examples.zeitgeist_counts import WindowCount, WindowCounter
from examples.zeitgeist_detectors import Anomaly, DipDetector, SpikeDetector
from examples.zeitgeist_model import ModelCalculator, Prediction
from examples.zeitgeist_replay import MAX_DELAY, Collector
from examples.zeitgeist_world import (
    HELD_BACK,
    OUTAGE,
    PRACTICE_DAYS,
    REGIONS,
    START,
    Planted,
    Search,
    World,
    everywhere,
)
from headrace.lowlevel import CallSink, Topology
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners import RunResult
from headrace.sdk.pipeline.runner_choice import find_runner, run_options

Rows = list[tuple[object, int]]
STEP = 20
"""Seconds of the stream's clock in an epoch."""


def topology(world: World, deliver: Callable[[int, Rows], None], step: int = STEP) -> Topology:
    """The computations; anomalies go to `deliver`, with the number of their epoch.

    Both counters produce to one stream; both detectors and the model read it. Each consumer says what its key is.
    """
    made = Topology()
    searches = [f"searches in {region}" for region in REGIONS]
    for stream, region in zip(searches, REGIONS, strict=True):
        made.injector(stream, Collector(world, region, step))
    counts = ["window counts"]
    made.computation("queries counter", WindowCounter(), dict.fromkeys(searches, by_query), counts)
    made.computation("regions counter", WindowCounter(), dict.fromkeys(searches, by_region), counts)
    made.computation("model calculator", ModelCalculator(world.day), {"window counts": subject}, ["model updates"])
    both = {"window counts": subject, "model updates": subject}
    made.computation("spike detector", SpikeDetector(world.day), both, {"anomalies": Anomaly})
    made.computation("dip detector", DipDetector(world.day), both, {"anomalies": Anomaly})
    made.sink("anomalies", "anomalies", CallSink(deliver))
    return made


def by_query(value: object) -> str:
    """The key under which the searches for one query are counted."""
    assert isinstance(value, Search)
    return value.query


def by_region(value: object) -> str:
    """The key under which the searches of one region are counted."""
    assert isinstance(value, Search)
    return everywhere(value.region)


def subject(value: object) -> str:
    """The key of window counts and of model updates."""
    assert isinstance(value, WindowCount | Prediction)
    return value.subject


def report(console: Console, world: World, verdict: Verdict, result: RunResult) -> None:
    """Planted and found as a table, the queries of the region that was cut off in one line."""
    table = Table("", "what", "planted", "found after", "expected", "searches", title="spiking and dipping")
    of_region = []
    for event, found in verdict.pairs:
        if event.factor == 0 and event.subject != everywhere(OUTAGE):
            of_region.append((event, found))
        else:
            _row(table, world, event, found)
    seconds = [found.second - event.start for event, found in of_region if found]
    what, times = (
        f"{len(seconds)} of its {len(of_region)} queries",
        f"{min(seconds, default=0)} to {max(seconds, default=0)} s",
    )
    table.add_row("dip", what, clock(world, of_region[0][0].start), times)
    for alarm in verdict.false_alarms:
        table.add_row(alarm.kind, escape(alarm.subject), "false alarm", clock(world, alarm.second), *_numbers(alarm))
    console.print(table)
    _summary(console, world, verdict, result)


def _row(table: Table, world: World, event: Planted, found: Anomaly | None) -> None:
    planted = (event.kind, escape(event.subject), clock(world, event.start))
    if found is None:
        table.add_row(*planted, "missed")
    else:
        table.add_row(*planted, f"{found.second - event.start} s", *_numbers(found))


def _numbers(anomaly: Anomaly) -> tuple[str, str]:
    return f"{anomaly.expected:.0f}", f"{anomaly.actual}"


def _summary(console: Console, world: World, verdict: Verdict, result: RunResult) -> None:
    counter = result.counters["queries counter"]
    dropped = counter.get("dropped_late", 0)
    queries = sum(map(len, world.queries.values()))
    since, until = world.offline
    dips = sum(alarm.kind == "dip" for alarm in verdict.false_alarms)
    console.print(
        f"{counter['records']:,} searches for {queries} queries = {counter['counted']:,} counted + {dropped} dropped, "
        f"as they came more than {MAX_DELAY} s late ({dropped / counter['records']:.3%})\n"
        f"{len(verdict.pairs) - len(verdict.missed)} of {len(verdict.pairs)} events found within {WITHIN} s, "
        f"{len(verdict.false_alarms)} false alarms\n"
        f"searches in {HELD_BACK} were held back from {clock(world, since)} to {clock(world, until)}: "
        f"the low watermark waited, and {dips or 'no'} dips were reported that were none"
    )


def clock(world: World, second: int) -> str:
    """Day and time on a clock whose 24 hours pass in one day of the world.

    >>> clock(World(day=240), START + 3 * 240 + 125)
    'day 4, 12:30'
    """
    day, rest = divmod(second - START, world.day)
    minutes = rest * 24 * 60 // world.day
    return f"day {day + 1}, {minutes // 60:02}:{minutes % 60:02}"


app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)


@app.command()
def main(
    seed: Annotated[int, typer.Option(help="Another seed is another world.")] = World.seed,
    queries: Annotated[int, typer.Option(min=20, max=80, help="Queries of each of the four regions.")] = 50,
    days: Annotated[int, typer.Option(min=PRACTICE_DAYS + 2, help="Days of two minutes each.")] = World.days,
    runner: Annotated[str | None, typer.Option(help="SparkRunner or LocalRunner; default: HEADRACE_RUNNER.")] = None,
    step: Annotated[int, typer.Option(min=1, help="Seconds of the stream in an epoch.")] = STEP,
) -> None:
    """Find the spikes and dips in a stream of searches, and compare them with those that were planted."""
    started = time.perf_counter()
    world = World(seed, queries, days)
    found: list[Anomaly] = []
    made = topology(
        world, lambda epoch, rows: found.extend(cast("list[Anomaly]", [anomaly for anomaly, _ in rows])), step
    )
    result = find_runner(runner).run_topology(made, run_options(PipelineOptions([])))
    verdict = judged(world.planted, found)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 110
    report(console, world, verdict, result)
    console.print(f"{time.perf_counter() - started:.0f} s, {result.epochs} epochs")
    raise typer.Exit(1 if verdict.missed or verdict.false_alarms else 0)


if __name__ == "__main__":
    app()
