"""A topology that changes while records flow: a part that stays, and parts that come and go by seed.

What stays counts visits by minute, with timers and holds; keeps the busiest minute of each parity; and sends numbers
round a circle, so that there are productions under way between epochs. What comes and goes: a step in front, which
moves all of that to other levels; one that counts minutes; one with an input of its own; and one that has a timer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from random import Random
from threading import Event

from headrace.lowlevel import BoundedInjector, CallSink, Computation, Topology
from headrace.lowlevel.checkpoint import Checkpoint, Consent
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.engine.driver.background_run import Running
from headrace.runners.engine.options import RunOptions, RunResult
from headrace.runners.local import LocalRunner
from tests.checkpoints import contents
from tests.schedulers import RandomScheduler
from tests.unit.runners.local.test_local_runner import PerMinute

ROWS = [((i % 5, i % 4), (i * 37) % 100 + 4 * i) for i in range(80)]
OTHERS = [((i % 3, i), i) for i in range(90)]
PARTS = ("front", "tally", "branch", "waiting")
STAYS = ("per minute", "busiest", "round")


class Busiest(Computation):
    def process_record(self, record, context):
        _, minute, count = record.value
        context.state = max(context.state or (0, 0), (count, -minute))


class Round(Computation):
    """Sends a number to the next smaller key until it is 0."""

    def process_record(self, record, context):
        key, number = record.value
        context.state = (context.state or 0) + 1
        if number:
            context.produce("again", ((key + 1) % 5, number - 1))
        else:
            context.produce("arrived", (context.key, record.timestamp))


class Passing(Computation):
    def process_record(self, record, context):
        context.produce("passed", record.value)


class Total(Computation):
    """Says how many records of each key it has seen."""

    def __init__(self, stream):
        self._stream = stream

    def process_record(self, record, context):
        context.state = (context.state or 0) + 1
        context.produce(self._stream, (context.key, context.state))


class Waiting(Computation):
    """Fires once a key, in the middle of the input."""

    def process_record(self, record, context):
        if context.state is None:
            context.state = "set"
            context.set_timer("middle", 200)

    def process_timer(self, timer, context):
        context.produce("fired", context.key)


def first(value):
    return value[0]


def itself(value):
    return value


@dataclass
class Outside:
    """An external system: a repeated delivery must be the same."""

    rows: dict[tuple[str, int], list] = field(default_factory=dict)

    def sink(self, name: str) -> CallSink:
        def deliver(epoch: int, rows: list) -> None:
            rows = sorted(rows)
            assert self.rows.setdefault((name, epoch), rows) == rows, "a repeated delivery differs"

        return CallSink(deliver)

    def values(self, sink: str, epochs: Iterable[int] | None = None) -> list:
        wanted = None if epochs is None else set(epochs)
        return sorted(
            row
            for (name, epoch), rows in self.rows.items()
            for row in rows
            if name == sink and (wanted is None or epoch in wanted)
        )


def topology(outside: Outside, parts: Iterable[str]) -> Topology:
    """What stays and the parts given."""
    made, parts = Topology(), set(parts)
    made.injector("in", BoundedInjector(ROWS, max_delay=100))
    visits = "passed" if "front" in parts else "in"
    if "front" in parts:
        made.computation("front", Passing(), {"in": first}, ["passed"])
    made.computation("per minute", PerMinuteOfPages(), {visits: first}, ["minutes"])
    made.computation("busiest", Busiest(), {"minutes": lambda value: value[0] % 2})
    made.computation("round", Round(), {visits: first, "again": first}, ["again", "arrived"])
    for stream in ("minutes", "arrived"):
        made.sink(stream, stream, outside.sink(stream))
    if "tally" in parts:
        made.computation("tally", Total("tallied"), {"minutes": first}, ["tallied"])
        made.sink("tallied", "tallied", outside.sink("tallied"))
    if "branch" in parts:
        made.injector("others", BoundedInjector(OTHERS))
        made.computation("branch", Total("branched"), {"others": first}, ["branched"])
        made.sink("branched", "branched", outside.sink("branched"))
    if "waiting" in parts:
        made.computation("waiting", Waiting(), {visits: first}, ["fired"])
        made.sink("fired", "fired", outside.sink("fired"))
    return made


class PerMinuteOfPages(PerMinute):
    """Of visits that are pairs of page and number."""


CONSENT = {"allow_removed": ["front", "tally", "tallied", "branch", "branched", "others", "waiting", "fired"]}


class Changing(RandomScheduler):
    """Asks for other parts at certain epochs, in the driver's own thread; crashes at a step, if told to."""

    def __init__(self, seed: int, outside: Outside, at: Mapping[int, tuple[str, ...]], crash_at: int | None = None):
        super().__init__(seed, crash_at)
        self.outside, self.at = outside, dict(at)
        self.asked: list[tuple[tuple[str, ...], Future[int]]] = []
        self.names: list[tuple[str, int]] = []
        self.running: Running | None = None
        self.begun = Event()

    def bundle_size(self, epoch: int, limit: int) -> int:
        return 1 + (epoch * 3) % 5

    def step(self, name: str, epoch: int) -> None:
        assert self.begun.wait(60)
        self.names.append((name, epoch))
        # A change is an epoch of its own, so the number asked for may be passed over.
        due = min((wanted for wanted in self.at if wanted <= epoch), default=None)
        if name == "plan" and due is not None:
            parts = self.at.pop(due)
            made = topology(self.outside, parts)
            asked = self.running.changes.request(lambda _: made, Consent(CONSENT["allow_removed"]))
            self.asked.append((parts, asked))
        super().step(name, epoch)


def run(scheduler: Changing, place: object, parts: Iterable[str] = ()) -> RunResult:
    """One life of a driver, from the parts given; raises `Crash`."""
    runner = LocalRunner(scheduler=scheduler, intervals=3, parallelism=2)
    options = RunOptions(checkpoint=str(place), max_records_per_epoch=8, **CONSENT)
    scheduler.running = runner.start(topology(scheduler.outside, parts), options)
    scheduler.begun.set()
    return scheduler.running.wait(600)


def state(place: object, name: str) -> object:
    """What is stored for a computation, archived or not."""
    return contents(Checkpoint.read(ObjectStore(str(place))).load(name))


def schedule(seed: int) -> dict[int, tuple[str, ...]]:
    """At which epochs to ask for which parts."""
    random = Random(seed)
    epochs = sorted(random.sample(range(2, 22), random.randint(2, 7)))
    return {epoch: tuple(part for part in PARTS if random.random() < 0.5) for epoch in epochs}
