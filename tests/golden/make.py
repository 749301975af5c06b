"""Makes the golden checkpoints of this release: `python -m tests.golden.make`. See the README beside it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import headrace
from headrace.lowlevel.checkpoint import Checkpoint, CheckpointView, Fingerprint
from headrace.lowlevel.checkpoint.manifest.manifest import FORMAT_VERSION
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.lowlevel.topology.timer import HOLD, TimeDomain
from headrace.lowlevel.topology.topology import Topology
from headrace.runners.engine.clock import ManualClock
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner, Scheduler
from tests.golden import classes, columns, later, program, stored
from tests.golden.program import CLOCK, LIMIT, Out, rows_of

HERE = Path(__file__).parent
STOP = 34
"""The epoch after which the driver dies: late enough for a snapshot, just after garbage was collected, and early enough
for everything to be on its way."""
EXPECTED, PLACE = "expected.json", "checkpoint"
EVERYTHING, COLUMNS, LATER, CLASSES = "everything", "columns", "later", "classes"
PROGRAMS: Mapping[str, Callable[[Out], Topology]] = {
    EVERYTHING: program.topology,
    COLUMNS: columns.topology,
    LATER: later.topology,
    CLASSES: classes.topology,
}
"""What checkpoints are of."""


class Dies(Scheduler):
    """Stops the driver when an epoch is committed and delivered."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self._last = last

    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == ("delivered", self._last):
            raise Crash("as planned")


@dataclass(frozen=True)
class Contents:
    """What must be in a checkpoint for it to show anything, each a number of entries."""

    state: dict[str, dict[str, int]]
    """Computation -> table -> entries."""
    domains: dict[str, int]
    """Timers on the watermark, timers on wall time, holds."""
    pending: int
    snapshots: int
    carried: int
    """Deltas that log entries carry."""
    positions: int

    @classmethod
    def of(cls, view: CheckpointView) -> Contents:
        """All of a checkpoint's."""
        manifest = view.manifest
        assert manifest is not None
        stores = {name: view.load(name) for names in manifest.topology.levels for name in names}
        marks = Counter(domain for store in stores.values() for delta in store.dump() for _, domain, _ in delta.marks)
        # Those in segments are told by interval.
        wall = marks[TimeDomain.WALL_TIME] or sum(map(len, manifest.wall_timers.values()))
        domains = {"timers": marks[TimeDomain.LOW_WATERMARK], "wall timers": wall}
        snapshots = sum(plan.snapshot is not None for plan in manifest.chains.values())
        state = {name: store.count() for name, store in sorted(stores.items())}
        carried = sum(path.startswith("log/") for plan in manifest.chains.values() for path in plan.objects())
        domains["holds"] = marks[HOLD]
        return cls(state, domains, len(manifest.pending), snapshots, carried, len(manifest.positions))

    def check(self, name: str) -> None:
        """Nothing is missing that later releases must be able to read in a checkpoint of the program of that name."""
        tables: Counter[str] = Counter()
        for counts in self.state.values():
            tables.update(counts)
        numbers: dict[str, int] = {"snapshots": self.snapshots, "carried deltas": self.carried}
        if name == COLUMNS:
            numbers["segments"] = tables["segments"]
        elif name == CLASSES:
            # What is said of all is said of the others.
            numbers |= {table: tables[table] for table in ("segments", "keys", "cells")}
        elif name == LATER:
            # Its records have no ids; what holds a watermark or waits for the clock is in segments.
            del tables["ids"]
            numbers |= {**tables, "timers": self.domains["timers"]}
        else:
            # Nothing of this program works by columns.
            del tables["segments"]
            numbers |= {**tables, **self.domains, "pending": self.pending}
        missing = [entry for entry, number in numbers.items() if not number]
        assert not missing, f"the checkpoint has no {missing}"


def make(folder: Path, name: str) -> None:
    """Run the program of that name to the middle on a new checkpoint, and write down what it must come to."""
    if folder.exists():
        raise FileExistsError(f"{folder} is there already: a golden checkpoint is never replaced")
    topology = PROGRAMS[name]
    whole: Out = {}
    delivered: Out = {}
    runner = LocalRunner(ManualClock(CLOCK), intervals=2)
    runner.run_topology(topology(whole), RunOptions(max_records_per_epoch=LIMIT, balancer=None))
    options = RunOptions(str(folder / PLACE), max_records_per_epoch=LIMIT, balancer=None)
    # The last commits carry their deltas, as there is one task.
    for last, tasks in ((STOP - 2, 2), (STOP, 1)):
        with suppress(Crash):
            part = LocalRunner(ManualClock(CLOCK), Dies(last), intervals=2, parallelism=tasks)
            part.run_topology(topology(delivered), options)
    _tidy(folder / PLACE, topology)
    contents = Contents.of(Checkpoint.read(ObjectStore(str(folder / PLACE))))
    contents.check(name)
    told = {
        "program": name,
        "version": headrace.__version__,
        "epoch": STOP,
        "contents": asdict(contents),
        "delivered": rows_of(delivered),
        "rows": rows_of(whole),
    }
    (folder / EXPECTED).write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _tidy(place: Path, topology: Callable[[Out], Topology]) -> None:
    """Take away what neither of the last two commits names, as a driver does that takes over; it commits nothing."""
    fingerprint = Fingerprint.of(topology({}))
    Checkpoint.open(ObjectStore(str(place)), "tests.golden.make", fingerprint, CLOCK).collect_garbage()


if __name__ == "__main__":
    for name in PROGRAMS:
        where = HERE / (f"format{FORMAT_VERSION}" + (f"-{name}" if name != EVERYTHING else ""))
        if where.exists():
            print(f"{where} is there already, and stays")
        else:
            make(where, name)
            print(f"made {where}")
    stored.make()
