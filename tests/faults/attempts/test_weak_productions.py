"""Weak productions leave before the commit: never lost, perhaps repeated; strong ones beside them are exact."""

from itertools import count
from random import Random

import pytest

from headrace.lowlevel import BoundedInjector, CallSink, Computation, ManualInjector, SendSink, Topology
from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.errors import CheckpointError, StepError
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.engine.clock import ManualClock
from headrace.runners.engine.driver.driver import Driver
from headrace.runners.engine.driver.journal import Journal
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner, Scheduler
from tests.faults.attempts.test_strong_productions import KEY, Keep, LosesATask
from tests.faults.mixed import DELAY, STRONG, WEAK, World, check, topology
from tests.schedulers import RandomScheduler

pytestmark = pytest.mark.faults


class Fixed(RandomScheduler):
    """Bundles of a fixed size, so that epochs are the same in every life."""

    def bundle_size(self, epoch, limit):
        return 16


def live(world, checkpoint, scheduler):
    """One life of a driver; None if it crashed."""
    runner = LocalRunner(world.clock, scheduler, intervals=3, parallelism=2)
    options = RunOptions(str(checkpoint), max_records_per_epoch=16, straggler_delay=DELAY)
    try:
        return runner.run_topology(topology(world), options)
    except Crash:
        return None


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """What comes out where nothing fails, and how many steps that takes."""
    world, scheduler = World(), Fixed(0)
    result = live(world, tmp_path_factory.mktemp("reference"), scheduler)
    assert max(world.weak["alerts"].values()) == 1, "nothing is repeated where nothing fails"
    return world, result, scheduler.steps


def pending_of(checkpoint):
    return Checkpoint.read(ObjectStore(str(checkpoint))).manifest.pending


def test_crash_at_every_step_loses_nothing_weak_and_changes_nothing_strong(tmp_path, reference):
    expected, result, steps = reference
    crashes = repeats = 0
    for step in range(1, steps + 1):
        world, place = World(), tmp_path / f"at-{step}"
        assert live(world, place, Fixed(step, crash_at=step)) is None, "the fault did not fire"
        crashes += 1
        again = live(world, place, Fixed(step + 1))
        repeats += check(world, expected, f"crash at step {step}") > 0
        assert again.counters == result.counters, f"crash at step {step}"
    assert crashes == steps > 50
    assert 0 < repeats < crashes, "a crash between release and commit repeats, another one does not"


def test_sinks_that_take_long_or_refuse_and_drivers_that_crash(tmp_path, reference, tally):
    expected, _, _ = reference
    run, crashes = tally(1), 0
    for seed in run.seeds(quick=20, full=250):
        run.plan()
        choices = Random(seed)
        world, place = World(Random(seed + 1)), tmp_path / f"at-{seed}"
        for life in range(choices.randrange(1, 4)):
            crashes += live(world, place, Fixed(seed + life, crash_at=choices.randrange(1, 70))) is None
        result = live(world, place, Fixed(seed))
        run.fire(world.slow + world.refused > 0)
        for name in STRONG:
            run.compare(expected.values(name), world.values(name), name)
        for name in WEAK:
            run.compare(expected.weak[name], set(world.weak[name]), name)
        run.note("weak rows repeated", check(world, expected, f"seed {seed}"))
        assert sum(result.counters[name]["rows"] for name in WEAK) == sum(map(len, expected.weak.values()))
        assert pending_of(place) == (), "what is acknowledged is still in the checkpoint"
    assert crashes > 0, "no driver crashed"


class Even(Computation):
    strong_productions = False

    def process_record(self, record, context):
        if record.value % 2 == 0:
            context.produce("even", record.value)


def test_a_straggler_is_checkpointed_survives_a_restart_and_is_released_again(tmp_path):
    """Figure 11 of the paper: B checkpoints its production after a second, restarts, and delivers it to C."""
    tries, taken, committed = [], [], []

    def send(epoch, rows):
        tries.append(epoch)
        if awake:
            taken.extend(value for value, _ in rows)
        return awake

    def run(scheduler):
        made = Topology()
        made.injector("in", BoundedInjector([(n, n) for n in range(6)]))
        made.computation("even", Even(), {"in": lambda value: value}, ["even", "rest"])
        made.sink("even", "even", SendSink(send))
        made.sink("all", "in", CallSink(lambda epoch, rows: committed.append(epoch)))
        options = RunOptions(str(tmp_path), max_records_per_epoch=2)
        return LocalRunner(scheduler=scheduler).run_topology(made, options)

    class AtEpoch3(Scheduler):
        def step(self, name, epoch):
            if (name, epoch) == ("plan", 4):
                raise Crash

    awake = False
    with pytest.raises(Crash):
        run(AtEpoch3())
    assert committed == [1, 2, 3], "epochs do not wait for the sink"
    assert taken == [] and len(tries) >= 3
    assert [(item.level, item.consumer) for item in pending_of(tmp_path)] == [(0, "even")] * 3
    awake = True
    result = run(Scheduler())
    assert sorted(taken) == [0, 2, 4]
    assert result.counters["even"]["stragglers"] == 3
    assert pending_of(tmp_path) == ()


def test_a_straggler_of_a_sink_that_is_gone_is_refused(tmp_path):
    def build(sink):
        made = Topology()
        made.injector("in", ManualInjector().records((1, 1)))
        made.computation("weak", Weak(), {"in": lambda value: KEY}, ["out"])
        made.sink("out", "out", sink)
        return made

    class Weak(Computation):
        strong_productions = False

        def process_record(self, record, context):
            context.produce("out", record.value)

    class Stop(Scheduler):
        def step(self, name, epoch):
            if name == "delivered":
                raise Crash

    with pytest.raises(Crash):
        LocalRunner(scheduler=Stop()).run_topology(build(SendSink(lambda *_: False)), RunOptions(str(tmp_path)))
    del Weak.strong_productions

    class SendSinkOfOld(CallSink):
        pass

    SendSinkOfOld.__qualname__ = "SendSink"
    with pytest.raises(CheckpointError, match="sink 'out' has not acknowledged productions that it got before"):
        LocalRunner().run_topology(build(SendSinkOfOld(lambda *_: None)), RunOptions(str(tmp_path)))


def test_what_a_release_raises_names_the_sink():
    class Weak(Computation):
        strong_productions = False

        def process_record(self, record, context):
            context.produce("out", record.value)

    def broken(epoch, rows):
        raise ConnectionError("refused")

    made = Topology()
    made.injector("in", BoundedInjector([(1, 1)]))
    made.computation("weak", Weak(), {"in": lambda value: value}, ["out"])
    made.sink("service", "out", SendSink(broken))
    with pytest.raises(StepError, match=r"(?s)service.*ConnectionError: refused"):
        LocalRunner().run_topology(made)


# Mixed attempts

NUMBERS = count()


class Random8(Computation):
    """Sends to eight keys a number that differs each time it runs."""

    strong_productions = False
    wanders = False
    """Whether the keys differ, too."""

    def process_record(self, record, context):
        number = next(NUMBERS)
        for target in range(8):
            context.produce("out", (target + (8 * number if self.wanders else 0), record.value, number))
        context.produce("said", number)


class Wandering(Random8):
    wanders = True


class Beside(Computation):
    """Strong, in the same task."""

    def process_record(self, record, context):
        context.produce("out too", (0, record.value, next(NUMBERS)))


def mixed(computation, times, strong_beside=False):
    made, kept = Topology(), []
    made.injector("in", BoundedInjector([("a", 1)]))
    made.computation("random", computation, {"in": lambda value: KEY}, ["out", "said"])
    streams = ["out"]
    if strong_beside:
        made.computation("beside", Beside(), {"in": lambda value: KEY}, ["out too"])
        streams.append("out too")
    made.computation("keep", Keep(), dict.fromkeys(streams, lambda value: value[0]), ["kept"])
    made.sink("kept", "kept", CallSink(lambda epoch, rows: kept.extend(value for value, _ in rows)))
    executor = LosesATask(made, times)
    Driver(made, executor, Journal(), ManualClock(), RunOptions(intervals=2)).run()
    return kept, executor.fired


def test_a_mixture_of_weak_attempts_is_committed_at_once(many_tasks):
    kept, fired = mixed(Random8(), times=99)
    # Watermarks of many tasks come one epoch later, so there is a second epoch.
    assert fired == (1 if many_tasks > 2 else 2), "an epoch was run again"
    assert sorted(target for target, _, _ in kept) == list(range(8))
    assert len({number for _, _, number in kept}) == 2, "the fault did not fire: there is no mixture"


def test_weak_attempts_that_reach_other_keys_are_not_mixed_as_records_would_be_lost(many_tasks):
    kept, fired = mixed(Wandering(), times=2)
    assert fired == 2, "the fault did not fire"
    assert len(kept) == 8 and len({number for _, _, number in kept}) == 1


def test_a_strong_production_in_the_same_task_keeps_attempts_apart(many_tasks):
    kept, fired = mixed(Random8(), times=2, strong_beside=True)
    assert fired == 2, "the fault did not fire"
    assert len(kept) == 9 and len({number for _, _, number in kept}) == 2
