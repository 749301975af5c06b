"""The Zeitgeist example, killed once: `python -m tests.spark.zeitgeist_lives PLACE OUT [driver EPOCH | executor FLAG]`.

A driver is killed in the middle of an epoch's commit; an executor, one of two in a cluster, by a search that only the
middle of the stream has. What the sinks get goes to the folder OUT, a file for each sink and epoch.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from examples import zeitgeist
from examples.zeitgeist_counts import WindowCounter
from examples.zeitgeist_world import START, World
from headrace.lowlevel import CallSink, Context, Record, Topology
from headrace.lowlevel.time import SECOND
from headrace.runners.engine.options import RunOptions
from tests.spark.cluster import KillExecutor
from tests.spark.lives import KillAt, write

WORLD = World(queries_each=4, day=36, late=0.02)
STEP = 30
FATAL = (START + 100) * SECOND
"""The first search after this kills the executor."""


class Fatal(WindowCounter):
    """A window counter that kills its executor once."""

    def __init__(self, kill: KillExecutor) -> None:
        self._kill = kill

    def process_record(self, record: Record, context: Context) -> None:
        self._kill(record)
        super().process_record(record, context)


def topology(out: Path, flag: Path | None = None) -> Topology:
    """The example, its sinks writing to a folder."""
    made = zeitgeist.topology(WORLD, write(out, "anomalies"), STEP)
    made.sink("windows", "window counts", CallSink(write(out, "windows")))
    if flag is not None:
        counter = Fatal(KillExecutor(flag, lambda record: record.timestamp >= FATAL))
        made.keyed["queries counter"] = replace(made.keyed["queries counter"], computation=counter)
    return made


def main(place: str, out: str, killed: str = "", at: str = "") -> None:
    from pyspark.sql import SparkSession

    from headrace.runners.spark import SparkRunner

    options = RunOptions(place)
    if killed == "executor":
        builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
        SparkRunner(builder.getOrCreate(), intervals=2).run_topology(topology(Path(out), Path(at)), options)
    else:
        steps = KillAt("commit", int(at)) if killed == "driver" else None
        SparkRunner(intervals=2, steps=steps).run_topology(topology(Path(out)), options)


if __name__ == "__main__":
    main(*sys.argv[1:])
