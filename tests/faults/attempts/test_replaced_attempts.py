"""Sequencers of task attempts: one that was replaced goes on writing, sending, reporting, and changes nothing (§6.2).

The zombie is an attempt in a process of its own: own code, own state stores, the same checkpoint and the same world
outside. Its results are wrong, so that anything taken from the zombie would show.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random

import pytest

from headrace.lowlevel.checkpoint import Checkpoint, DeltaHeader, write_deltas
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.engine.background_calls import PlainCall
from headrace.runners.engine.messages import DRIVER, MessageKind, unpack
from headrace.runners.engine.options import RunOptions
from headrace.runners.engine.task.prepared_topology import PreparedTopology
from headrace.runners.engine.task.task import run_level
from headrace.runners.local import Crash, LocalRunner, Scheduler
from headrace.sdk.io.files.file_sink import EpochFileSink, PartWriter
from tests.faults.mixed import Seen, Sums, World, check, topology

pytestmark = pytest.mark.faults
INTERVALS = 3
WAYS = ("writes", "reports at once", "reports later", "sends at once", "sends later")


class WrongSums(Sums):
    def process_record(self, record, context):
        context.state = (context.state or 0) + 1000
        super().process_record(record, context)


class WrongSeen(Seen):
    def process_record(self, record, context):
        context.state = (context.state or 0) + 1000
        super().process_record(record, context)


class Lines(PartWriter):
    """A part is a line for each value."""

    def write(self, path, batch):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text("".join(f"{value}\n" for value in batch.values))


def built(world, out, wrong=False):
    made = topology(world)
    made.sink("files", "sums", EpochFileSink(f"{out}/sums", ".txt", Lines()))
    if wrong:
        for name, computation in (("sums", WrongSums()), ("seen", WrongSeen())):
            made.keyed[name] = replace(made.keyed[name], computation=computation)
    return made


def visible(out):
    """What readers of the files see."""
    return sorted(line for path in out.glob("*.txt") for line in path.read_text().splitlines())


class ZombieHost:
    """A process that was given up: it still reaches the checkpoint."""

    states = None
    local_exchange = None
    step_begins = None

    def __init__(self, store, clock):
        self.store, self.clock = store, clock
        self.wrote = []
        self._numbers = count()

    def token(self):
        return f"zombie{next(self._numbers)}"

    def state_store(self, computation, level, interval, epoch, plan):
        loaded = {} if plan is None else plan.load(self.store, computation)
        return loaded.get(computation, MemoryStateStore())

    def save(self, epoch, sender, interval, deltas):
        self.wrote.append(sender.token)
        return write_deltas(self.store, DeltaHeader(epoch, sender.level, interval, sender.token), deltas)

    def seconds(self):
        return 0.0

    def begin_release(self, release):
        return PlainCall(release, self.clock)

    def failed(self, error):
        pass


class Replaced(Scheduler):
    """In one epoch one task has a second attempt, which is used; what the first one does comes at the wrong time."""

    def __init__(self, seed, world, place, out):
        random = Random(seed)
        self.way = WAYS[seed % len(WAYS)]
        self.epoch, self.interval = random.choice([1, 2]), random.randrange(INTERVALS)
        self.level = 1 if "sends" in self.way else random.choice([1, 2])
        self.at_once = "at once" in self.way
        self.waits = not self.at_once and random.random() < 0.7
        """Whether it runs only after its successor's commit."""
        self.host = ZombieHost(ObjectStore(str(place)), world.clock)
        self.program = PreparedTopology(built(world, out, wrong=True))
        self.given, self.sent, self.arrived = [], [], 0
        self.tries = Counter()

    def bundle_size(self, epoch, limit):
        return 16

    def step(self, name, epoch):
        if name == "run level 0 task 0":
            self.tries[epoch] += 1
        if (name, epoch) == ("delivered", self.epoch) and self.waits:
            self.walk()
        if (name, epoch) == ("committed", self.epoch + 1):
            raise Crash  # and the next driver's tasks have nothing but what is in the checkpoint

    def arrival_order(self, epoch, level, rows):
        here = rows[0][0]
        if (epoch, level, here) == (self.epoch, self.level, self.interval) and not self.given:
            self.given = list(rows)
            if not self.waits:
                self.walk()
        return rows + (self.late(level, here) if epoch == self.epoch + (not self.at_once) else [])

    def walk(self):
        """The old attempt runs, to its end."""
        out = list(run_level(self.program, self.host, self.level, self.interval, self.given))
        failures = [unpack(row[3]) for row in out if row[2] == MessageKind.FAILURE]
        assert not failures, failures
        reports = "reports" in self.way
        self.sent = [row for row in out if row[1] <= DRIVER and (row[1] == DRIVER) == reports]
        if self.way == "writes":
            self.sent = []

    def late(self, level, here):
        """Rows of the old attempt that come to this task, or pass through it to the driver; they come once."""
        wanted = [row for row in self.sent if row[1] == DRIVER or (row[1] == level and row[0] == here)]
        self.sent = [row for row in self.sent if row not in wanted]
        self.arrived += len(wanted)
        return wanted

    @property
    def retried(self):
        return [epoch for epoch, tries in self.tries.items() if tries > 1]


class InOrder(Scheduler):
    def bundle_size(self, epoch, limit):
        return 16


def live(world, place, out, scheduler):
    """One life of a driver; None if it crashed."""
    runner = LocalRunner(world.clock, scheduler, intervals=INTERVALS, parallelism=2)
    options = RunOptions(str(place), max_records_per_epoch=16)
    try:
        return runner.run_topology(built(world, out), options)
    except Crash:
        return None


def files_named(place):
    """Tokens of the delta files that count."""
    plans = Checkpoint.read(ObjectStore(str(place))).manifest.chains.values()
    return {name.rpartition("-")[2] for plan in plans for name in plan.deltas}


@pytest.mark.parametrize("way", range(len(WAYS)), ids=WAYS)
def test_an_attempt_that_was_replaced_changes_nothing(tmp_path, tally, way, many_tasks):
    expected, folder = World(), tmp_path / "expected"
    result = live(expected, tmp_path / "reference", folder, InOrder())
    run, repeats = tally(3), 0
    for seed in run.seeds(quick=20, full=250, block=way, blocks=len(WAYS)):
        world, place, out = World(), tmp_path / f"at-{seed}", tmp_path / f"out-{seed}"
        zombie = Replaced(seed, world, place, out)
        run.plan()
        assert live(world, place, out, zombie) is None
        assert len(zombie.host.wrote) == 1, "the zombie did not write"
        assert (zombie.arrived > 0) == (zombie.way != "writes"), "the zombie sent nothing"
        run.fire()
        again = live(world, place, out, InOrder())
        run.compare(visible(folder), visible(out), "files")
        for name in ("sums", "seen"):
            run.compare(expected.values(name), world.values(name), name)
        repeats += check(world, expected, f"seed {seed}")
        assert again.counters == result.counters
        assert zombie.host.wrote[0] not in files_named(place)
        assert zombie.retried == ([zombie.epoch + (not zombie.at_once)] if zombie.arrived else [])
    assert repeats > 0, "no zombie released anything weak"
