"""Makes the golden checkpoint of this release: `python -m tests.golden.make [FOLDER]`. See the README beside it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import headrace
from headrace.lowlevel.checkpoint import Checkpoint, CheckpointView, Fingerprint
from headrace.lowlevel.checkpoint.manifest import FORMAT_VERSION
from headrace.lowlevel.store import ObjectStore
from headrace.lowlevel.timer import HOLD, TimeDomain
from headrace.runners.engine.clock import ManualClock
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner, Scheduler
from tests.golden.program import CLOCK, LIMIT, Out, rows_of, topology

HERE = Path(__file__).parent
STOP = 34
"""The epoch after which the driver dies: late enough for a snapshot, just after garbage was collected, and early enough
for everything to be on its way."""
EXPECTED, PLACE = "expected.json", "checkpoint"


class Dies(Scheduler):
    """Stops the driver when an epoch is committed and delivered."""

    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == ("delivered", STOP):
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
    positions: int

    @classmethod
    def of(cls, view: CheckpointView) -> Contents:
        """All of a checkpoint's."""
        manifest = view.manifest
        assert manifest is not None
        copies = {name: view.load(name) for names in manifest.topology.levels for name in names}
        marks = Counter(domain for copy in copies.values() for delta in copy.dump() for _, domain, _ in delta.marks)
        domains = {"timers": marks[TimeDomain.LOW_WATERMARK], "wall timers": marks[TimeDomain.WALL_TIME]}
        snapshots = sum(plan.snapshot is not None for plan in manifest.plans.values())
        state = {name: copy.count() for name, copy in sorted(copies.items())}
        return cls(state, {**domains, "holds": marks[HOLD]}, len(manifest.pending), snapshots, len(manifest.positions))

    def check(self) -> None:
        """Nothing is missing that later releases must be able to read."""
        tables: Counter[str] = Counter()
        for counts in self.state.values():
            tables.update(counts)
        # The program is that of format 3, and older than segments.
        del tables["segments"]
        numbers: Mapping[str, int] = {**tables, **self.domains, "pending": self.pending, "snapshots": self.snapshots}
        missing = [name for name, number in numbers.items() if not number]
        assert not missing, f"the checkpoint has no {missing}"


def make(folder: Path) -> None:
    """Run the program to the middle on a new checkpoint, and write down what it must come to."""
    if folder.exists():
        raise FileExistsError(f"{folder} is there already: a golden checkpoint is never replaced")
    whole: Out = {}
    delivered: Out = {}
    runner = LocalRunner(ManualClock(CLOCK), intervals=2)
    runner.run_topology(topology(whole), RunOptions(max_records_per_epoch=LIMIT, balancer=None))
    options = RunOptions(str(folder / PLACE), max_records_per_epoch=LIMIT, balancer=None)
    try:
        LocalRunner(ManualClock(CLOCK), Dies(), intervals=2).run_topology(topology(delivered), options)
    except Crash:
        _tidy(folder / PLACE)
        contents = Contents.of(Checkpoint.read(ObjectStore(str(folder / PLACE))))
    contents.check()
    told = {
        "version": headrace.__version__,
        "epoch": STOP,
        "contents": asdict(contents),
        "delivered": rows_of(delivered),
        "rows": rows_of(whole),
    }
    (folder / EXPECTED).write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _tidy(place: Path) -> None:
    """Take away what neither of the last two commits names, as a driver does that takes over; it commits nothing."""
    Checkpoint.open(ObjectStore(str(place)), "tests.golden.make", Fingerprint.of(topology({})), CLOCK).collect_garbage()


if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / f"format{FORMAT_VERSION}"
    make(where)
    print(f"made {where}")
