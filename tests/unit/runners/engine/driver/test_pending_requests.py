"""Whoever asks a running pipeline for something gets an answer: an epoch or an error; a stop is heard."""

from __future__ import annotations

from threading import Event

import pytest

from headrace.lowlevel import (
    BaseInjector,
    Batch,
    BoundedInjector,
    Computation,
    Context,
    Delivery,
    MemorySplit,
    Record,
    SendSink,
    StepError,
    TimeDomain,
    Topology,
)
from headrace.lowlevel.checkpoint import Consent
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.lowlevel.topology.topology import joined_topology, reduced_topology
from headrace.runners.engine.clock import SystemClock, Wakeup
from headrace.runners.engine.driver import driver
from headrace.runners.engine.driver.background_run import Running
from headrace.runners.engine.driver.topology_change import RunOverError
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner, Scheduler
from headrace.runners.local.executor import LocalExecutor

SECONDS = 60
"""Long enough for whatever is not waited for an hour."""
HOUR = 3600


class Open(BaseInjector):
    """Has something at the beginning, then nothing, and never ends."""

    max_delay = 0

    def start(self) -> object:
        return 0

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        if position == 0:
            return Delivery([MemorySplit(Batch([1], [1]))], 1)
        return Delivery([], 1, idle=True)


class Count(Computation):
    def process_record(self, record: Record, context: Context) -> None:
        context.state = int(str(context.state or 0)) + 1


class Fails(Count):
    def process_record(self, record: Record, context: Context) -> None:
        raise ValueError("as told")


class InAnHour(Computation):
    """Waits for the wall clock, long after its input has ended."""

    def process_record(self, record: Record, context: Context) -> None:
        context.hold(record.timestamp)
        context.set_timer("hour", context.wall_time + HOUR * 10**6, TimeDomain.WALL_TIME)


class Weak(Computation):
    strong_productions = False

    def process_record(self, record: Record, context: Context) -> None:
        context.produce("out", record.value)


class Watched(SystemClock):
    """Says when the driver begins to wait."""

    def __init__(self) -> None:
        self.waits = Event()

    def wait(self, micros: int, wakeup: Wakeup) -> None:
        self.waits.set()
        super().wait(micros, wakeup)


def identity(value: object) -> object:
    return value


def counting(*names: str, injector: BaseInjector | None = None, computation: Computation | None = None) -> Topology:
    made = Topology()
    made.injector("in", injector or Open())
    for name in names or ("count",):
        made.computation(name, computation or Count(), {"in": identity})
    return made


def started(topology: Topology, **options: object) -> tuple[Running, Watched]:
    """A run that has nothing left to do for now."""
    clock = Watched()
    given = RunOptions(poll_seconds=HOUR, **options)  # type: ignore[arg-type]  # options of several types
    running = LocalRunner(clock).start(topology, given)
    assert clock.waits.wait(SECONDS)
    return running, clock


def later(running: Running) -> str:
    """What somebody is told who asks when the run is over."""
    with pytest.raises(RunOverError) as refusal:
        running.update(counting("later"))
    return str(refusal.value)


# Changes


def fail_to_switch(patch: pytest.MonkeyPatch) -> None:
    def switch() -> None:
        raise OSError("no switch")

    patch.setattr(LocalExecutor, "prepare", lambda self, topology: (topology, switch))


def fail_to_begin(patch: pytest.MonkeyPatch) -> None:
    def begin(self: driver.Driver, topology: Topology) -> None:
        raise OSError("no beginning")

    patch.setattr(driver.Driver, "_begin", begin)


def be_interrupted(patch: pytest.MonkeyPatch) -> None:
    def prepare(self: LocalExecutor, topology: Topology) -> None:
        raise KeyboardInterrupt("no preparation")

    patch.setattr(LocalExecutor, "prepare", prepare)


@pytest.mark.parametrize("way", [fail_to_switch, fail_to_begin, be_interrupted])
def test_a_change_ends_with_the_error_that_ends_the_run(way, monkeypatch):
    running, _ = started(counting())
    way(monkeypatch)
    asked = [running.changes.request(lambda _: counting("count", "more"), Consent()) for _ in range(2)]
    for each in asked:
        # One is under way when the run ends, the other waits for its turn.
        assert "no " in str(each.exception(SECONDS))
    with pytest.raises((OSError, KeyboardInterrupt), match="no "):
        running.wait(SECONDS)
    assert "the run ended with an error, after which start the changed pipeline on its checkpoint" in later(running)


def test_a_change_ends_with_the_error_of_the_epoch_before_it():
    scheduler, asked = Scheduler(), []
    running_of, begin = [], Event()

    def ask(name, epoch):
        begin.wait(SECONDS)
        if name == "plan" and not asked:
            asked.append(running_of[0].changes.request(lambda _: counting("other"), Consent()))

    scheduler.step = ask
    running_of.append(LocalRunner(scheduler=scheduler).start(counting(computation=Fails())))
    begin.set()
    with pytest.raises(StepError, match="as told"):
        running_of[0].wait(SECONDS)
    with pytest.raises(StepError, match="as told"):
        asked[0].result(SECONDS)
    assert "StepError" in later(running_of[0]) and "as told" in later(running_of[0])


def test_a_change_is_refused_when_the_run_was_stopped():
    running, _ = started(counting())
    running.stop()
    running.wait(SECONDS)
    assert later(running) == "the run is over; start the changed pipeline on its checkpoint"


# Waits


def an_hours_timer() -> Topology:
    return counting(injector=BoundedInjector([(1, 1)]), computation=InAnHour())


def a_sink_that_never_acknowledges() -> Topology:
    made = Topology()
    made.injector("in", BoundedInjector([(1, 1)]))
    made.computation("weak", Weak(), {"in": identity}, ["out"])
    made.sink("deaf", "out", SendSink(lambda epoch, rows: False))
    return made


WAITS = {
    "a timer": (an_hours_timer, {}),
    "input": (counting, {}),
    "an acknowledgement": (a_sink_that_never_acknowledges, {"straggler_delay": float(HOUR)}),
}


@pytest.mark.parametrize("what", WAITS)
def test_who_waits_hears_a_stop(what):
    made, options = WAITS[what]
    running, _ = started(made(), **options)
    running.stop()
    running.wait(SECONDS)
    assert not running.changes.finished


@pytest.mark.parametrize("what", WAITS)
def test_who_waits_hears_of_a_change(what):
    made, options = WAITS[what]
    running, _ = started(made(), **options)
    more = Topology()
    more.injector("besides", Open())
    more.computation("new", Count(), {"besides": identity})
    added = running.changes.request(lambda now: joined_topology(now, more), Consent()).result(SECONDS)
    consent = Consent(removed=["new", "besides"])
    removed = running.changes.request(lambda now: reduced_topology(now, ["new", "besides"]), consent).result(SECONDS)
    assert 0 < added < removed
    running.stop()
    running.wait(SECONDS)


def test_a_timer_for_the_end_of_time_can_be_waited_for():
    class Never(InAnHour):
        def process_record(self, record: Record, context: Context) -> None:
            context.hold(record.timestamp)
            context.set_timer("never", MAX_TIMESTAMP - 1, TimeDomain.WALL_TIME)

    running, _ = started(counting(injector=BoundedInjector([(1, 1)]), computation=Never()))
    running.stop()
    running.wait(SECONDS)
