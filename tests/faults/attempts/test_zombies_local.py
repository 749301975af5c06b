"""Drivers that are stopped at any moment, replaced, and go on as if nothing had happened; and tasks likewise.

Nobody accepts what they write, their error says who replaced them, and outputs are those of one undisturbed driver.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from random import Random
from typing import cast

import pytest

from headrace.lowlevel import BoundedInjector, Computation, Context, FencedError, Record, Topology
from headrace.lowlevel.checkpoint import Manifest
from headrace.lowlevel.checkpoint.log.commit_log import read_entry
from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.storage import object_names
from headrace.runners.engine.clock import ManualClock
from headrace.runners.engine.driver.checkpoint_journal import CheckpointJournal
from headrace.runners.engine.driver.driver import Driver
from headrace.runners.engine.messages import EpochSpec, Message
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, Scheduler
from headrace.runners.local.executor import LocalExecutor
from tests.faults.crashes.test_kill_local import CASES, Case
from tests.faults.life import Mortal, Outside
from tests.faults.tally import Tally
from tests.stores import DictStore

pytestmark = pytest.mark.faults

TOLD = re.compile(r"generation (\d+) \(local runner on .*\) on dict:// was replaced by generation (\d+) \(local runner")


class History(DictStore):
    """A store that remembers every entry of the log in the order in which it was accepted."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[tuple[int, int]] = []
        """(epoch, generation) of every commit."""
        self.stale = 0
        """Commits that were accepted behind an entry of a later generation."""
        self.generations = 0
        """Drivers that took a lease."""
        self._newest = 0

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if not super().put_if_absent(path, data):
            return False
        if path.startswith(f"{object_names.LEASES}/"):
            self.generations = cast(int, object_names.number_of(path))
        if path.startswith(f"{object_names.LOG}/"):
            self._entered(read_entry(self, cast(int, object_names.number_of(path))))
        return True

    def _entered(self, entry: object) -> None:
        generation = entry.generation if isinstance(entry, Manifest) else entry.lease.generation
        if isinstance(entry, Manifest):
            self.commits.append((entry.epoch, generation))
            self.stale += generation < self._newest
        self._newest = max(self._newest, generation)


class Stopped(Mortal):
    """A driver that is stopped at a moment while something else happens, and then goes on."""

    def __init__(self, seed: int, stops_at: int, meanwhile: Callable[[], None], dies_at: int | None = None) -> None:
        super().__init__(seed, dies_at)
        self._stops_at, self._meanwhile = stops_at, meanwhile
        self.stopped = False

    def moment(self, name: str) -> None:
        super().moment(name)
        if len(self.moments) - 1 == self._stops_at:
            self.stopped = True
            self._meanwhile()


class Drivers:
    """Several drivers on one checkpoint, each stopped while the next one works."""

    def __init__(self, case: Case, random: Random) -> None:
        self.case, self._random = case, random
        self.history, self.outside = History(), Outside()
        self.told: list[str] = []
        """What drivers said that were replaced."""

    def drive(self, number: int, stops_at: int, others: int) -> Stopped:
        """One driver, in the midst of whose life others come."""
        dies_at = self._random.randrange(200) if number and self._random.random() < 0.4 else None
        driver = Stopped(self.case.seed + number, stops_at, lambda: self._meanwhile(number, others), dies_at)
        try:
            self.case.live(self.outside, self.history, driver)
        except FencedError as error:
            self.told.append(str(error))
        except Crash:
            assert driver.dead
        return driver

    def _meanwhile(self, number: int, others: int) -> None:
        if others:
            self.drive(number + 1, self._random.randrange(80), others - 1)


@pytest.mark.parametrize("name", CASES)
def test_stopped_replaced_and_continued(tally: Callable[[int], Tally], name: str) -> None:
    run = tally(3)
    for seed in run.seeds(10, 200):
        run.plan()
        case, random = Case(name, seed, run), Random(f"zombie {seed}")
        drivers = Drivers(case, random)
        first = drivers.drive(0, random.randrange(len(case.calm.moments)), random.randint(1, 3))
        assert first.stopped and drivers.history.generations > 0, "the fault did not fire"
        run.fire()
        case.live_on(drivers.outside, drivers.history, 9, "after zombies")
        judge(drivers, run)


def judge(drivers: Drivers, run: Tally) -> None:
    """One history, made by drivers in the order of their generations; who was replaced said by whom."""
    run.note("stale writes accepted", drivers.history.stale)
    assert drivers.history.stale == 0
    epochs = [epoch for epoch, _ in drivers.history.commits]
    assert epochs == list(range(1, len(epochs) + 1))
    for text in drivers.told:
        found = TOLD.search(text)
        assert found is not None and int(found[1]) < int(found[2]) <= drivers.history.generations, text
    run.note("drivers told who replaced them", len(drivers.told))


class HoldsBack(DictStore):
    """A store that can hold what tasks write back, and let it arrive later."""

    def __init__(self) -> None:
        super().__init__()
        self.holding = False
        self.held: dict[str, bytes] = {}

    def put(self, path: str, data: bytes) -> None:
        (self.held if self.holding else self.objects)[path] = data

    def arrive(self) -> int:
        """What was held back is there now; how much that was."""
        self.objects |= self.held
        late, self.held = len(self.held), {}
        return late


class ReplacesAttempts(LocalExecutor):
    """Every task runs twice; the first attempts' writes arrive when the second ones' are committed."""

    late = 0
    """How many did."""

    def run(self, spec: EpochSpec, splits: Sequence[tuple[str, Split]], rows: Sequence[Message]) -> list[Message]:
        store = self._slow()
        store.holding = True
        try:
            super().run(spec, splits, rows)
        finally:
            store.holding = False
        return super().run(spec, splits, rows)

    def committed(self, epoch: int, records: int) -> None:
        self.late += self._slow().arrive()
        super().committed(epoch, records)

    def _slow(self) -> HoldsBack:
        assert isinstance(self._storage, HoldsBack)
        return self._storage


NUMBERS = count()


class Lottery(Computation):
    """Draws a number that differs whenever it runs, keeps it and puts it out with those before.

    Fails if something is `missing`.
    """

    def __init__(self, missing: Sequence[str] = ()) -> None:
        self._missing = missing

    def process_record(self, record: Record, context: Context) -> None:
        assert not self._missing, "a file is missing"
        drawn = [*cast("list[int]", context.state or []), next(NUMBERS)]
        context.state = drawn
        context.produce("drawn", (context.key, tuple(drawn)))


ROWS = [(at * 3 % 8, at) for at in range(40)]


class Until(Scheduler):
    """Does something at a step of an epoch."""

    def __init__(self, at: tuple[str, int], then: Callable[[], None]) -> None:
        self._at, self._then = at, then

    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == self._at:
            self._then()


def die() -> None:
    raise Crash


def draw(
    store: DictStore,
    outside: Outside,
    scheduler: Scheduler | None = None,
    executor: type[LocalExecutor] = LocalExecutor,
    computation: Computation | None = None,
) -> LocalExecutor:
    """One driver of a lottery, to its end or a crash."""
    topology, clock, scheduler = Topology(), ManualClock(), scheduler or Scheduler()
    topology.injector("in", BoundedInjector(ROWS))
    topology.computation("lottery", computation or Lottery(), {"in": lambda value: value}, ["drawn"])
    topology.sink("drawn", "drawn", outside.take("drawn"))
    journal = CheckpointJournal(store, topology, clock, "local runner")
    made = executor(topology, 2, scheduler, store, journal.generation)
    with suppress(Crash):
        Driver(topology, made, journal, clock, RunOptions(intervals=2, max_records_per_epoch=6), scheduler).run()
    return made


def check_drawn(outside: Outside, run: Tally) -> None:
    """Each key's numbers are one history: what came out once is what was kept."""
    for key in range(8):
        histories = sorted((drawn for who, drawn in outside.values("drawn") if who == key), key=len)
        assert [len(drawn) for drawn in histories] == list(range(1, len(histories) + 1))
        assert all(drawn == histories[-1][: len(drawn)] for drawn in histories), "a mixture of attempts"
    run.compare([key for key, _ in ROWS], [who for who, _ in outside.values("drawn")])


@pytest.mark.parametrize(
    "step", ["plan", "run level 1 task 0", "saved level 1 task 0", "commit", "committed", "deliver"]
)
def test_late_writes_of_replaced_attempts_change_nothing(tally: Callable[[int], Tally], step: str) -> None:
    run = tally(3)
    for epoch in range(2, 7):
        run.plan(2)
        store, outside = HoldsBack(), Outside()
        # The second driver reads what the first one's tasks left.
        for scheduler in (Until((step, epoch), die), Scheduler()):
            executor = draw(store, outside, scheduler, ReplacesAttempts)
            assert isinstance(executor, ReplacesAttempts)
            run.fire(executor.late > 0)
        check_drawn(outside, run)


def test_what_fails_because_the_driver_was_replaced_is_told_as_that(tally: Callable[[int], Tally]) -> None:
    run, store, outside = tally(3), DictStore(), Outside()
    missing: list[str] = []

    def overtaken() -> None:
        draw(store, outside)
        missing.append("what only the driver before needs")
        run.fire()

    run.plan()
    with pytest.raises(FencedError, match=TOLD) as told:
        draw(store, outside, Until(("run level 1 task 0", 3), overtaken), computation=Lottery(missing))
    assert "a file is missing" in str(told.value.__context__)
    check_drawn(outside, run)
