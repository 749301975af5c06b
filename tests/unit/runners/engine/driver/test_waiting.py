"""How long an idle driver waits: until an injector says, until it wakes the driver, or for `poll_seconds`."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from headrace.lowlevel import (
    BaseInjector,
    CallSink,
    Computation,
    Context,
    Delivery,
    InjectorProcess,
    ProcessInjector,
    Record,
    Topology,
)
from headrace.lowlevel.injectors.handover_log import notify
from headrace.lowlevel.injectors.injector import EndedInjector, MemorySplit, WakingInjector
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.engine.activity import Activity
from headrace.runners.engine.clock import ManualClock, Wakeup
from headrace.runners.engine.driver.journal import JournalState
from headrace.runners.engine.driver.planning import Plan, Planner
from headrace.runners.engine.driver.running_topology import RunningTopology
from headrace.runners.engine.executor import Executor
from headrace.runners.engine.options import Hooks, RunOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.io.sequences import Beat, TickInjector
from headrace.sdk.io.socket_source import SocketInjector
from headrace.sdk.io.text.text_files import ReadFromText

FOREVER = 3600.0


class Echo(Computation):
    def process_record(self, record: Record, context: Context) -> None:
        context.produce("echoes", record.value)


class Noting(ManualClock):
    """A clock that notes how long it was asked to wait, in seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, micros: int, wakeup: Wakeup) -> None:
        self.waits.append(micros / 1e6)
        super().wait(micros, wakeup)


class Quiet(BaseInjector):
    """Idle a few times, each time for so many seconds, then at its end."""

    def __init__(self, *spans: float | None) -> None:
        # The first epoch of a run does not wait.
        self.spans = [0.0, *spans]

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        if not self.spans:
            return Delivery([], position, done=True)
        return Delivery([], position, idle=True, quiet_seconds=self.spans.pop(0))


def topology(**injectors: BaseInjector) -> Topology:
    made = Topology()
    for name, injector in injectors.items():
        made.injector(name, injector)
    made.computation("echo", Echo(), {name: lambda value: value for name in injectors}, ["echoes"])
    return made


@pytest.mark.parametrize(
    ("injectors", "waits"),
    [
        ({"a": Quiet(None, 7.0, FOREVER * 2)}, [0.25, 7.0, FOREVER]),
        ({"a": Quiet(7.0, 3.0), "b": Quiet(9.0, 2.0)}, [7.0, 2.0]),
        ({"a": Quiet(7.0), "b": Quiet(None)}, [0.25]),
        ({"a": Quiet(0.0)}, [0.0]),
    ],
)
def test_the_driver_waits_as_long_as_all_injectors_are_quiet(
    injectors: dict[str, BaseInjector], waits: list[float]
) -> None:
    clock = Noting()
    LocalRunner(clock=clock).run_topology(topology(**injectors), RunOptions(poll_seconds=0.25))
    assert clock.waits == waits


@pytest.mark.parametrize(("pending", "span"), [((), FOREVER), (("a production",), 0.25)])
def test_sinks_that_have_not_acknowledged_are_asked_again(pending: tuple[str, ...], span: float) -> None:
    """They acknowledge in threads that wake nobody, even if no injector has anything more."""
    clock = Noting()
    planner = Planner(cast(Executor, None), clock, RunOptions(poll_seconds=0.25), Hooks(), Wakeup(), Activity(1))
    state = SimpleNamespace(done={"a"}, pending=pending, wall_timers={})
    running = SimpleNamespace(
        topology=topology(a=Quiet(), b=Quiet()), stragglers=SimpleNamespace(next_due=lambda: None)
    )
    deliveries = {"a": Delivery([], 0, done=True, idle=True), "b": Delivery([], 0, idle=True, quiet_seconds=FOREVER)}
    planner.wait(Plan(deliveries, 0), cast(RunningTopology, running), cast(JournalState, state))
    assert clock.waits == [span]


class Waking(BaseInjector):
    """Delivers a record when another thread has said so."""

    def __init__(self) -> None:
        self.wake: Callable[[], None] = lambda: None
        self.is_ready = False
        self.timer = threading.Timer(0.3, self.arrive)

    def wake_by(self, wake: Callable[[], None]) -> None:
        self.wake = wake

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        if not self.is_ready:
            if self.timer.ident is None:
                self.timer.start()
            return Delivery([], position, idle=True, quiet_seconds=FOREVER)
        return Delivery([MemorySplit(Batch(["record"], [0]))], position, done=True)

    def arrive(self) -> None:
        self.is_ready = True
        self.wake()


@pytest.mark.parametrize("wrap", [lambda injector: injector, EndedInjector], ids=["as it is", "wrapped"])
def test_an_injector_wakes_the_driver(wrap: Callable[[BaseInjector], BaseInjector]) -> None:
    injector = Waking()
    assert isinstance(wrap(injector), WakingInjector)
    began, rows = time.monotonic(), []
    made = topology(records=injector)
    made.sink("rows", "echoes", CallSink(lambda epoch, found: rows.extend(found)))
    LocalRunner().run_topology(made)
    injector.timer.join()
    assert rows == [("record", 0)] and time.monotonic() - began < 30


def test_a_line_wakes_the_driver() -> None:
    woken = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        injector = SocketInjector("127.0.0.1", server.getsockname()[1], 5.0)
        injector.wake_by(woken.set)
        first = injector.plan(0, 10, 1)
        sender, _ = server.accept()
        idle = injector.plan(0, 10, 1)
        assert first.quiet_seconds is None and idle.idle and 0.5 < (idle.quiet_seconds or 0) <= 1
        sender.sendall(b"a line\n")
        assert woken.wait(10)
        assert injector.plan(0, 10, 1).splits
        woken.clear()
        sender.close()
        assert woken.wait(10)
        assert injector.plan(1, 10, 1).done
        for thread in threading.enumerate():
            if thread.name == "lines":
                thread.join(10)


class Announced:
    """A process and the injector that it hands its records to, which has read everything so far."""

    def __init__(self, place: Path, *names: str) -> None:
        self.processes = {name: InjectorProcess.open(place, name) for name in names}
        self.injector = ProcessInjector(place, names)
        self.woken = threading.Event()
        self.injector.wake_by(self.woken.set)
        self.position = self.injector.start()
        while not self.plan().idle:
            pass
        self.woken.clear()

    def plan(self) -> Delivery:
        delivery = self.injector.plan(self.position, 10, 1)
        self.position = delivery.position
        return delivery

    def write(self, name: str) -> None:
        self.processes[name].write([("record", 0)])


@pytest.fixture
def announced(tmp_path: Path) -> Iterator[Announced]:
    made = Announced(tmp_path / "place", "host-a", "host-b")
    yield made
    made.injector.run_ended()
    assert "notifications" not in {thread.name for thread in threading.enumerate()}


def test_a_process_wakes_the_driver(announced: Announced) -> None:
    assert announced.plan().quiet_seconds == 1.0
    announced.write("host-a")
    assert announced.woken.wait(10)
    assert announced.plan().splits and announced.plan().quiet_seconds == 1.0


def test_while_processes_of_other_hosts_hand_over_the_driver_keeps_asking(
    announced: Announced, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(announced.processes["host-a"], "_pipe", None)
        announced.write("host-a")
        assert announced.plan().splits and announced.plan().quiet_seconds is None
        announced.write("host-b")
        assert announced.woken.wait(10)
        assert announced.plan().splits and announced.plan().quiet_seconds is None
    announced.woken.clear()
    announced.write("host-a")
    assert announced.woken.wait(10)
    assert announced.plan().quiet_seconds == 1.0


def test_a_process_elsewhere_that_has_closed_is_not_waited_for(announced: Announced) -> None:
    announced.processes["host-a"]._pipe = None
    announced.processes["host-a"].close()
    assert not announced.plan().idle and announced.plan().quiet_seconds == 1.0


def test_only_expected_processes_wake_the_driver(announced: Announced, tmp_path: Path) -> None:
    pipe = tmp_path / "place" / "notifications"
    for line in ("host-c", "\0", "", "host-b"):
        notify(pipe, line)
    assert announced.woken.wait(10)
    assert announced.injector._pipe is not None
    assert announced.injector._pipe.heard() == {"host-b"}


@pytest.mark.parametrize("place", ["memory", "a file in the way", "no listener"])
def test_without_a_pipe_the_driver_asks_at_intervals(place: str, tmp_path: Path) -> None:
    store = ObjectStore("memory://" if place == "memory" else tmp_path / "place")
    injector = ProcessInjector(store, ["host-a"])
    if place != "no listener":
        injector.wake_by(lambda: None)
    process = InjectorProcess.open(store, "host-a")
    if place == "a file in the way":
        (tmp_path / "place" / "notifications").write_text("mine")
    process.write([("record", 0)])
    first = injector.plan(injector.start(), 10, 1)
    assert first.splits and injector.plan(first.position, 10, 1).quiet_seconds is None
    if place == "a file in the way":
        assert (tmp_path / "place" / "notifications").read_text() == "mine"
    injector.run_ended()


def test_a_hand_over_is_read_at_once_and_the_pipe_closed_with_the_run(tmp_path: Path) -> None:
    rows: list[tuple[object, int]] = []
    arrived = threading.Event()

    def take(epoch: int, found: list[tuple[object, int]]) -> None:
        rows.extend(found)
        arrived.set()

    made = topology(records=ProcessInjector(tmp_path, ["host-a"]))
    made.sink("rows", "echoes", CallSink(take))
    process = InjectorProcess.open(tmp_path, "host-a")
    run = threading.Thread(target=LocalRunner().run_topology, args=(made, RunOptions(poll_seconds=FOREVER)))
    run.start()
    process.write([("record", 0)])
    assert arrived.wait(10)
    process.close()
    run.join(10)
    assert rows == [("record", 0)] and not run.is_alive()
    assert "notifications" not in {thread.name for thread in threading.enumerate()}


def test_ticks_say_when_the_next_one_is_due() -> None:
    now = 1_000_000
    injector = TickInjector(lambda numbers, times: (numbers, times), Beat(4, 10_000_000), 0, None, now=lambda: now)
    assert injector.plan((0, 0), 10, 1).quiet_seconds is None
    idle = injector.plan((1, 0), 10, 1)
    assert idle.idle and idle.quiet_seconds == 1.5


def test_a_folder_says_when_it_is_looked_at_again(tmp_path: Path) -> None:
    injector = ReadFromText(str(tmp_path / "*"), continuous=True, interval=20.0, validate=False).injector()
    idle = injector.plan(injector.start(), 10, 1)
    assert idle.idle and 15 < (idle.quiet_seconds or 0) <= 20
