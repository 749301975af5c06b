"""One life of a driver on the local runner's tasks, in which it can die at any moment; and the world that outlives it.

A *moment* is a step of the protocol, a store operation or a delivery to a sink, the latter two before their effect and
after it. Moments are numbered, so that a life can be lived again up to any of them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from headrace.lowlevel import CallSink, Topology
from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.intervals.balancer import Balancer, LoadBalancer
from headrace.lowlevel.storage.object_store import ObjectStorage
from headrace.runners.engine.clock import ManualClock
from headrace.runners.engine.driver.checkpoint_journal import CheckpointJournal
from headrace.runners.engine.driver.driver import Driver
from headrace.runners.engine.options import RunOptions, RunResult
from headrace.runners.local import Crash
from headrace.runners.local.executor import LocalExecutor
from tests.faults.crashes.test_intervals_change import RandomBalancer
from tests.schedulers import RandomScheduler
from tests.stores import WrappedStore

T = TypeVar("T")
Make = Callable[[Callable[[str], CallSink]], Topology]
"""Makes a topology of what makes its sinks."""
TASKS, LIMIT = 2, 16
"""Tasks of a level, and records that an epoch may take at most."""


@dataclass
class Outside:
    """An external system: it takes rows by sink and epoch, and a repeated delivery must be the same."""

    rows: dict[tuple[str, int], list[tuple[object, int]]] = field(default_factory=dict)
    repeated: int = 0
    """Deliveries that came again."""

    def take(self, sink: str) -> CallSink:
        """A sink that delivers here."""
        return CallSink(lambda epoch, rows: self.deliver(sink, epoch, rows))

    def deliver(self, sink: str, epoch: int, rows: list[tuple[object, int]]) -> None:
        """Rows of an epoch come."""
        ordered = sorted(rows, key=repr)
        self.repeated += (sink, epoch) in self.rows
        assert self.rows.setdefault((sink, epoch), ordered) == ordered, "a repeated delivery differs"

    def got(self, sink: str) -> list[tuple[object, int]]:
        """All that a sink got, (value, timestamp)."""
        return [row for (name, _), rows in self.rows.items() if name == sink for row in rows]

    def values(self, sink: str) -> list[object]:
        """The values that a sink got."""
        return [value for value, _ in self.got(sink)]


class Mortal(RandomScheduler):
    """Orders and sizes from a seed; dies at a moment, or never. One seed in fifty takes its records one by one,
    which makes a run long enough for snapshots and garbage collection."""

    def __init__(self, seed: int, dies_at: int | None = None) -> None:
        super().__init__(seed)
        self._dies_at = dies_at
        self._one_by_one = seed % 50 == 49
        self.moments: list[str] = []
        self.dead = False
        self.changes: list[str] = []
        """Of key intervals."""

    def bundle_size(self, epoch: int, limit: int) -> int:
        return 1 if self._one_by_one else super().bundle_size(epoch, limit)

    def balancer(self) -> Balancer:
        """With every other seed key intervals are split, merged and moved between any two epochs."""
        if self.seed % 2 == 0:
            return LoadBalancer()
        changing = RandomBalancer(self.seed, TASKS)
        self.changes = changing.changes
        return changing

    def step(self, name: str, epoch: int) -> None:
        self.moment(name.partition(" task")[0])

    def moment(self, name: str) -> None:
        """Another moment of this life has come. A dead process does nothing more, whatever it would clean up."""
        if self.dead:
            raise Crash(name)
        self.moments.append(name)
        if len(self.moments) - 1 == self._dies_at:
            self.dead = True
            raise Crash(name)

    def around(self, name: str, operation: Callable[[], T]) -> T:
        """Something with an effect: it may die before, or when it is done and nobody has been told."""
        self.moment(f"before {name}")
        result = operation()
        self.moment(f"after {name}")
        return result


class MortalStore(WrappedStore):
    """A store of which each operation is two moments."""

    def __init__(self, inner: ObjectStorage, mortal: Mortal) -> None:
        super().__init__(inner)
        self._mortal = mortal

    def around(self, name: str, operation: Callable[[], T]) -> T:
        verb, _, path = name.partition(" ")
        return self._mortal.around(f"{verb} {path.partition('/')[0]}".strip(), operation)


def stored(store: ObjectStorage) -> dict[tuple[str, bytes, object], object]:
    """All state, timers and holds that a checkpoint has; ids apart, as they say how often something was sent."""
    view, found = Checkpoint.read(store), {}
    for name in view.manifest.input_watermarks if view.manifest is not None else ():
        for delta in view.load(name).dump():
            for (row, *place), value in [*delta.cells.items(), *delta.marks.items()]:
                found[name, row, tuple(place)] = value
    return found


def live(
    make: Callable[[Callable[[str], CallSink]], Topology], outside: Outside, store: ObjectStorage, mortal: Mortal
) -> RunResult:
    """Become the checkpoint's driver and run to the end of the input; raises `Crash` at the moment chosen."""

    def sink(name: str) -> CallSink:
        return CallSink(lambda epoch, rows: mortal.around("delivery", lambda: outside.deliver(name, epoch, rows)))

    topology, clock, own = make(sink), ManualClock(), MortalStore(store, mortal)
    journal = CheckpointJournal(own, topology, clock, "local runner")
    executor = LocalExecutor(topology, TASKS, mortal, own, journal.generation)
    options = RunOptions(intervals=2, max_records_per_epoch=LIMIT, balancer=mortal.balancer)
    return Driver(topology, executor, journal, clock, options, mortal).run()


def dies(life: Callable[[], object]) -> bool:
    """Whether a life ends by a crash, and not at its natural end."""
    with suppress(Crash):
        life()
        return False
    return True


def one_of_each(moments: list[str], random: Random) -> dict[str, int]:
    """For each kind of moment one of those that there were."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(moments):
        places.setdefault(name, []).append(place)
    return {name: random.choice(of_kind) for name, of_kind in sorted(places.items())}
