"""Keys that crowd together in one key interval, with and without balancing: `python -m benchmarks.intervals`.

All keys lie in the first half of the key space, so that one task has all the work of its level until intervals change;
beside them the same work with keys that are spread evenly. In each round every form runs once; results must agree.
What balancing brings is further cores, so a busy machine shows nothing but its cost.
"""

from __future__ import annotations

from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.measurement import Measurement, timed
from benchmarks.report import console, print_table, rounded, save
from benchmarks.session import CORES, start_session
from headrace.lowlevel import BoundedInjector, CallSink, Computation, Context, Record, Topology
from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.intervals.balancer import LoadBalancer
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.runners.engine.options import RunOptions
from headrace.runners.spark import SparkRunner

_KEYS = 2_000
_EPOCHS = 60
_FORMS = ("spread, not balanced", "crowded, not balanced", "crowded, balanced", "spread, balanced")


class Work(Computation):
    """Adds up, and spends some hundred microseconds of processor time on every record."""

    def process_record(self, record: Record, context: Context) -> None:
        value = record.value[1]
        for step in range(2_000):
            value = (value * 31 + step) % 1_000_003
        context.state = (context.state or 0) + value
        if record.value[2]:
            context.produce("sums", (record.value[1] % _KEYS, context.state))


def keys(crowded: bool) -> list[int]:
    """Keys of the whole key space, or of its first half only."""
    halves = IntervalMap.evenly(2)
    wanted = (key for key in count() if not crowded or halves.of(key_hash_of(encode_key(key))).number == 0)
    return list(islice(wanted, _KEYS))


def run(runner: SparkRunner, events: int, form: str) -> list[object]:
    """The result of one run, in order; the same whatever keys are called."""
    chosen = keys(form.startswith("crowded"))
    rows = [((chosen[i % _KEYS], i, i >= events - _KEYS), i) for i in range(events)]
    found: list[object] = []
    topology = Topology()
    topology.injector("in", BoundedInjector(rows))
    topology.computation("work", Work(), {"in": lambda value: value[0]}, ["sums"])
    topology.sink("sums", "sums", CallSink(lambda epoch, more: found.extend(value for value, _ in more)))
    balancer = None if form.endswith("not balanced") else LoadBalancer
    runner.run_topology(topology, RunOptions(max_records_per_epoch=events // _EPOCHS, balancer=balancer))
    return sorted(found, key=repr)


def main(
    runs: Annotated[int, typer.Option(min=1, help="measured rounds")] = 3,
    events: Annotated[int, typer.Option(help="records")] = 120_000,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/intervals.json"),
) -> None:
    """Measure each form in turn, round by round; the first round only warms up."""
    runner = SparkRunner(start_session(), intervals=CORES)
    measured = {form: Measurement(form, events) for form in _FORMS}
    expected: list[object] = []
    for number in range(runs + 1):
        for form, measurement in measured.items():
            result, seconds = timed(partial(run, runner, events, form))
            expected = expected or result
            assert result == expected, f"{form}: another result"
            if number:
                measurement.seconds.append(seconds)
            console.print(f"run {number} of {runs}  {form}: {seconds:.2f} s")
    even = measured[_FORMS[0]]
    rows = [[each.name, rounded(each.median), rounded(each.times_faster(even))] for each in measured.values()]
    print_table("keys and intervals", ["form", "seconds", "× spread, not balanced"], rows)
    save(
        output,
        {
            "benchmark": "intervals",
            "runs": runs,
            "events": events,
            "seconds": {each.name: each.seconds for each in measured.values()},
        },
    )


if __name__ == "__main__":
    typer.run(main)
